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

/// The columns of a row block that are complete.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub(super) first_row: usize,
    pub(super) n: usize,
    pub(super) cols: [usize; 2],
}

/// Applies `finish` to the complete columns of a block of rows.
pub(super) fn finish_columns(finish: Finish, c: &mut [f32], slope: &mut [f32], at: Columns) {
    let Columns { first_row, n, cols: [from, to] } = at;
    let bias = match finish {
        Finish::None => return,
        Finish::Times(_) => None,
        Finish::Bias(bias) => Some(bias),
        Finish::Gelu { bias } | Finish::Residual { bias, .. } => bias,
    };
    let none = [0.0_f32; NR];
    // One pass over each row: a second one would wait for the stores of the first.
    vectorized(
        #[inline(always)]
        || {
            for (i, row) in c.chunks_exact_mut(n).enumerate() {
                for start in (from..to).step_by(NR) {
                    let end = (start + NR).min(to);
                    let bias = bias.map_or(&none[..end - start], |bias| &bias[start..end]);
                    let row = &mut row[start..end];
                    match finish {
                        Finish::Gelu { .. } if slope.is_empty() => {
                            row.iter_mut().zip(bias).for_each(|(y, b)| *y = math::gelu(*y + b).0);
                        }
                        Finish::Gelu { .. } => {
                            let slope = &mut slope[i * n + start..i * n + end];
                            for ((y, b), slope) in row.iter_mut().zip(bias).zip(slope) {
                                (*y, *slope) = math::gelu(*y + b);
                            }
                        }
                        Finish::Times(factors) => {
                            let at = (first_row + i) * n;
                            let factors = &factors[at + start..at + end];
                            row.iter_mut().zip(factors).for_each(|(y, f)| *y *= f);
                        }
                        Finish::Residual { residual, .. } => {
                            let at = (first_row + i) * n;
                            let residual = &residual[at + start..at + end];
                            for ((y, b), r) in row.iter_mut().zip(bias).zip(residual) {
                                *y = *y + b + r;
                            }
                        }
                        Finish::Bias(_) | Finish::None => {
                            row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
                        }
                    }
                }
            }
        },
    );
}
