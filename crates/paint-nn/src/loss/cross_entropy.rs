//! Cross-entropy against hard, soft and mixed labels.

use paint_tensor::Tensor;

use crate::error::{Error, Result};

/// `−ln pᵢ[yᵢ]`.  `[B, C]` logits and `B` labels → `[B]`.
pub fn cross_entropy(logits: &Tensor, labels: &[usize]) -> Result<Tensor> {
    Ok(log_likelihood(&logits.log_softmax()?, labels)?.neg()?)
}

/// `−Σ_c t_ic ln p_ic`. Gradients flow into the target too; detach it if it is fixed.
/// `[B, C]` logits and `[B, C]` target → `[B]`.
pub fn cross_entropy_soft(logits: &Tensor, target: &Tensor) -> Result<Tensor> {
    Ok(target.mul(&logits.log_softmax()?)?.sum(1)?.neg()?)
}

/// `½ CE(softmax(b), a) + ½ CE(softmax(a), b)`, the symmetric cross-entropy of CoTTA and RMT.
/// Two `[B, C]` logits → `[B]`.
pub fn symmetric_cross_entropy(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (log_a, log_b) = (a.log_softmax()?, b.log_softmax()?);
    let b_to_a = log_b.exp()?.mul(&log_a)?;
    let a_to_b = log_a.exp()?.mul(&log_b)?;
    Ok(b_to_a.add(&a_to_b)?.sum(1)?.scale(-0.5)?)
}

/// Labels of mixed samples `x̃_n = λ x_n + (1 − λ) x_π(n)` (Eq. 8).
#[derive(Debug, Clone, Copy)]
pub struct MixedLabels<'a> {
    /// `y_n`, one per mixed sample.
    pub first: &'a [usize],
    /// `y_π(n)`.
    pub second: &'a [usize],
    /// `λ`.
    pub lambda: f32,
}

impl MixedLabels<'_> {
    /// `λ l_n[y_n] + (1 − λ) l_n[y_π(n)]`, summed over `n`.
    pub(super) fn log_likelihood(&self, log_p: &Tensor) -> Result<Tensor> {
        let first = log_likelihood(log_p, self.first)?.scale(self.lambda)?;
        let second = log_likelihood(log_p, self.second)?.scale(1.0 - self.lambda)?;
        Ok(first.add(&second)?.sum_all()?)
    }
}

/// `L_ic = −(1/n) Σ [λ ln p̃_n[y_n] + (1 − λ) ln p̃_n[y_π(n)]]` (Eq. 9 with Eq. 8's mixed label).
///
/// The paper divides by the batch size, `n = B`, the released code by the number of confident samples; `denominator` is
/// `n`.  `[M, C]` logits of the mixed samples → `[]`.
pub fn interpolation_consistency(
    logits: &Tensor,
    labels: MixedLabels<'_>,
    denominator: usize,
) -> Result<Tensor> {
    Ok(labels.log_likelihood(&logits.log_softmax()?)?.scale(-1.0 / denominator.max(1) as f32)?)
}

fn log_likelihood(log_p: &Tensor, labels: &[usize]) -> Result<Tensor> {
    let [b, c] = log_p.dims2("logits")?;
    if labels.len() != b {
        return Err(Error::Argument {
            what: "labels",
            expected: format!("{b} of them"),
            got: labels.len().to_string(),
        });
    }
    if let Some(label) = labels.iter().find(|&&label| label >= c) {
        return Err(Error::Argument {
            what: "label",
            expected: format!("one of {c} classes"),
            got: label.to_string(),
        });
    }
    Ok(log_p.pick(labels)?)
}
