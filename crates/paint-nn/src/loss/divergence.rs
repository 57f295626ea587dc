//! How far two predictions lie apart.

use paint_tensor::Tensor;

use crate::error::Result;

/// `KL(p ‖ q) + KL(q ‖ p) = Σ_c (p_c − q_c)(ln p_c − ln q_c)`, with `p = softmax(a)` and `q = softmax(b)` (ZeroSiam,
/// Eq. 4). Gradients flow into both; detach the one that is fixed.  Two `[B, C]` logits → `[B]`.
pub fn symmetric_divergence(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (log_p, log_q) = (a.log_softmax()?, b.log_softmax()?);
    let (p, q) = (log_p.exp()?, log_q.exp()?);
    Ok(p.sub(&q)?.mul(&log_p.sub(&log_q)?)?.sum(1)?)
}
