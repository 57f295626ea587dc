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
    if matches!(finish, Finish::None) {
        return;
    }
    // One pass over each row: a second one would wait for the stores of the first.
    vectorized(
        #[inline(always)]
        || {
            for (row, i) in c[top * n..bottom * n].chunks_exact_mut(n).zip(top..) {
                let slope = if slope.is_empty() { &mut [] } else { &mut slope[i * n..][..n] };
                for start in (from..to).step_by(NR) {
                    let end = to.min(start + NR);
                    let out = &mut row[start..end];
                    let rise = if slope.is_empty() { &mut [] } else { &mut slope[start..end] };
                    let at = [first + i, n, start];
                    if out.len() == NR {
                        // A copy of a length that the compiler knows is two registers.
                        span(finish, padded(out), &mut out[..NR], rise, at);
                    } else {
                        span(finish, padded(out), out, rise, at);
                    }
                }
            }
        },
    );
}

/// Writes the sums `y` of one row, finished, to `row`, and the derivative to `slope` unless that is empty. `at` is the
/// row, its length and the first of the columns.
///
/// Everything is copied into arrays first, because the compiler knows that arrays do not overlap. Closures in place of the
/// loops would be compiled out of line, and without the instructions of this CPU.
#[inline(always)]
pub(super) fn span(
    finish: Finish,
    y: [f32; NR],
    row: &mut [f32],
    slope: &mut [f32],
    [i, n, start]: [usize; 3],
) {
    let len = row.len();
    let bias = match finish {
        Finish::None | Finish::Times(_) => None,
        Finish::Bias(bias) => Some(bias),
        Finish::Gelu { bias } | Finish::Residual { bias, .. } => bias,
    };
    let mut out = [0.0; NR];
    let b = bias.map_or([0.0; NR], |bias| padded(&bias[start..][..len]));
    match finish {
        Finish::Gelu { .. } if slope.is_empty() => {
            for i in 0..NR {
                out[i] = math::gelu(y[i] + b[i]).0;
            }
        }
        Finish::Gelu { .. } => {
            let mut rise = [0.0; NR];
            for i in 0..NR {
                (out[i], rise[i]) = math::gelu(y[i] + b[i]);
            }
            slope[..len].copy_from_slice(&rise[..len]);
        }
        Finish::Times(factors) => {
            let factors = padded(&factors[i * n + start..][..len]);
            for i in 0..NR {
                out[i] = y[i] * factors[i];
            }
        }
        Finish::Residual { residual, .. } => {
            let residual = padded(&residual[i * n + start..][..len]);
            for i in 0..NR {
                out[i] = y[i] + b[i] + residual[i];
            }
        }
        Finish::Bias(_) => {
            for i in 0..NR {
                out[i] = y[i] + b[i];
            }
        }
        Finish::None => out = y,
    }
    row.copy_from_slice(&out[..len]);
}

/// Up to `NR` values, and zeros.
#[inline(always)]
pub(super) fn padded(values: &[f32]) -> [f32; NR] {
    let mut all = [0.0; NR];
    all[..values.len()].copy_from_slice(values);
    all
}
