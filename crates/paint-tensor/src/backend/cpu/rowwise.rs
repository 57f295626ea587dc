//! Kernels over rows of the last axis: layer norm, softmax, L2 normalisation, and their gradients.

use rayon::prelude::*;

use super::math;
use super::parallel::{for_rows, for_rows2, rows_per_task, vectorized};

/// `out = (x - mean) rstd γ + β`; `stats` is `[rows, 2]` with mean and rstd.
pub(super) fn layer_norm(
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    eps: f32,
    out: &mut [f32],
    stats: &mut [f32],
) {
    let d = gamma.len();
    for_rows2((out, d), (stats, 2), |first, out, stats| {
        vectorized(
            #[inline(always)]
            || {
                // Lengths that the compiler knows to be equal are not checked for every element.
                let (gamma, beta) = (&gamma[..d], &beta[..d]);
                let rows = x[first * d..].chunks_exact(d);
                for ((out, stats), x) in
                    out.chunks_exact_mut(d).zip(stats.chunks_exact_mut(2)).zip(rows)
                {
                    let mean = math::sum(x) / d as f32;
                    let variance = math::sum_map(x, |x| (x - mean) * (x - mean)) / d as f32;
                    let rstd = 1.0 / (variance + eps).sqrt();
                    for i in 0..d {
                        out[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
                    }
                    stats.copy_from_slice(&[mean, rstd]);
                }
            },
        );
    });
}

/// `dx = rstd (g - mean(g) - x̂ mean(g x̂))` with `g = dy γ`.
pub(super) fn layer_norm_backward(
    x: &[f32],
    stats: &[f32],
    gamma: &[f32],
    grad: &[f32],
    dx: &mut [f32],
) {
    let d = gamma.len();
    for_rows(dx, d, |first, dx| {
        vectorized(
            #[inline(always)]
            || {
                for (row, dx) in dx.chunks_exact_mut(d).enumerate() {
                    let row = first + row;
                    let (x, grad) = (&x[row * d..(row + 1) * d], &grad[row * d..(row + 1) * d]);
                    let (mean, rstd) = (stats[2 * row], stats[2 * row + 1]);
                    let gamma = &gamma[..d];
                    // dx holds g = dy γ first, so that both means are sums over two slices.
                    for i in 0..d {
                        dx[i] = grad[i] * gamma[i];
                    }
                    let m1 = math::sum(dx) / d as f32;
                    let m2 = math::sum_zip(dx, x, |g, x| g * ((x - mean) * rstd)) / d as f32;
                    for i in 0..d {
                        dx[i] = rstd * (dx[i] - m1 - (x[i] - mean) * rstd * m2);
                    }
                }
            },
        );
    });
}

/// `dγ = Σ dy x̂`, `dβ = Σ dy`, summed over groups of rows first and then over the groups in order.
pub(super) fn layer_norm_affine_backward(
    x: &[f32],
    stats: &[f32],
    grad: &[f32],
    dgamma: &mut [f32],
    dbeta: &mut [f32],
) {
    let d = dgamma.len();
    let rows = rows_per_task(d);
    let groups: Vec<Vec<f32>> = x
        .par_chunks(rows * d)
        .zip(grad.par_chunks(rows * d))
        .zip(stats.par_chunks(rows * 2))
        .map(|((x, grad), stats)| {
            let mut sums = vec![0.0; 2 * d];
            let (gamma, beta) = sums.split_at_mut(d);
            vectorized(
                #[inline(always)]
                || {
                    let (gamma, beta) = (&mut gamma[..d], &mut beta[..d]);
                    for ((x, grad), stats) in
                        x.chunks_exact(d).zip(grad.chunks_exact(d)).zip(stats.chunks_exact(2))
                    {
                        let (mean, rstd) = (stats[0], stats[1]);
                        for i in 0..d {
                            gamma[i] += grad[i] * ((x[i] - mean) * rstd);
                            beta[i] += grad[i];
                        }
                    }
                },
            );
            sums
        })
        .collect();
    dgamma.fill(0.0);
    dbeta.fill(0.0);
    for sums in &groups {
        dgamma.iter_mut().zip(&sums[..d]).for_each(|(out, sum)| *out += sum);
        dbeta.iter_mut().zip(&sums[d..]).for_each(|(out, sum)| *out += sum);
    }
}

/// Applies `f` to each row of `out`, which starts as a copy of `x`.
fn map_rows(x: &[f32], d: usize, out: &mut [f32], f: impl Fn(usize, &[f32], &mut [f32]) + Sync) {
    for_rows(out, d, |first, out| {
        vectorized(
            #[inline(always)]
            || {
                for (row, out) in out.chunks_exact_mut(d).enumerate() {
                    let row = first + row;
                    f(row, &x[row * d..(row + 1) * d], out);
                }
            },
        );
    });
}

pub(super) fn softmax(x: &[f32], d: usize, out: &mut [f32]) {
    map_rows(
        x,
        d,
        out,
        #[inline(always)]
        |_, x, out| {
            let top = math::max(x);
            out.iter_mut().zip(x).for_each(|(y, x)| *y = math::exp(x - top));
            let factor = 1.0 / math::sum(out);
            out.iter_mut().for_each(|y| *y *= factor);
        },
    );
}

/// `dx = y (dy - <y, dy>)`.
pub(super) fn softmax_backward(y: &[f32], grad: &[f32], d: usize, dx: &mut [f32]) {
    map_rows(
        y,
        d,
        dx,
        #[inline(always)]
        |row, y, dx| {
            let grad = &grad[row * d..(row + 1) * d];
            let inner = math::dot(y, grad);
            for i in 0..d {
                dx[i] = y[i] * (grad[i] - inner);
            }
        },
    );
}

pub(super) fn log_softmax(x: &[f32], d: usize, out: &mut [f32]) {
    map_rows(
        x,
        d,
        out,
        #[inline(always)]
        |_, x, out| {
            let top = math::max(x);
            let lse = top + math::sum_map(x, |x| math::exp(x - top)).ln();
            out.iter_mut().zip(x).for_each(|(y, x)| *y = x - lse);
        },
    );
}

/// `dx = dy - softmax(x) Σ dy`, with `softmax(x) = exp(y)`.
pub(super) fn log_softmax_backward(y: &[f32], grad: &[f32], d: usize, dx: &mut [f32]) {
    map_rows(
        y,
        d,
        dx,
        #[inline(always)]
        |row, y, dx| {
            let grad = &grad[row * d..(row + 1) * d];
            let total = math::sum(grad);
            for i in 0..d {
                dx[i] = grad[i] - math::exp(y[i]) * total;
            }
        },
    );
}

/// `y = x f`, `f = 1 / sqrt(max(Σ x², 1e-12))`.
pub(super) fn l2_normalize(x: &[f32], d: usize, out: &mut [f32], factor: &mut [f32]) {
    for (row, factor) in x.chunks_exact(d).zip(&mut *factor) {
        let squares = math::dot(row, row);
        // Not `max`, which would turn a NaN into the clamp.
        *factor = 1.0 / if squares < 1e-12 { 1e-12 } else { squares }.sqrt();
    }
    let factor = &*factor;
    map_rows(
        x,
        d,
        out,
        #[inline(always)]
        |row, x, out| out.iter_mut().zip(x).for_each(|(y, x)| *y = x * factor[row]),
    );
}

/// `dx = f (dy - y <y, dy>)`; where the norm was clamped (`f = 1e6`), `dx = f dy`.
pub(super) fn l2_normalize_backward(
    y: &[f32],
    factor: &[f32],
    grad: &[f32],
    d: usize,
    dx: &mut [f32],
) {
    map_rows(
        y,
        d,
        dx,
        #[inline(always)]
        |row, y, dx| {
            let grad = &grad[row * d..(row + 1) * d];
            let clamped = factor[row] >= 1e6;
            let inner = if clamped { 0.0 } else { math::dot(y, grad) };
            for i in 0..d {
                dx[i] = factor[row] * (grad[i] - y[i] * inner);
            }
        },
    );
}
