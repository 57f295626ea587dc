//! Zero-padded planes of a few images, cut by the phase of the stride.
//!
//! Letters: `s` stride, `(Y, X)` padded coordinates. A plane holds, for one channel, the pixels with one `(Y mod s, X
//! mod s)` of several images one after the other, `ph` rows of `pw` each. Output `(oy, ox)` of an image reads for the
//! tap `(ky, kx)` the plane of phase `(ky mod s, kx mod s)` at `(oy + ky / s, ox + kx / s)`: neighbouring outputs
//! read neighbouring elements. Positions beyond the last column of an output row are computed too and dropped. Where
//! the stride is one, the zeros behind a row are those before the next one, and so are rows of zeros between images.

use super::super::slab::Block;
use super::tile::MAX_WIDTH;

/// What the outputs read: a convolution's geometry, for one group of channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taps {
    pub(super) channels: usize,
    /// Height and width of a source image.
    pub(super) source: [usize; 2],
    /// Distance of source pixels on the padded grid; more than one puts zeros between them.
    pub(super) spacing: usize,
    /// Rows and columns of zeros before the first pixel; a negative number leaves pixels out.
    pub(super) padding: [isize; 2],
    pub(super) kernel: [usize; 2],
    pub(super) stride: usize,
    pub(super) output: [usize; 2],
}

impl Taps {
    /// Elements of the channels of one source image.
    pub(super) fn source_len(&self) -> usize {
        self.channels * self.source[0] * self.source[1]
    }

    /// Elements of `channels` of one output image.
    pub(super) fn output_len(&self, channels: usize) -> usize {
        channels * self.output[0] * self.output[1]
    }

    /// `(ph, pw)`.
    fn plane(&self) -> [usize; 2] {
        let along = |axis: usize| {
            let beyond = (self.kernel[axis] - 1) / self.stride;
            let whole = self.output[axis] + beyond;
            if self.stride > 1 {
                return whole;
            }
            // No convolution here has fewer zeros behind its pixels than before them.
            let before = self.padding[axis].max(0) as usize;
            whole - before.min(beyond)
        };
        [along(0), along(1)]
    }

    /// Phases that a tap reads, by axis.
    fn phases(&self) -> [usize; 2] {
        [self.kernel[0].min(self.stride), self.kernel[1].min(self.stride)]
    }

    /// How many images give at least `positions` output positions.
    pub(super) fn images_for(&self, positions: usize) -> usize {
        let [h, w] = self.plane();
        (positions / (h * w)).max(1)
    }

    /// Output positions of `images` images, to the end of the last output row, in whole vectors.
    pub(super) fn positions(&self, images: usize) -> usize {
        let [h, w] = self.plane();
        let last = ((images - 1) * h + self.output[0] - 1) * w + self.output[1];
        last.next_multiple_of(MAX_WIDTH)
    }

    /// Where each (channel, ky, kx) reads, for position zero; `plane` is the length of one plane.
    pub(super) fn offsets(&self, plane: usize) -> Vec<usize> {
        let ([_, w], [fy, fx], s) = (self.plane(), self.phases(), self.stride);
        let mut offsets = Vec::with_capacity(self.channels * self.kernel[0] * self.kernel[1]);
        for channel in 0..self.channels {
            for ky in 0..self.kernel[0] {
                for kx in 0..self.kernel[1] {
                    let index = (channel * fy + ky % s) * fx + kx % s;
                    offsets.push(index * plane + ky / s * w + kx / s);
                }
            }
        }
        offsets
    }

    /// Copies the output image `image` out of rows of positions, `width` apart.
    pub(super) fn gather(&self, image: usize, rows: &[f32], width: usize, out: &mut [f32]) {
        self.each_row(image, width, out.len(), |position, at, len| {
            copy(&rows[position..position + len], &mut out[at..at + len]);
        });
    }

    /// The reverse of [`Self::gather`].
    pub(super) fn scatter(&self, image: usize, out: &[f32], rows: &mut [f32], width: usize) {
        self.each_row(image, width, out.len(), |position, at, len| {
            copy(&out[at..at + len], &mut rows[position..position + len]);
        });
    }

    /// Calls `f(position, index, length)` for each row of an output image with `len` elements.
    fn each_row(
        &self,
        image: usize,
        width: usize,
        len: usize,
        mut f: impl FnMut(usize, usize, usize),
    ) {
        let ([h, w], [oh, ow]) = (self.plane(), self.output);
        for row in 0..len / ow {
            f(row / oh * width + (image * h + row % oh) * w, row * ow, ow);
        }
    }
}

/// Copies a row. Those of small images are so short that a call would take longer than the copy.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    fn fixed<const N: usize>(from: &[f32], to: &mut [f32]) {
        to[..N].copy_from_slice(&from[..N]);
    }
    match from.len() {
        8 => fixed::<8>(from, to),
        16 => fixed::<16>(from, to),
        32 => fixed::<32>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Sets the few elements between two rows to zero, without a call for one of them.
#[inline(always)]
fn clear(zeros: &mut [f32]) {
    match zeros {
        [] => (),
        [zero] => *zero = 0.0,
        zeros => zeros.fill(0.0),
    }
}

/// The planes of a few images: `[channel, phase][image, ph, pw]`.
pub(super) struct Planes {
    block: Block,
    len: usize,
}

impl Planes {
    /// The planes of the first `images` images of `source`, whose channels are one of `groups` groups.
    pub(super) fn of(taps: &Taps, images: usize, source: &[f32], groups: usize) -> Self {
        let ([h, w], [fy, fx]) = (taps.plane(), taps.phases());
        let len = images * h * w;
        let count = taps.channels * fy * fx;
        let reach = (taps.kernel[0] - 1) * w + taps.kernel[1];
        let mut block = Block::take(count * len + taps.positions(images) + reach);
        let planes = block.as_mut_slice();
        if let Some(padding) = taps.plain() {
            let (planes, rest) = planes.split_at_mut(count * len);
            rest.fill(0.0);
            for (index, plane) in planes.chunks_exact_mut(h * w).enumerate() {
                let (channel, image) = (index / images, index % images);
                let size = taps.source[0] * taps.source[1];
                let start = image * groups * taps.source_len() + channel * size;
                taps.frame(&source[start..start + size], padding, plane);
            }
            return Self { block, len };
        }
        planes.fill(0.0);
        let [source_h, source_w] = taps.source;
        for image in 0..images {
            let source = &source[image * groups * taps.source_len()..][..taps.source_len()];
            for (index, row) in source.chunks_exact(source_w).enumerate() {
                let (channel, y) = (index / source_h, index % source_h);
                let Some((py, ty)) = taps.place(0, y) else { continue };
                let start = (channel * fy + py) * fx * len + (image * h + ty) * w;
                taps.copy_row(row, &mut planes[start..], len);
            }
        }
        Self { block, len }
    }

    /// The length of one plane.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn as_slice(&self) -> &[f32] {
        self.block.as_slice()
    }
}

impl Taps {
    /// The phase and place of source coordinate `i` along `axis`, if a tap reads it.
    fn place(&self, axis: usize, i: usize) -> Option<(usize, usize)> {
        let padded = (i * self.spacing).checked_add_signed(self.padding[axis])?;
        let (phase, at) = (padded % self.stride, padded / self.stride);
        (phase < self.phases()[axis] && at < self.plane()[axis]).then_some((phase, at))
    }

    /// Rows and columns of zeros before the pixels, if a plane is an image in a frame of zeros.
    fn plain(&self) -> Option<[usize; 2]> {
        let whole = self.plane();
        let padding = self.padding.map(usize::try_from);
        let [Ok(top), Ok(left)] = padding else { return None };
        let fits = top + self.source[0] <= whole[0] && left + self.source[1] <= whole[1];
        (self.stride == 1 && self.spacing == 1 && fits).then_some([top, left])
    }

    /// Writes a plane: an image, and zeros around it.
    fn frame(&self, source: &[f32], [top, left]: [usize; 2], plane: &mut [f32]) {
        let ([_, w], [source_h, source_w]) = (self.plane(), self.source);
        let (above, rest) = plane.split_at_mut(top * w);
        let (middle, below) = rest.split_at_mut(source_h * w);
        above.fill(0.0);
        below.fill(0.0);
        for (row, source) in middle.chunks_exact_mut(w).zip(source.chunks_exact(source_w)) {
            let (before, rest) = row.split_at_mut(left);
            let (pixels, after) = rest.split_at_mut(source_w);
            clear(before);
            copy(source, pixels);
            clear(after);
        }
    }

    /// Spreads a source row over the planes of its phases, `len` apart.
    fn copy_row(&self, row: &[f32], planes: &mut [f32], len: usize) {
        for (x, value) in row.iter().enumerate() {
            if let Some((phase, at)) = self.place(1, x) {
                planes[phase * len + at] = *value;
            }
        }
    }
}
