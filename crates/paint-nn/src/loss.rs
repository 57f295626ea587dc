//! Losses as free functions of logits.
//!
//! Symbols: `z` logits `[B, C]`, `p = softmax(z)`, `p̄` its mean over the batch, `y` class labels, `λ` the mixing
//! weight, `H` Shannon entropy in nats. Equation numbers are those of the PAINT paper unless another paper is named.
//!
//! Everything goes through `log_softmax`, so that a probability that underflows to zero contributes zero and never
//! NaN. A function that returns `[B]` leaves the mean, the filter or the weights to its caller.

mod conjugate;
mod contrastive;
mod cross_entropy;
mod divergence;
mod double_softmax;
mod likelihood_ratio;
mod moments;
mod opinion;

pub use conjugate::poly_conjugate;
pub use contrastive::supervised_contrastive;
pub use cross_entropy::{
    MixedLabels, cross_entropy, cross_entropy_soft, interpolation_consistency,
    symmetric_cross_entropy,
};
pub use divergence::symmetric_divergence;
pub use double_softmax::{
    double_softmax_consistency, double_softmax_diversity, double_softmax_entropy,
};
pub use likelihood_ratio::soft_likelihood_ratio;
pub use moments::{distance, moment_distance, row_moments};
pub use opinion::opinion_entropy;

use paint_tensor::Tensor;

use crate::error::Result;

/// `H(pᵢ) = −Σ_c p_ic ln p_ic`, in nats.  `[B, C]` logits → `[B]`.
pub fn entropy(logits: &Tensor) -> Result<Tensor> {
    let log_p = logits.log_softmax()?;
    Ok(log_p.exp()?.mul(&log_p)?.sum(1)?.neg()?)
}

/// `(1/B) Σᵢ H(pᵢ)`, the loss of TENT.  `[B, C]` logits → `[]`.
pub fn mean_entropy(logits: &Tensor) -> Result<Tensor> {
    Ok(entropy(logits)?.mean_all()?)
}

/// `H(p̄)`, the entropy of the batch's mean prediction.  `[B, C]` logits → `[]`.
pub fn marginal_entropy(logits: &Tensor) -> Result<Tensor> {
    let p_bar = logits.softmax()?.mean(0)?; // [C]
    // A class that underflows in every row has p̄ = 0: the smallest normal number keeps its logarithm finite and
    // changes no other value, and the factor p̄ then makes the term the zero it should be.
    let log_p_bar = p_bar.add_scalar(f32::MIN_POSITIVE)?.log()?;
    Ok(p_bar.mul(&log_p_bar)?.sum_all()?.neg()?)
}

/// `L_mi = (1/B) Σᵢ H(pᵢ) − H(p̄)` (Eq. 6): minus the mutual information of input and prediction.
/// `[B, C]` logits → `[]`.
pub fn mutual_information(logits: &Tensor) -> Result<Tensor> {
    Ok(mean_entropy(logits)?.sub(&marginal_entropy(logits)?)?)
}

#[cfg(test)]
mod tests;
