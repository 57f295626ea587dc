//! The entropy of an opinion (COME, Zhang et al. 2025): entropy minimisation that leaves room for doubt.

use paint_tensor::Tensor;

use super::entropy;
use crate::error::Result;

/// `H([e^x₁, …, e^x_C, C] / (Σ_k e^x_k + C))` with `x = z ‖z‖° / ‖z‖`, where `‖z‖°` has no gradient: the evidence for
/// each class, and `C` for none of them. The value is that of `x = z`; the gradient is across `z`, never along it, so
/// no step can lower the loss by scaling logits up.  `[B, C]` logits → `[B]`.
///
/// Evidence and doubt are the softmax of `[x, ln C]`, so nothing overflows.
pub fn opinion_entropy(logits: &Tensor) -> Result<Tensor> {
    let [b, c] = logits.dims2("logits")?;
    let z = logits.detach();
    let norm = z.mul(&z)?.sum(1)?.sqrt()?.reshape([b, 1])?;
    let x = logits.l2_normalize()?.mul(&norm)?;
    let doubt = Tensor::full([b, 1], (c as f32).ln(), logits.device())?;
    entropy(&Tensor::concat(&[&x, &doubt], 1)?)
}
