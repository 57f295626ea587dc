//! The defocus filter: a disk with softened rim, summed by runs.
//!
//! A row of the kernel changes its weight only at the rim, so a weighted sum over the row is a sum of the changes times
//! running totals of the image row, and the rows above and below the centre share their changes: a quarter of the terms
//! of the plain sum for the largest disk, and no harder to vectorise. Running totals of bytes are whole numbers below
//! 2²⁴, exact in single precision.

use super::byte::to_byte;
use super::grid::{Border, Grid};
use super::weighted::weighted_sum;
use crate::simd::wide;

/// A square kernel `[side, side]`.
#[derive(Debug)]
pub(super) struct Kernel {
    side: usize,
    weights: Vec<f64>,
}

impl Kernel {
    /// The normalised disk on a 17x17 grid (on its own square beyond radius 8), its rim softened by a Gaussian of
    /// `alias_sigma` on 3x3 (5x5) pixels, reflected at the grid's edge. As the reflection adds what the edge cuts off
    /// twice, the weights of the two largest disks sum to more than 1, in the original too.
    ///
    /// It is symmetric about both axes.
    pub(super) fn disk(radius: f64, alias_sigma: f64) -> Self {
        let (reach, soft) = if radius <= 8.0 { (8, 1) } else { (radius as isize, 2) };
        let side = 2 * reach as usize + 1;
        let inside = |y: isize, x: isize| f64::from((y * y + x * x) as f64 <= radius * radius);
        let mut weights = Vec::with_capacity(side * side);
        for y in -reach..=reach {
            weights.extend((-reach..=reach).map(|x| inside(y, x)));
        }
        let area: f64 = weights.iter().sum();
        // The libraries hold the disk in single precision.
        for weight in &mut weights {
            *weight = f64::from((*weight / area) as f32);
        }
        let gaussian: Vec<f64> = (-soft..=soft)
            .map(|x: isize| (-((x * x) as f64) / (2.0 * alias_sigma * alias_sigma)).exp())
            .collect();
        let sum: f64 = gaussian.iter().sum();
        let soften = |data: &[f64], step_y: isize, step_x: isize| -> Vec<f64> {
            let at = |y: isize, x: isize| {
                data[Border::Reflect101.index(y, side) * side + Border::Reflect101.index(x, side)]
            };
            (0..(side * side) as isize)
                .map(|i| {
                    let (y, x) = (i / side as isize, i % side as isize);
                    (-soft..=soft)
                        .zip(&gaussian)
                        .map(|(k, g)| g / sum * at(y + k * step_y, x + k * step_x))
                        .sum()
                })
                .collect()
        };
        let weights = soften(&soften(&weights, 0, 1), 1, 0);
        Self { side, weights }
    }

    /// The changes of weight along the rows from the centre downwards, `(distance, column, change)`: what a running
    /// total before `column` is multiplied with.
    fn changes(&self) -> Vec<(usize, usize, f32)> {
        let mut changes = Vec::new();
        for (distance, row) in self.weights.chunks_exact(self.side).skip(self.side / 2).enumerate()
        {
            let mut before = 0.0;
            for (x, &weight) in row.iter().chain([&0.0]).enumerate() {
                let change = before - weight;
                if change.abs() > 1e-9 {
                    changes.push((distance, x, change as f32));
                }
                before = weight;
            }
        }
        changes
    }

    /// The weighted sum around every value, in grey levels, reflected at the edges and truncated.
    pub(super) fn apply(&self, data: &[u8], grid: Grid) -> Vec<u8> {
        let reach = self.side / 2;
        let stride = grid.stride() + self.side * grid.channels;
        let mut totals = vec![0.0; grid.height * stride];
        let mut padded = Vec::with_capacity(stride);
        for (row, totals) in data.chunks_exact(grid.stride()).zip(totals.chunks_exact_mut(stride)) {
            Border::Reflect101.pad_row(row, grid.channels, reach, &mut padded, f32::from);
            for (i, value) in padded.iter().enumerate() {
                totals[i + grid.channels] = totals[i] + value;
            }
        }
        let row = |y: isize| {
            let at = Border::Reflect101.index(y, grid.height) * stride;
            &totals[at..at + stride]
        };
        let changes = self.changes();
        let used = changes.iter().map(|&(distance, ..)| distance + 1).max().unwrap_or(0);
        let mut out = vec![0; grid.len()];
        let mut pairs = vec![0.0; used * stride];
        let mut sums = vec![0.0; grid.stride()];
        for (y, out) in out.chunks_exact_mut(grid.stride()).enumerate() {
            let y = y as isize;
            for (pair, distance) in pairs.chunks_exact_mut(stride).zip(0..) {
                if distance == 0 {
                    pair.copy_from_slice(row(y));
                } else {
                    add_rows(row(y - distance), row(y + distance), pair);
                }
            }
            let sources: Vec<(&[f32], f32)> = changes
                .iter()
                .map(|&(distance, column, change)| {
                    let at = distance * stride + column * grid.channels;
                    (&pairs[at..at + grid.stride()], change)
                })
                .collect();
            weighted_sum(&sources, &mut sums);
            to_bytes(&sums, out);
        }
        out
    }
}

wide! {
    fn add_rows<'a>(above: &'a [f32], below: &'a [f32], out: &'a mut [f32]) -> () {
        for ((sum, above), below) in out.iter_mut().zip(above).zip(below) {
            *sum = above + below;
        }
    }
}

wide! {
    fn to_bytes<'a>(sums: &'a [f32], out: &'a mut [u8]) -> () {
        for (out, &sum) in out.iter_mut().zip(sums) {
            *out = to_byte(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum over the kernel as it is defined.
    fn plain(kernel: &Kernel, data: &[u8], grid: Grid) -> Vec<f64> {
        let reach = (kernel.side / 2) as isize;
        let at = |y: isize, x: isize, c: usize| {
            let (y, x) =
                (Border::Reflect101.index(y, grid.height), Border::Reflect101.index(x, grid.width));
            f64::from(data[y * grid.stride() + x * grid.channels + c])
        };
        let mut out = Vec::new();
        for i in 0..grid.len() {
            let (y, x, c) =
                (i / grid.stride(), i % grid.stride() / grid.channels, i % grid.channels);
            let weights = kernel.weights.iter().enumerate();
            let offset = |k: usize| k as isize - reach;
            out.push(
                weights
                    .map(|(k, w)| {
                        w * at(
                            y as isize + offset(k / kernel.side),
                            x as isize + offset(k % kernel.side),
                            c,
                        )
                    })
                    .sum(),
            );
        }
        out
    }

    #[test]
    fn sums_by_runs_equal_plain_sums() {
        let grid = Grid { height: 13, width: 29, channels: 3 };
        let data: Vec<u8> = (0..grid.len()).map(|i| (i * 37 % 251) as u8).collect();
        for (radius, alias_sigma) in [(0.3, 0.4), (1.5, 0.1), (3.0, 0.1), (8.0, 0.5), (10.0, 0.5)] {
            let kernel = Kernel::disk(radius, alias_sigma);
            for (fast, slow) in
                kernel.apply(&data, grid).into_iter().zip(plain(&kernel, &data, grid))
            {
                // One level where rounding error meets the truncation.
                assert!(
                    (f64::from(fast) + 0.5 - slow).abs() < 0.501,
                    "radius {radius}: {fast} instead of {slow}"
                );
            }
        }
    }

    #[test]
    fn a_small_disk_has_the_weights_of_its_pixels() {
        let kernel = Kernel::disk(1.0, 0.01);
        let fifth = f64::from(0.2_f32);
        assert_eq!(
            kernel.weights.iter().filter(|&&weight| (weight - fifth).abs() < 1e-12).count(),
            5
        );
        assert_eq!(
            kernel.changes().len(),
            4,
            "the centre row and the next, each with a rise and a fall"
        );
    }
}
