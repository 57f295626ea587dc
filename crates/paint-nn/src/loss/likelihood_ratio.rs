//! The soft likelihood ratio of ROID (Marsden et al. 2024), whose gradient does not fade where a prediction is sure.

use paint_tensor::Tensor;

use crate::error::Result;

/// Probabilities above this count as this, without gradients.
const CLIP: f32 = 0.99;
/// What is added to a ratio of probabilities, so that its logarithm is finite.
const EPSILON: f32 = 1e-5;

/// `−Σ_c p_c ln(p_c / (1 − p_c) + 1e-5)` with `p` clipped at 0.99.  `[B, C]` logits → `[B]`.
pub fn soft_likelihood_ratio(logits: &Tensor) -> Result<Tensor> {
    let p = logits.softmax()?;
    let values = p.to_vec()?;
    let constant = |value: f32| -> Result<Tensor> {
        let chosen = values.iter().map(|p| if *p > CLIP { value } else { 1.0 - value });
        Ok(Tensor::from_vec(chosen.collect(), p.shape(), p.device())?)
    };
    // What is clipped is a constant: 1 where it is not, and 0.99 where it is.
    let p = p.mul(&constant(0.0)?)?.add(&constant(1.0)?.scale(CLIP)?)?;
    let ratio = p.div(&p.neg()?.add_scalar(1.0)?)?;
    Ok(p.mul(&ratio.add_scalar(EPSILON)?.log()?)?.sum(1)?.neg()?)
}
