//! Launches of the kernels over the channels of `[outer, channels, inner]`.

use super::Cuda;
use super::buffer::Buffer;
use super::driver::Grid;
use super::elements::THREADS;
use super::kernel::Kernel;
use super::param::{Params, Read, Write};
use crate::Result;
use crate::backend::{After, Gate, Storage};

impl Cuda {
    /// Two numbers for each channel, by a kernel with one block per channel.
    fn per_channel<P: Params>(
        &self,
        kernel: &Kernel<P>,
        split: [usize; 3],
        params: impl FnOnce(Write, Write, [i32; 3]) -> P,
    ) -> Result<(Storage, Storage)> {
        let [first, second] = [self.take_f32(split[1])?, self.take_f32(split[1])?];
        let params = params(first.write(), second.write(), split.map(|size| size as i32));
        let grid = Grid::new([split[1], 1, 1], [2 * THREADS as u32, 1]);
        self.gpu.launch(kernel, grid, params)?;
        Ok((Storage::Cuda(first), Storage::Cuda(second)))
    }

    /// Mean and biased variance of each channel.
    pub(super) fn moments_of_channels(
        &self,
        x: &Buffer,
        split: [usize; 3],
    ) -> Result<(Storage, Storage)> {
        let kernel = &self.kernels.planes.channel_moments;
        self.per_channel(kernel, split, |mean, variance, [outer, channels, inner]| {
            (x.read(), mean, variance, outer, channels, inner)
        })
    }

    /// `Σ grad` and `Σ grad (x - centre)` of each channel.
    pub(super) fn gradient_sums_of_channels(
        &self,
        [x, grad, centre]: [&Buffer; 3],
        gate: Option<Gate<'_>>,
        split: [usize; 3],
    ) -> Result<(Storage, Storage)> {
        let gate = self.gate(gate)?;
        let [scale, shift] = open_where(gate.as_ref());
        let kernel = &self.kernels.planes.channel_gradient_sums;
        self.per_channel(kernel, split, |plain, centred, [outer, channels, inner]| {
            let [x, grad, centre] = [x, grad, centre].map(Buffer::read);
            (x, grad, centre, scale, shift, plain, centred, outer, channels, inner)
        })
    }

    /// `scale x + shift`, and what comes after it.
    pub(super) fn affine_by_channel(
        &self,
        [x, scale, shift]: [&Buffer; 3],
        after: After<'_>,
        split: [usize; 3],
    ) -> Result<Storage> {
        let [_, channels, inner] = split.map(|size| size as i32);
        let (gated, residual) = match after {
            After::Nothing => (0, None),
            After::Relu(residual) => (1, residual.map(|x| self.widened(x)).transpose()?),
        };
        self.map(&self.kernels.planes.channel_affine, x.len(), |out, n| {
            let residual = residual.as_ref().map_or(Read::NONE, Buffer::read);
            let [x, scale, shift] = [x, scale, shift].map(Buffer::read);
            (x, scale, shift, residual, gated, out, channels, inner, n)
        })
    }

    /// `a grad + b x + c`.
    pub(super) fn combine_by_channel(
        &self,
        [x, grad]: [&Buffer; 2],
        coefficients: [&Buffer; 3],
        gate: Option<Gate<'_>>,
        split: [usize; 3],
    ) -> Result<Storage> {
        let gate = self.gate(gate)?;
        let [scale, shift] = open_where(gate.as_ref());
        let [_, channels, inner] = split.map(|size| size as i32);
        self.map(&self.kernels.planes.channel_combine, x.len(), |out, n| {
            let [a, b, c] = coefficients.map(Buffer::read);
            (x.read(), grad.read(), a, b, c, scale, shift, out, channels, inner, n)
        })
    }

    fn gate(&self, gate: Option<Gate<'_>>) -> Result<Option<[Buffer; 2]>> {
        gate.map(|gate| Ok([self.widened(gate.scale)?, self.widened(gate.shift)?])).transpose()
    }
}

/// The two addresses of a gate.
fn open_where(gate: Option<&[Buffer; 2]>) -> [Read; 2] {
    gate.map_or([Read::NONE; 2], |gate| gate.each_ref().map(Buffer::read))
}
