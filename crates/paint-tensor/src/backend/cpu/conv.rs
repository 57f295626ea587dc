//! Convolutions without unfolded copies of the input.
//!
//! The images of a task are laid out once as zero-padded planes ([`Planes`]), so that a kernel tap is a constant
//! distance in memory: an output row of 16 neighbours reads 16 neighbours of the plane, whatever the tap. A product
//! over (channel, tap) then runs straight from the planes ([`tile`]). The gradient of the input is a convolution too:
//! of the output's gradient, with `stride - 1` zeros between its elements, by the turned kernels.
//!
//! Every output element is summed over (channel, tap) in one accumulator, and the images of a task do not depend on the
//! number of threads, so neither do the bits.

mod planes;
mod tile;

use rayon::prelude::*;

use self::planes::{Planes, Taps};
use self::tile::{DOT_ROWS, DOT_TAPS, ROWS};
use super::slab::Block;
use crate::backend::Conv;

/// Positions that one task should have at least: small images go together.
const POSITIONS: usize = 512;
/// Partial sums of a weight gradient, each over consecutive images.
const PARTS: usize = 8;

/// The taps of the forward pass.
fn forward_taps(conv: &Conv) -> Taps {
    Taps {
        channels: conv.inputs / conv.groups,
        source: conv.input,
        spacing: 1,
        padding: [conv.padding as isize; 2],
        kernel: conv.kernel,
        stride: conv.stride,
        output: conv.output,
    }
}

/// The taps of the input's gradient, as a convolution of the output's gradient.
fn backward_taps(conv: &Conv) -> Taps {
    Taps {
        channels: conv.outputs / conv.groups,
        source: conv.output,
        spacing: conv.stride,
        padding: conv.kernel.map(|side| side as isize - 1 - conv.padding as isize),
        kernel: conv.kernel,
        stride: 1,
        output: conv.input,
    }
}

/// `out [B, O, oh, ow]`.
pub(super) fn forward(conv: &Conv, x: &[f32], weight: &[f32], out: &mut [f32]) {
    let depth = conv.depth();
    let packed = Packed::new(conv.groups, conv.outputs / conv.groups, depth, |group, row, k| {
        weight[(group * conv.outputs / conv.groups + row) * depth + k]
    });
    convolve(&forward_taps(conv), &packed, x, out);
}

/// The gradient of the input, `dx [B, C, H, W]`.
pub(super) fn backward_input(conv: &Conv, weight: &[f32], grad: &[f32], dx: &mut [f32]) {
    let (inputs, outputs) = (conv.inputs / conv.groups, conv.outputs / conv.groups);
    let taps = conv.kernel[0] * conv.kernel[1];
    let packed = Packed::new(conv.groups, inputs, outputs * taps, |group, row, k| {
        let (output, tap) = (group * outputs + k / taps, taps - 1 - k % taps);
        weight[(output * inputs + row) * taps + tap]
    });
    convolve(&backward_taps(conv), &packed, grad, dx);
}

/// Kernels by blocks of [`ROWS`] output channels: `[group][block][depth][ROWS]`, zero beyond the last channel.
struct Packed {
    groups: usize,
    outputs: usize,
    depth: usize,
    block: Block,
}

impl Packed {
    fn new(
        groups: usize,
        outputs: usize,
        depth: usize,
        weight: impl Fn(usize, usize, usize) -> f32,
    ) -> Self {
        let blocks = outputs.div_ceil(ROWS);
        let mut block = Block::take(groups * blocks * depth * ROWS);
        let cells = block.as_mut_slice().chunks_exact_mut(ROWS);
        for (cell, values) in cells.enumerate() {
            let (k, first) = (cell % depth, cell / depth % blocks * ROWS);
            for (row, value) in values.iter_mut().enumerate() {
                *value = if first + row < outputs {
                    weight(cell / (depth * blocks), first + row, k)
                } else {
                    0.0
                };
            }
        }
        Self { groups, outputs, depth, block }
    }

    /// The kernels of one group, from block `first` on.
    fn from(&self, group: usize, first: usize) -> &[f32] {
        let blocks = self.outputs.div_ceil(ROWS);
        let size = self.depth * ROWS;
        &self.block.as_slice()[(group * blocks + first) * size..(group + 1) * blocks * size]
    }
}

fn convolve(taps: &Taps, packed: &Packed, source: &[f32], out: &mut [f32]) {
    let per_image = [taps.source_len() * packed.groups, taps.output_len(packed.outputs)];
    let images = taps.images_for(POSITIONS);
    let out_image = per_image[1] * packed.groups;
    let few = out.len().div_ceil(images * out_image) < rayon::current_num_threads();
    out.par_chunks_mut(images * out_image).enumerate().for_each(|(task, out)| {
        let source = &source[task * images * per_image[0]..];
        let count = out.len() / out_image;
        for group in 0..packed.groups {
            let planes =
                Planes::of(taps, count, &source[group * taps.source_len()..], packed.groups);
            let (offsets, width) = (taps.offsets(planes.len()), taps.positions(count));
            let blocks = packed.outputs.div_ceil(ROWS);
            let mut rows = Block::take(blocks * ROWS * width);
            // With few tasks the blocks of channels are shared between threads as well.
            let together = if few { 1 } else { blocks };
            rows.as_mut_slice().par_chunks_mut(together * ROWS * width).enumerate().for_each(
                |(part, rows)| {
                    let weights = packed.from(group, part * together);
                    tile::multiply(&offsets, weights, planes.as_slice(), rows, width);
                },
            );
            for (image, out) in out.chunks_exact_mut(out_image).enumerate() {
                let out = &mut out[group * per_image[1]..][..per_image[1]];
                taps.gather(image, rows.as_slice(), width, out);
            }
        }
    });
}

/// The gradient of the kernels, `dw [O, C / groups, kh, kw]`.
pub(super) fn backward_weight(conv: &Conv, x: &[f32], grad: &[f32], dw: &mut [f32]) {
    let taps = forward_taps(conv);
    let outputs = conv.outputs / conv.groups;
    let images = taps.images_for(POSITIONS);
    let part = conv.batch.div_ceil(images).div_ceil(PARTS).max(1) * images;
    let (x_image, y_image) = (taps.source_len() * conv.groups, conv.outputs * conv.output_len());
    let sums: Vec<Block> = x
        .par_chunks(part * x_image)
        .zip(grad.par_chunks(part * y_image))
        .map(|(x, grad)| {
            let mut sum = Block::take(dw.len());
            sum.as_mut_slice().fill(0.0);
            for (x, grad) in x.chunks(images * x_image).zip(grad.chunks(images * y_image)) {
                let count = x.len() / x_image;
                for (group, sum) in
                    sum.as_mut_slice().chunks_exact_mut(outputs * conv.depth()).enumerate()
                {
                    let planes =
                        Planes::of(&taps, count, &x[group * taps.source_len()..], conv.groups);
                    let width = taps.positions(count);
                    let mut rows = Block::take(outputs.next_multiple_of(DOT_ROWS) * width);
                    let rows = rows.as_mut_slice();
                    rows.fill(0.0);
                    for (image, grad) in grad.chunks_exact(y_image).enumerate() {
                        let grad = &grad[group * outputs * conv.output_len()..];
                        taps.scatter(image, &grad[..outputs * conv.output_len()], rows, width);
                    }
                    let mut offsets = taps.offsets(planes.len());
                    let depth = offsets.len();
                    offsets.resize(depth.next_multiple_of(DOT_TAPS), 0);
                    tile::add_dots(&offsets, depth, planes.as_slice(), (rows, width), sum);
                }
            }
            sum
        })
        .collect();
    dw.fill(0.0);
    for sum in &sums {
        dw.iter_mut().zip(sum.as_slice()).for_each(|(out, sum)| *out += sum);
    }
}

#[cfg(test)]
mod tests;
