//! The losses as PAINT's released code computes them: its cross-entropy applies `log_softmax` to probabilities.
//!
//! With `LSE(v) = ln Σ exp v` and `Σ_k p_k = 1` the terms become quadratic in `p`: for many classes `LSE(p)` is
//! nearly constant, and what remains is a Gini mutual information and a linear label loss. Gradients flow through both
//! factors, as in that code.

use paint_tensor::Tensor;

use super::cross_entropy::MixedLabels;
use crate::error::Result;

/// `L_ent = (1/B) Σᵢ [LSE(pᵢ) − ‖pᵢ‖²]`.  `[B, C]` logits → `[]`.
pub fn double_softmax_entropy(logits: &Tensor) -> Result<Tensor> {
    self_cross_entropy(&logits.softmax()?)
}

/// `L_div = LSE(p̄) − ‖p̄‖²`.  `[B, C]` logits → `[]`.
pub fn double_softmax_diversity(logits: &Tensor) -> Result<Tensor> {
    let [_, c] = logits.dims2("logits")?;
    self_cross_entropy(&logits.softmax()?.mean(0)?.reshape([1, c])?)
}

/// `L_ic = (1/n) Σ [LSE(p̃_n) − λ p̃_n[y_n] − (1 − λ) p̃_n[y_π(n)]]`.  `[M, C]` logits of the mixed samples → `[]`.
pub fn double_softmax_consistency(
    logits: &Tensor,
    labels: MixedLabels<'_>,
    denominator: usize,
) -> Result<Tensor> {
    let log_s = logits.softmax()?.log_softmax()?;
    Ok(labels.log_likelihood(&log_s)?.scale(-1.0 / denominator.max(1) as f32)?)
}

/// The mean over rows of `−Σ_k p_k ln softmax(p)_k`.
fn self_cross_entropy(p: &Tensor) -> Result<Tensor> {
    Ok(p.mul(&p.log_softmax()?)?.sum(1)?.neg()?.mean_all()?)
}
