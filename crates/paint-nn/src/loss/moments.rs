//! How far the moments of a batch lie from given ones.

use paint_tensor::Tensor;

use crate::error::Result;

/// Added to a variance, so that a channel without any has a gradient.
const EPS: f32 = 1e-8;

/// `mean_c [((m_c − μ_c) / σ_c)² + ((s_c − σ_c) / σ_c)²]`, where `m` and `s` are the mean and the standard deviation
/// (over `n`) of the rows of `x`.  `[n, D]`, `μ` and `σ` `[D]` → `[]`.
pub fn moment_distance(x: &Tensor, mean: &Tensor, std: &Tensor) -> Result<Tensor> {
    let [_, d] = x.dims2("rows")?;
    let m = x.mean(0)?; // [D]
    let centred = x.sub(&m.reshape([1, d])?)?;
    let s = centred.mul(&centred)?.mean(0)?.add_scalar(EPS)?.sqrt()?;
    let shift = m.sub(mean)?.div(std)?;
    let stretch = s.sub(std)?.div(std)?;
    Ok(shift.mul(&shift)?.add(&stretch.mul(&stretch)?)?.mean_all()?)
}
