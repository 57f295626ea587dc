//! What is fused into the store of a matrix product: bias, GELU and its derivative, factors, a residual.

use super::gemm::NR;
use super::math;
use super::parallel::vectorized;

/// What happens to a product on its way to memory.
#[derive(Clone, Copy)]
pub(super) enum Finish<'a> {
    None,
    Bias(&'a [f32]),
    Gelu { bias: Option<&'a [f32]> },
    Times(&'a [f32]),
    Residual { bias: Option<&'a [f32]>, residual: &'a [f32] },
}

/// The part of a block of rows that is complete.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The first row of the block.
    pub(super) first: usize,
    /// Columns of the output.
    pub(super) n: usize,
    /// From and to, counted from the first of the block.
    pub(super) rows: [usize; 2],
    pub(super) cols: [usize; 2],
}

/// Applies `finish` to the complete part of a block of rows.
pub(super) fn finish_part(finish: Finish, c: &mut [f32], slope: &mut [f32], part: Part) {
    let Part { first, n, rows: [top, bottom], cols: [from, to] } = part;
    let bias = match finish {
        Finish::None => return,
        Finish::Times(_) => None,
        Finish::Bias(bias) => Some(bias),
        Finish::Gelu { bias } | Finish::Residual { bias, .. } => bias,
    };
    // One pass over each row: a second one would wait for the stores of the first.
    vectorized(
        #[inline(always)]
        || {
            for (row, i) in c[top * n..bottom * n].chunks_exact_mut(n).zip(top..) {
                let (here, there) = (i * n, (first + i) * n);
                for start in (from..to).step_by(NR) {
                    let at = [start, here, there];
                    if start + NR <= to {
                        // A copy of a length that the compiler knows is two registers.
                        span(finish, bias, row, slope, at, NR);
                    } else {
                        span(finish, bias, row, slope, at, to - start);
                    }
                }
            }
        },
    );
}

/// `len` columns of one row from `start` on; the row begins at `here` in `slope` and at `there` in whole matrices.
///
/// Everything is copied into arrays first: of those the compiler knows that none overlaps another.
#[inline(always)]
fn span(
    finish: Finish,
    bias: Option<&[f32]>,
    row: &mut [f32],
    slope: &mut [f32],
    [start, here, there]: [usize; 3],
    len: usize,
) {
    let row = &mut row[start..][..len];
    let (y, mut out) = (padded(row), [0.0; NR]);
    let b = bias.map_or([0.0; NR], |bias| padded(&bias[start..][..len]));
    match finish {
        Finish::Gelu { .. } if slope.is_empty() => {
            (0..NR).for_each(|i| out[i] = math::gelu(y[i] + b[i]).0);
        }
        Finish::Gelu { .. } => {
            let mut rise = [0.0; NR];
            (0..NR).for_each(|i| (out[i], rise[i]) = math::gelu(y[i] + b[i]));
            slope[here + start..][..len].copy_from_slice(&rise[..len]);
        }
        Finish::Times(factors) => {
            let factors = padded(&factors[there + start..][..len]);
            (0..NR).for_each(|i| out[i] = y[i] * factors[i]);
        }
        Finish::Residual { residual, .. } => {
            let residual = padded(&residual[there + start..][..len]);
            (0..NR).for_each(|i| out[i] = y[i] + b[i] + residual[i]);
        }
        Finish::Bias(_) | Finish::None => (0..NR).for_each(|i| out[i] = y[i] + b[i]),
    }
    row.copy_from_slice(&out[..len]);
}

/// Up to `NR` values, and zeros.
#[inline(always)]
fn padded(values: &[f32]) -> [f32; NR] {
    let mut all = [0.0; NR];
    all[..values.len()].copy_from_slice(values);
    all
}
