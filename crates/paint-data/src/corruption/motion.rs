//! Motion blur as ImageMagick does it: a one-sided Gaussian along a line.

use super::byte::truncate;
use super::grid::{Border, Grid};
use super::weighted::weighted_sum;
use crate::simd::wide;

/// Blurs bytes along `angle` degrees: the `i`-th of `2 ⌈radius⌉ + 1` taps has weight `exp(-i² / 2 sigma²)` and lies at
/// the pixel nearest to `i` steps along the line. Beyond the edge the last pixel repeats. ImageMagick keeps 16 bits per
/// value and drops the lower eight on writing.
pub(super) fn blur(data: &[u8], grid: Grid, radius: usize, sigma: f64, angle: f64) -> Vec<u8> {
    let (sin, cos) = angle.to_radians().sin_cos();
    let step = |i: usize, direction: f64| (i as f64 * direction - 0.5).ceil() as isize;
    let count = 2 * radius + 1;
    let weight = |i: usize| (-((i * i) as f64) / (2.0 * sigma * sigma)).exp();
    let total: f64 = (0..count).map(weight).sum();
    let taps: Vec<Tap> = (0..count)
        .map(|i| Tap { dy: step(i, sin), dx: step(i, cos), weight: (weight(i) / total) as f32 })
        .collect();

    let pad = taps.iter().map(|tap| tap.dx.unsigned_abs()).max().unwrap_or(0);
    let padded_stride = grid.stride() + 2 * pad * grid.channels;
    let mut padded = Vec::with_capacity(padded_stride * grid.height);
    let mut line = Vec::with_capacity(padded_stride);
    for row in data.chunks_exact(grid.stride()) {
        Border::Nearest.pad_row(row, grid.channels, pad, &mut line, f32::from);
        padded.extend_from_slice(&line);
    }

    let mut out = vec![0; grid.len()];
    let mut sources = Vec::with_capacity(count);
    let mut sums = vec![0.0; grid.stride()];
    for (y, out) in out.chunks_exact_mut(grid.stride()).enumerate() {
        sources.clear();
        sources.extend(taps.iter().map(|tap| {
            let row = Border::Nearest.index(y as isize + tap.dy, grid.height);
            let at = row * padded_stride + pad.wrapping_add_signed(tap.dx) * grid.channels;
            (&padded[at..at + grid.stride()], tap.weight)
        }));
        weighted_sum(&sources, &mut sums);
        to_bytes(&sums, out);
    }
    out
}

wide! {
    /// To 16 bits, rounded, and back to 8, dropped.
    fn to_bytes<'a>(sums: &'a [f32], out: &'a mut [u8]) -> () {
        for (out, sum) in out.iter_mut().zip(sums) {
            // Truncation of the quotient is exact: 16-bit numbers divided by 257 are at least 1/257 apart.
            let bits16 = truncate(257.0 * sum + 0.5).cast_signed();
            *out = truncate((bits16 as f32 + 0.5) * (1.0 / 257.0)) as u8;
        }
    }
}

struct Tap {
    dy: isize,
    dx: isize,
    weight: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_smears_against_the_direction_with_falling_weights() {
        let grid = Grid { height: 3, width: 9, channels: 1 };
        let mut data = vec![0; grid.len()];
        data[9 + 6] = 255;
        let out = blur(&data, grid, 2, 2.0, 0.0);
        let weights: Vec<f64> = (0..5).map(|i| (-f64::from(i * i) / 8.0).exp()).collect();
        let total: f64 = weights.iter().sum();
        let level = |i: usize| (255.0 * weights[i] / total) as u8;
        assert_eq!(out[9..18], [0, 0, level(4), level(3), level(2), level(1), level(0), 0, 0]);
        assert!(out[..9].iter().chain(&out[18..]).all(|&value| value == 0));
    }

    #[test]
    fn a_constant_keeps_its_bytes_at_any_angle() {
        let grid = Grid { height: 5, width: 13, channels: 3 };
        for angle in [-135.0, -45.0, -10.0, 45.0] {
            assert_eq!(blur(&vec![201; grid.len()], grid, 9, 2.5, angle), vec![201; grid.len()]);
        }
    }
}
