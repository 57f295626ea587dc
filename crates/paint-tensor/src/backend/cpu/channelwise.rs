//! Kernels over the channels of `[outer, channels, inner]`: moments, affine maps and their gradients.
//!
//! A row is one (outer, channel). Sums run along rows first and then over `outer` in order, so the number of threads
//! does not change a bit.

use rayon::prelude::*;

use super::elementwise::{relu, step};
use super::math;
use super::parallel::{for_rows, rows_per_task, vectorized};

/// Two numbers for every row.
fn rows(len: usize, inner: usize, f: impl Fn(usize) -> [f32; 2] + Sync) -> Vec<[f32; 2]> {
    let mut pairs = vec![[0.0; 2]; len];
    let group = rows_per_task(inner);
    pairs.par_chunks_mut(group).enumerate().for_each(|(task, pairs)| {
        for (i, pair) in pairs.iter_mut().enumerate() {
            *pair = vectorized(
                #[inline(always)]
                || f(task * group + i),
            );
        }
    });
    pairs
}

/// Mean and (biased) variance of each channel.
pub(super) fn moments(
    x: &[f32],
    [outer, channels, inner]: [usize; 3],
    mean: &mut [f32],
    variance: &mut [f32],
) {
    let pairs = rows(
        outer * channels,
        inner,
        #[inline(always)]
        |row| {
            let x = &x[row * inner..(row + 1) * inner];
            let mean = math::sum(x) / inner as f32;
            [mean, math::sum_map(x, |x| (x - mean) * (x - mean))]
        },
    );
    for channel in 0..channels {
        let of = || (0..outer).map(|o| pairs[o * channels + channel].map(f64::from));
        let centre = of().map(|[mean, _]| mean).sum::<f64>() / outer as f64;
        let squares = of().map(|[mean, within]| within + (mean - centre).powi(2) * inner as f64);
        mean[channel] = centre as f32;
        variance[channel] = (squares.sum::<f64>() / (outer * inner) as f64) as f32;
    }
}

/// Calls `f(row, out)` for each row of `out`.
fn map_rows(out: &mut [f32], inner: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    for_rows(out, inner, |first, out| {
        vectorized(
            #[inline(always)]
            || {
                for (i, out) in out.chunks_exact_mut(inner).enumerate() {
                    f(first + i, out);
                }
            },
        );
    });
}

/// `out = scale x + shift`.
pub(super) fn affine(x: &[f32], [scale, shift]: [&[f32]; 2], inner: usize, out: &mut [f32]) {
    map_rows(
        out,
        inner,
        #[inline(always)]
        |row, out| {
            let (scale, shift) = (scale[row % scale.len()], shift[row % shift.len()]);
            let x = &x[row * inner..(row + 1) * inner];
            out.iter_mut().zip(x).for_each(|(out, x)| *out = scale * x + shift);
        },
    );
}

/// `out = relu(scale x + shift)`.
pub(super) fn affine_relu(x: &[f32], [scale, shift]: [&[f32]; 2], inner: usize, out: &mut [f32]) {
    map_rows(
        out,
        inner,
        #[inline(always)]
        |row, out| {
            let (scale, shift) = (scale[row % scale.len()], shift[row % shift.len()]);
            let x = &x[row * inner..(row + 1) * inner];
            out.iter_mut().zip(x).for_each(|(out, x)| *out = relu(scale * x + shift));
        },
    );
}

/// `out = relu(residual + (scale x + shift))`.
pub(super) fn affine_add_relu(
    x: &[f32],
    [scale, shift]: [&[f32]; 2],
    residual: &[f32],
    inner: usize,
    out: &mut [f32],
) {
    map_rows(
        out,
        inner,
        #[inline(always)]
        |row, out| {
            let (scale, shift) = (scale[row % scale.len()], shift[row % shift.len()]);
            let of_row = row * inner..(row + 1) * inner;
            let (x, residual) = (&x[of_row.clone()], &residual[of_row]);
            for ((out, x), residual) in out.iter_mut().zip(x).zip(residual) {
                *out = relu(residual + (scale * x + shift));
            }
        },
    );
}

/// `Σ grad` and `Σ grad (x - centre)` of each channel, for a gradient that came through a gate if there is one.
pub(super) fn gradient_sums(
    [x, grad]: [&[f32]; 2],
    centre: &[f32],
    gate: Option<[&[f32]; 2]>,
    [outer, channels, inner]: [usize; 3],
    [plain, centred]: [&mut [f32]; 2],
) {
    let operands = |row: usize| {
        let of_row = row * inner..(row + 1) * inner;
        (&x[of_row.clone()], &grad[of_row], centre[row % channels])
    };
    let pairs = match gate {
        None => rows(
            outer * channels,
            inner,
            #[inline(always)]
            |row| {
                let (x, grad, centre) = operands(row);
                math::sums_zip(grad, x, |g, x| [g, g * (x - centre)])
            },
        ),
        Some([scale, shift]) => rows(
            outer * channels,
            inner,
            #[inline(always)]
            |row| {
                let (x, grad, centre) = operands(row);
                let (scale, shift) = (scale[row % channels], shift[row % channels]);
                math::sums_zip(grad, x, |g, x| {
                    let g = g * step(scale * x + shift);
                    [g, g * (x - centre)]
                })
            },
        ),
    };
    for channel in 0..channels {
        let total = |which: usize| {
            (0..outer).map(|o| f64::from(pairs[o * channels + channel][which])).sum::<f64>() as f32
        };
        (plain[channel], centred[channel]) = (total(0), total(1));
    }
}

/// `out = a grad + b x + c`, with one `a`, `b` and `c` per channel; `grad` is gated as in [`gradient_sums`].
pub(super) fn combine(
    [x, grad]: [&[f32]; 2],
    [a, b, c]: [&[f32]; 3],
    gate: Option<[&[f32]; 2]>,
    inner: usize,
    out: &mut [f32],
) {
    let operands = |row: usize| {
        let (of_row, channel) = (row * inner..(row + 1) * inner, row % a.len());
        (&x[of_row.clone()], &grad[of_row], [a[channel], b[channel], c[channel]])
    };
    match gate {
        None => map_rows(
            out,
            inner,
            #[inline(always)]
            |row, out| {
                let (x, grad, [a, b, c]) = operands(row);
                for ((out, x), grad) in out.iter_mut().zip(x).zip(grad) {
                    *out = a * grad + b * x + c;
                }
            },
        ),
        Some([scale, shift]) => map_rows(
            out,
            inner,
            #[inline(always)]
            |row, out| {
                let (x, grad, [a, b, c]) = operands(row);
                let (scale, shift) = (scale[row % scale.len()], shift[row % shift.len()]);
                for ((out, x), grad) in out.iter_mut().zip(x).zip(grad) {
                    *out = a * (grad * step(scale * x + shift)) + b * x + c;
                }
            },
        ),
    }
}
