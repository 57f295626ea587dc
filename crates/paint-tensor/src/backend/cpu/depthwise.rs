//! Convolutions of each channel by itself. Channels come last, so that neighbours in memory do the same work: vectors
//! run along channels. A few rows of one vector's channels are copied with zeros around them; the sums of neighbouring
//! pixels then stay in registers over all taps of a kernel, and each weight is read once for all of them.
//!
//! Every output element is summed over taps in one order, and the parts of a weight gradient do not depend on the
//! number of threads, so neither do the bits.

use std::ops::Range;

use pulp::{Arch, Scalar, Simd, WithSimd};
use rayon::prelude::*;

use super::Cpu;
use super::parallel::for_chunks;
use super::slab::Block;
use super::storage::{build, host};
use crate::Result;
use crate::backend::{Depthwise, DepthwiseKernels, Storage};

/// Rows of the output that make one task.
const BAND: usize = 14;
/// Pixels of a row whose sums are held together. Divides the widths of a network that begins with 56 pixels.
const COLUMNS: usize = 7;
/// Taps of a row of a kernel whose gradients are held together, the side of ConvNeXt's kernels.
const TAPS: usize = 7;
/// Partial sums of a weight gradient, each over consecutive images.
const PARTS: usize = 8;

impl DepthwiseKernels for Cpu {
    fn depthwise(&self, problem: &Depthwise, x: &Storage, weight: &Storage) -> Result<Storage> {
        Ok(build(problem.len(), |out| forward(problem, host(x), host(weight), out)))
    }

    fn depthwise_backward_weight(
        &self,
        problem: &Depthwise,
        x: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        Ok(build(problem.weights(), |dw| backward_weight(problem, host(x), host(grad), dw)))
    }
}

/// The taps of a kernel that meet an image of `size` at place `at`.
#[inline(always)]
fn taps(at: usize, side: usize, size: usize) -> Range<usize> {
    let half = side / 2;
    half.saturating_sub(at)..side.min(size + half - at)
}

/// Work that is the same for every channel.
trait ByChannels {
    fn channels(&self) -> usize;

    /// Computes a range of channels, a vector of them at a time.
    fn of_channels<S: Simd>(&mut self, simd: S, range: Range<usize>);
}

/// The whole vectors of the channels, then what is left, one at a time.
struct Vectors<W>(W);

impl<W: ByChannels> WithSimd for Vectors<W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let channels = self.0.channels();
        let whole = channels - channels % S::F32_LANES;
        self.0.of_channels(simd, 0..whole);
        self.0.of_channels(Scalar, whole..channels);
    }
}

/// Copies `lanes` channels of a row of pixels, from the given one of all on.
#[inline(always)]
fn copy_channels(pixels: &[f32], [all, first]: [usize; 2], out: &mut [f32], lanes: usize) {
    for (pixel, out) in pixels.chunks_exact(all).zip(out.chunks_exact_mut(lanes)) {
        out.copy_from_slice(&pixel[first..][..lanes]);
    }
}

fn forward(problem: &Depthwise, x: &[f32], weight: &[f32], out: &mut [f32]) {
    let Depthwise { size: [height, width], channels, .. } = *problem;
    let row = width * channels;
    let images = x.par_chunks(height * row).zip(out.par_chunks_mut(height * row));
    images.for_each(|(image, out)| {
        for_chunks(out, BAND * row, |band, out| {
            let band = Band { problem, image, weight, first: band * BAND, out };
            Arch::new().dispatch(Vectors(band));
        });
    });
}

/// Consecutive rows of the output of one image.
struct Band<'a> {
    problem: &'a Depthwise,
    image: &'a [f32],
    weight: &'a [f32],
    /// The first of the rows.
    first: usize,
    out: &'a mut [f32],
}

impl ByChannels for Band<'_> {
    fn channels(&self) -> usize {
        self.problem.channels
    }

    #[inline(always)]
    fn of_channels<S: Simd>(&mut self, simd: S, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let Depthwise { size: [height, width], channels, side, turned, .. } = *self.problem;
        let (lanes, half, row) = (S::F32_LANES, side / 2, width * channels);
        let rows =
            self.first.saturating_sub(half)..height.min(self.first + self.out.len() / row + half);
        let wide = width.next_multiple_of(COLUMNS) + side - 1;
        let image = &self.image[rows.start * row..rows.end * row];
        let mut near = Block::take(rows.len() * wide * lanes);
        near.as_mut_slice().fill(0.0);
        for channel in range.step_by(lanes) {
            let lines = near.as_mut_slice().chunks_exact_mut(wide * lanes);
            for (pixels, near) in image.chunks_exact(row).zip(lines) {
                copy_channels(pixels, [channels, channel], &mut near[half * lanes..], lanes);
            }
            let near = S::as_simd_f32s(near.as_slice()).0;
            for (i, out) in self.out.chunks_exact_mut(row).enumerate() {
                let y = self.first + i;
                for (tile, out) in out.chunks_mut(COLUMNS * channels).enumerate() {
                    let mut sums = [simd.splat_f32s(0.0); COLUMNS];
                    for u in taps(y, side, height) {
                        let line = (y + u - half - rows.start) * wide + tile * COLUMNS;
                        for v in 0..side {
                            let tap = u * side + v;
                            let tap = if turned { side * side - 1 - tap } else { tap };
                            let weight = &self.weight[tap * channels + channel..][..lanes];
                            let weight = S::as_simd_f32s(weight).0[0];
                            let near = &near[line + v..][..COLUMNS];
                            for c in 0..COLUMNS {
                                sums[c] = simd.mul_add_e_f32s(weight, near[c], sums[c]);
                            }
                        }
                    }
                    // A copy: what is iterated over lies in memory, and the sums must not while they grow.
                    let sums: [S::f32s; COLUMNS] = std::array::from_fn(|c| sums[c]);
                    for (sum, out) in sums.iter().zip(out.chunks_exact_mut(channels)) {
                        S::as_mut_simd_f32s(&mut out[channel..][..lanes]).0[0] = *sum;
                    }
                }
            }
        }
    }
}

fn backward_weight(problem: &Depthwise, x: &[f32], grad: &[f32], dw: &mut [f32]) {
    let Depthwise { batch, size: [height, width], channels, .. } = *problem;
    let image = height * width * channels;
    let part = batch.div_ceil(PARTS) * image;
    let sums: Vec<Block> = x
        .par_chunks(part)
        .zip(grad.par_chunks(part))
        .map(|(x, grad)| {
            let mut sums = Block::take(dw.len());
            sums.as_mut_slice().fill(0.0);
            for (image, grad) in x.chunks_exact(image).zip(grad.chunks_exact(image)) {
                let sums = sums.as_mut_slice();
                Arch::new().dispatch(Vectors(Products { problem, image, grad, sums }));
            }
            sums
        })
        .collect();
    dw.fill(0.0);
    for sum in &sums {
        dw.iter_mut().zip(sum.as_slice()).for_each(|(out, sum)| *out += sum);
    }
}

/// What one image adds to the gradient of the kernels.
struct Products<'a> {
    problem: &'a Depthwise,
    image: &'a [f32],
    grad: &'a [f32],
    sums: &'a mut [f32],
}

impl ByChannels for Products<'_> {
    fn channels(&self) -> usize {
        self.problem.channels
    }

    #[inline(always)]
    fn of_channels<S: Simd>(&mut self, simd: S, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let Depthwise { size: [height, width], channels, side, .. } = *self.problem;
        let (lanes, half, row) = (S::F32_LANES, side / 2, width * channels);
        let wide = width + side.next_multiple_of(TAPS) - 1;
        let mut near = Block::take(height * wide * lanes);
        near.as_mut_slice().fill(0.0);
        for channel in range.step_by(lanes) {
            let lines = near.as_mut_slice().chunks_exact_mut(wide * lanes);
            for (pixels, near) in self.image.chunks_exact(row).zip(lines) {
                copy_channels(pixels, [channels, channel], &mut near[half * lanes..], lanes);
            }
            let near = S::as_simd_f32s(near.as_slice()).0;
            for (y, grad) in self.grad.chunks_exact(row).enumerate() {
                for u in taps(y, side, height) {
                    let line = &near[(y + u - half) * wide..][..wide];
                    for first in (0..side).step_by(TAPS) {
                        let mut sums = [simd.splat_f32s(0.0); TAPS];
                        for (grad, near) in
                            grad.chunks_exact(channels).zip(line[first..].windows(TAPS))
                        {
                            let grad = S::as_simd_f32s(&grad[channel..][..lanes]).0[0];
                            for v in 0..TAPS {
                                sums[v] = simd.mul_add_e_f32s(grad, near[v], sums[v]);
                            }
                        }
                        // A copy: what is iterated over lies in memory, and the sums must not while they grow.
                        let sums: [S::f32s; TAPS] = std::array::from_fn(|v| sums[v]);
                        for (v, sum) in (first..side).zip(&sums) {
                            let at = (u * side + v) * channels + channel;
                            let out = S::as_mut_simd_f32s(&mut self.sums[at..][..lanes]).0;
                            out[0] = simd.add_f32s(out[0], *sum);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Conv2d, Device, Tensor};

    fn values(shape: &[usize], seed: f32) -> Tensor {
        let len = shape.iter().product::<usize>();
        let data = (0..len).map(|i| ((i as f32 + seed) * 0.7).sin()).collect();
        Tensor::from_vec(data, shape, &Device::cpu()).unwrap().variable()
    }

    /// Large enough for several tasks and blocks of channels, with a rest of both.
    #[test]
    fn it_is_the_general_convolution_in_as_many_groups_as_channels() {
        let (x, kernels) = (values(&[9, 40, 23, 70], 0.0), values(&[7, 7, 70], 0.3));
        let by_channel = x.permute(&[0, 3, 1, 2]).unwrap();
        let general = kernels.permute(&[2, 0, 1]).unwrap().reshape([70, 1, 7, 7]).unwrap();
        let how = Conv2d { stride: 1, padding: 3, groups: 70 };
        let expected = by_channel.conv2d(&general, how).unwrap().permute(&[0, 2, 3, 1]).unwrap();
        let found = x.depthwise(&kernels).unwrap();
        let weights = values(found.shape(), 0.9).detach();
        let near = |a: &Tensor, b: &Tensor, most: f32| {
            let (a, b) = (a.to_vec().unwrap(), b.to_vec().unwrap());
            a.iter().zip(&b).for_each(|(a, b)| assert!((a - b).abs() < most, "{a} and {b}"));
        };
        // Sums of 49 products of up to 1, in other orders.
        near(&found, &expected, 1e-5);
        let gradients =
            |y: &Tensor| y.mul(&weights).unwrap().sum_all().unwrap().backward().unwrap();
        let (a, b) = (gradients(&found), gradients(&expected));
        near(a.get(&x).unwrap(), b.get(&x).unwrap(), 1e-5);
        // Sums over 8280 pixels.
        near(a.get(&kernels).unwrap(), b.get(&kernels).unwrap(), 5e-3);
    }
}
