//! The supervised contrastive loss of RMT and SANTA (Khosla et al. 2020, the outer form).

use paint_tensor::Tensor;

use crate::error::{Error, Result};

/// Far below any cosine over a temperature, and finite: it takes a row's own column out of its softmax.
const EXCLUDED: f32 = -1e9;

/// `−(1/M) Σᵢ (1/|P(i)|) Σ_{j ∈ P(i)} ln [exp(fᵢ·f_j/τ) / Σ_{k≠i} exp(fᵢ·f_k/τ)]`, where `f` are the rows of unit
/// length and `P(i)` the other rows of the same `group` (the views of one sample). A row alone in its group
/// contributes nothing.  `[M, D]` features and `M` groups → `[]`.
pub fn supervised_contrastive(features: &Tensor, groups: &[usize], tau: f32) -> Result<Tensor> {
    let [m, _] = features.dims2("features")?;
    if groups.len() != m {
        return Err(Error::Argument {
            what: "groups",
            expected: format!("{m} of them"),
            got: groups.len().to_string(),
        });
    }
    let (mut own, mut positive) = (vec![0.0; m * m], vec![0.0; m * m]);
    for (i, group) in groups.iter().enumerate() {
        own[i * m + i] = EXCLUDED;
        let others: Vec<usize> = (0..m).filter(|&j| j != i && groups[j] == *group).collect();
        for &j in &others {
            positive[i * m + j] = 1.0 / others.len() as f32;
        }
    }
    let device = features.device();
    let (own, positive) =
        (Tensor::from_vec(own, [m, m], device)?, Tensor::from_vec(positive, [m, m], device)?);
    let f = features.l2_normalize()?;
    let log_p = f.matmul(&f.transpose(0, 1)?)?.scale(1.0 / tau)?.add(&own)?.log_softmax()?; // [M, M]
    Ok(positive.mul(&log_p)?.sum_all()?.scale(-1.0 / m as f32)?)
}
