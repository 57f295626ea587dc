//! Kernels over the channels of `[outer, channels, inner]`: moments, affine maps and their gradients.
//!
//! A row is one (outer, channel). Sums run along rows first and then over `outer` in order, so the number of threads
//! does not change a bit.

use rayon::prelude::*;

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

/// `out = scale x + shift`.
pub(super) fn affine(x: &[f32], scale: &[f32], shift: &[f32], inner: usize, out: &mut [f32]) {
    for_rows(out, inner, |first, out| {
        vectorized(
            #[inline(always)]
            || {
                for (i, out) in out.chunks_exact_mut(inner).enumerate() {
                    let row = first + i;
                    let (scale, shift) = (scale[row % scale.len()], shift[row % shift.len()]);
                    let x = &x[row * inner..(row + 1) * inner];
                    out.iter_mut().zip(x).for_each(|(out, x)| *out = scale * x + shift);
                }
            },
        );
    });
}

/// `Σ grad` and `Σ grad (x - centre)` of each channel.
pub(super) fn gradient_sums(
    x: &[f32],
    grad: &[f32],
    centre: &[f32],
    [outer, channels, inner]: [usize; 3],
    [plain, centred]: [&mut [f32]; 2],
) {
    let pairs = rows(
        outer * channels,
        inner,
        #[inline(always)]
        |row| {
            let (x, grad) =
                (&x[row * inner..(row + 1) * inner], &grad[row * inner..(row + 1) * inner]);
            let centre = centre[row % channels];
            [math::sum(grad), math::sum_zip(grad, x, |g, x| g * (x - centre))]
        },
    );
    for channel in 0..channels {
        let total = |which: usize| {
            (0..outer).map(|o| f64::from(pairs[o * channels + channel][which])).sum::<f64>() as f32
        };
        (plain[channel], centred[channel]) = (total(0), total(1));
    }
}

/// `out = a grad + b x + c`, with one `a`, `b` and `c` per channel.
pub(super) fn combine(
    x: &[f32],
    grad: &[f32],
    [a, b, c]: [&[f32]; 3],
    inner: usize,
    out: &mut [f32],
) {
    for_rows(out, inner, |first, out| {
        vectorized(
            #[inline(always)]
            || {
                for (i, out) in out.chunks_exact_mut(inner).enumerate() {
                    let row = first + i;
                    let channel = row % a.len();
                    let (a, b, c) = (a[channel], b[channel], c[channel]);
                    let x = &x[row * inner..(row + 1) * inner];
                    let grad = &grad[row * inner..(row + 1) * inner];
                    for ((out, x), grad) in out.iter_mut().zip(x).zip(grad) {
                        *out = a * grad + b * x + c;
                    }
                }
            },
        );
    });
}
