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

/// Mean and standard deviation (over `n − 1`) of the rows of `x`; a single row has no deviation.
/// `[n, D]` → `[D]` each.
pub fn row_moments(x: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
    let [n, d] = x.dims2("rows")?;
    let mean = x.mean(0)?;
    if n < 2 {
        return Ok((mean, None));
    }
    let centred = x.sub(&mean.reshape([1, d])?)?;
    let square = centred.mul(&centred)?.sum(0)?.scale(1.0 / (n - 1) as f32)?;
    Ok((mean, Some(square.add_scalar(EPS)?.sqrt()?)))
}

/// `‖a − b‖₂`, with a gradient of zero between equals.  Two tensors of one shape → `[]`.
pub fn distance(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let apart = a.sub(b)?;
    Ok(apart.mul(&apart)?.sum_all()?.add_scalar(f32::MIN_POSITIVE)?.sqrt()?)
}
