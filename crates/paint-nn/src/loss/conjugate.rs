//! The conjugate pseudo-label loss for sources trained with PolyLoss (Goyal et al. 2022).
//!
//! A source trained with plain cross-entropy has `softmax(z)` as its conjugate label, and the loss is
//! [`super::entropy`]. PolyLoss adds `ε (1 − p_y)`; the label `y` then solves
//! `(I + ε diag(p) − ε p pᵀ) y = p`, a diagonal matrix minus a rank-one term, which Sherman-Morrison inverts in closed
//! form: `u = p / (1 + ε p)`, `y = u / (1 − ε Σ p u)`. `Σ_k y_k = 1`.

use paint_tensor::Tensor;

use crate::error::Result;

/// `LSE(z) − Σ_k [y_k z_k − ε y_k (1 − p_k)]` with gradients through `y`.  `[B, C]` logits → `[B]`.
pub fn poly_conjugate(logits: &Tensor, eps: f32) -> Result<Tensor> {
    let [b, _] = logits.dims2("logits")?;
    let log_p = logits.log_softmax()?;
    let p = log_p.exp()?;
    let u = p.div(&p.scale(eps)?.add_scalar(1.0)?)?;
    let shrink = p.mul(&u)?.sum(1)?.scale(-eps)?.add_scalar(1.0)?.reshape([b, 1])?; // 1 − ε Σ p u
    let y = u.div(&shrink)?;
    // LSE(z) − Σ y z = −Σ y ln p, because Σ y = 1.
    let penalty = p.neg()?.add_scalar(1.0)?.scale(eps)?;
    Ok(y.mul(&penalty.sub(&log_p)?)?.sum(1)?)
}
