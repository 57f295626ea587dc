//! The separable Gaussian filter, in the order and precision of `scipy.ndimage`.
//!
//! Columns first, then rows; the sum of a symmetric kernel starts at the centre and goes on from the outermost pair
//! inwards. With the same order in double precision most results have the same bits, which matters because the
//! corruptions truncate.

use super::grid::{Border, Grid};
use crate::simd::wide;

/// Values summed side by side, so that the sums stay in registers.
const BLOCK: usize = 32;

/// The rows at equal distances on both sides of a centre.
type Pair<'a> = (&'a [f64], &'a [f64]);

/// Filters `data` with standard deviation `sigma`, truncated at `truncate` standard deviations.
pub(super) fn blur(
    data: &[f64],
    grid: Grid,
    sigma: f64,
    truncate: f64,
    border: Border,
) -> Vec<f64> {
    let weights = weights(sigma, truncate);
    let radius = weights.len() - 1;
    if radius == 0 {
        return data.to_vec();
    }
    let stride = grid.stride();
    let row = |y: isize| {
        let at = border.index(y, grid.height) * stride;
        &data[at..at + stride]
    };
    let mut out = vec![0.0; grid.len()];
    let mut column = vec![0.0; stride];
    let mut padded = Vec::with_capacity(stride + 2 * radius * grid.channels);
    let mut pairs = Vec::with_capacity(radius);
    for (y, out) in out.chunks_exact_mut(stride).enumerate() {
        let y = y as isize;
        pairs.clear();
        pairs.extend((1..=radius as isize).map(|j| (row(y - j), row(y + j))));
        symmetric_sum(row(y), &pairs, &weights, &mut column);

        border.pad_row(&column, grid.channels, radius, &mut padded, |value| value);
        let at = |offset: usize| &padded[offset * grid.channels..offset * grid.channels + stride];
        let pairs: Vec<_> = (1..=radius).map(|j| (at(radius - j), at(radius + j))).collect();
        symmetric_sum(at(radius), &pairs, &weights, out);
    }
    out
}

/// The right half of the normalised kernel, from the centre outwards.
fn weights(sigma: f64, truncate: f64) -> Vec<f64> {
    let radius = (truncate * sigma + 0.5) as usize;
    let half: Vec<f64> = (0..=radius)
        .map(|j| if j == 0 { 1.0 } else { (-0.5 / (sigma * sigma) * (j * j) as f64).exp() })
        .collect();
    let sum: f64 = half.iter().skip(1).rev().chain(&half).sum();
    half.into_iter().map(|weight| weight / sum).collect()
}

wide! {
    /// `centre w₀ + Σ_j (left_j + right_j) w_j`.
    fn symmetric_sum<'a>(centre: &'a [f64], pairs: &'a [Pair<'a>], weights: &'a [f64], out: &'a mut [f64]) -> () {
        let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
        let tail = blocks.len() * BLOCK;
        for (block, out) in blocks.iter_mut().enumerate() {
            let at = block * BLOCK;
            let mut sum = [0.0; BLOCK];
            for (sum, value) in sum.iter_mut().zip(&centre[at..at + BLOCK]) {
                *sum = value * weights[0];
            }
            for (&(left, right), weight) in pairs.iter().zip(&weights[1..]).rev() {
                let (left, right) = (&left[at..at + BLOCK], &right[at..at + BLOCK]);
                for i in 0..BLOCK {
                    sum[i] += (left[i] + right[i]) * weight;
                }
            }
            *out = sum;
        }
        for (i, out) in rest.iter_mut().enumerate() {
            let i = tail + i;
            *out = centre[i] * weights[0];
            for (&(left, right), weight) in pairs.iter().zip(&weights[1..]).rev() {
                *out += (left[i] + right[i]) * weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impulse_becomes_the_product_of_two_gaussians() {
        let grid = Grid { height: 9, width: 23, channels: 1 };
        let mut data = vec![0.0; grid.len()];
        data[4 * 23 + 10] = 1.0;
        let out = blur(&data, grid, 0.8, 4.0, Border::Nearest);
        let g = |x: f64| (-x * x / (2.0 * 0.64)).exp();
        let norm: f64 = (-3..=3).map(|x| g(f64::from(x))).sum();
        for (at, value) in out.iter().enumerate() {
            let (dy, dx) = ((at / 23) as f64 - 4.0, (at % 23) as f64 - 10.0);
            let expected =
                if dy.abs() <= 3.0 && dx.abs() <= 3.0 { g(dy) * g(dx) / norm / norm } else { 0.0 };
            assert!(
                (value - expected).abs() < 1e-15,
                "at {dy} {dx}: {value} instead of {expected}"
            );
        }
    }

    #[test]
    fn a_constant_stays_constant_at_any_size_and_border() {
        for (height, width) in [(1, 1), (3, 40), (17, 2)] {
            let grid = Grid { height, width, channels: 3 };
            for border in [Border::Nearest, Border::Reflect] {
                let out = blur(&vec![0.25; grid.len()], grid, 5.0, 4.0, border);
                assert!(out.iter().all(|value| (value - 0.25).abs() < 1e-15));
            }
        }
    }
}
