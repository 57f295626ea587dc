//! Launches of the kernels over rows: layer norm, softmax and L2 normalisation.

use super::Cuda;
use super::buffer::{Buffer, Kind};
use super::driver::Grid;
use super::elements::{CHUNK, column_grid};
use super::kernel::{Kernel, variants};
use super::param::{Params, Read, Write};
use crate::Result;
use crate::backend::Storage;

/// Rows of a block: one warp each.
const WARPS: usize = 8;

/// How many times 16 bytes of a row each lane of a warp holds in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunks {
    One,
    Two,
    Three,
    Four,
    Six,
    /// Rows of any length, read from memory more than once.
    Any,
}

variants! {
    Chunks {
        One = "1",
        Two = "2",
        Three = "3",
        Four = "4",
        Six = "6",
        Any = "any",
    }
}

impl Chunks {
    /// For rows of `d` elements.
    fn of(d: usize, kind: Kind) -> Self {
        let pack = 16 / kind.bytes();
        match d.div_ceil(32 * pack) {
            _ if !d.is_multiple_of(pack) => Self::Any,
            1 => Self::One,
            2 => Self::Two,
            3 => Self::Three,
            4 => Self::Four,
            5 | 6 => Self::Six,
            _ => Self::Any,
        }
    }
}

/// How an input and the gradient of its result are stored. The gradient of an `f32` input is `f32` too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    F32,
    Bf16ByF32,
    Bf16,
}

variants! {
    Beside {
        F32 = "f32_f32",
        Bf16ByF32 = "bf16_f32",
        Bf16 = "bf16_bf16",
    }
}

impl Cuda {
    /// A kernel with one warp for each of `rows` rows of `d` elements.
    fn by_warp<P: Params>(
        &self,
        kernel: &Kernel<P>,
        [rows, d]: [usize; 2],
        params: impl FnOnce(i32, i32) -> P,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let grid = Grid::new([rows.div_ceil(WARPS), 1, 1], [32 * WARPS as u32, 1]);
        self.gpu.launch(kernel, grid, params(rows as i32, d as i32))
    }

    /// The result of a kernel over rows of `d` elements, `len` elements in all.
    pub(super) fn by_row<P: Params>(
        &self,
        kernel: &Kernel<P>,
        [len, d]: [usize; 2],
        params: impl FnOnce(Write, i32, i32) -> P,
    ) -> Result<Storage> {
        let out = self.take_f32(len)?;
        let size = [len / d.max(1), d];
        self.by_warp(kernel, size, |rows, d| params(out.write(), rows, d))?;
        Ok(Storage::Cuda(out))
    }

    /// The result of a kernel over rows of `d` elements of one buffer.
    pub(super) fn of_rows(
        &self,
        kernel: &Kernel<(Read, Write, i32, i32)>,
        x: &Buffer,
        d: usize,
    ) -> Result<Storage> {
        self.by_row(kernel, [x.len(), d], |out, rows, d| (x.read(), out, rows, d))
    }

    /// The result of a kernel over rows of `d` elements of two buffers.
    pub(super) fn of_row_pairs(
        &self,
        kernel: &Kernel<(Read, Read, Write, i32, i32)>,
        [a, b]: [&Buffer; 2],
        d: usize,
    ) -> Result<Storage> {
        self.by_row(kernel, [a.len(), d], |out, rows, d| (a.read(), b.read(), out, rows, d))
    }

    pub(super) fn l2_normalize_forward(&self, x: &Buffer, d: usize) -> Result<(Storage, Storage)> {
        let rows = x.len() / d;
        let (out, factor) = (self.take_f32(x.len())?, self.take_f32(rows)?);
        let kernel = &self.kernels.rowwise.l2_normalize;
        self.by_warp(kernel, [rows, d], |rows, d| {
            (x.read(), out.write(), factor.write(), rows, d)
        })?;
        Ok((Storage::Cuda(out), Storage::Cuda(factor)))
    }

    pub(super) fn layer_norm_forward(
        &self,
        x: &Buffer,
        gamma: &Buffer,
        beta: &Buffer,
        eps: f32,
    ) -> Result<(Storage, Storage)> {
        let (d, x) = (gamma.len(), &self.aligned(x)?);
        let [gamma, beta] = [self.factors(gamma)?, self.factors(beta)?];
        let rows = x.len() / d;
        let (out, stats) = (self.take(x.len(), x.kind)?, self.take_f32(2 * rows)?);
        let kernel = self.kernels.rowwise.layer_norm.of((x.kind, Chunks::of(d, x.kind)));
        self.by_warp(kernel, [rows, d], |rows, d| {
            let affine = (gamma.read(), beta.read());
            (x.read(), affine.0, affine.1, eps, out.write(), stats.write(), rows, d)
        })?;
        Ok((Storage::Cuda(out), Storage::Cuda(stats)))
    }

    /// What a row is multiplied by or added to, as the kernels read it: `f32`, in packs.
    fn factors(&self, x: &Buffer) -> Result<Buffer> {
        self.aligned(&self.cast(x, Kind::F32)?)
    }

    /// A gradient as it is read beside `x`, and which kernel does so.
    fn gradient_beside(&self, x: &Buffer, grad: &Buffer) -> Result<(Buffer, Beside)> {
        Ok(match (x.kind, grad.kind) {
            (Kind::F32, _) => (self.cast(grad, Kind::F32)?, Beside::F32),
            (Kind::Bf16, Kind::F32) => (grad.clone(), Beside::Bf16ByF32),
            (Kind::Bf16, Kind::Bf16) => (grad.clone(), Beside::Bf16),
        })
    }

    pub(super) fn layer_norm_gradient(
        &self,
        [x, stats, gamma]: [&Buffer; 3],
        grad: &Buffer,
        earlier: Option<&Buffer>,
    ) -> Result<Storage> {
        let (d, x, gamma) = (gamma.len(), &self.aligned(x)?, self.factors(gamma)?);
        let (grad, beside) = self.gradient_beside(x, grad)?;
        let grad = self.aligned(&grad)?;
        let earlier = match earlier {
            Some(earlier) => Some(self.aligned(&self.cast(earlier, x.kind)?)?),
            None => None,
        };
        let added = earlier.as_ref().map_or(Read::NONE, Buffer::read);
        let dx = self.take(x.len(), x.kind)?;
        let kernel = self.kernels.rowwise.layer_norm_backward.of((beside, Chunks::of(d, x.kind)));
        self.by_warp(kernel, [x.len() / d, d], |rows, d| {
            let [x, stats, gamma, grad] = [x, stats, &gamma, &grad].map(Buffer::read);
            (x, stats, gamma, grad, added, dx.write(), rows, d)
        })?;
        Ok(Storage::Cuda(dx))
    }

    pub(super) fn layer_norm_affine_gradient(
        &self,
        x: &Buffer,
        stats: &Buffer,
        grad: &Buffer,
        d: usize,
    ) -> Result<(Storage, Storage)> {
        let (grad, beside) = self.gradient_beside(x, grad)?;
        let rows = x.len() / d;
        let chunks = rows.div_ceil(CHUNK).max(1);
        let parts = self.take_f32(chunks * 2 * d)?;
        let kernel = self.kernels.layout.layer_norm_affine.of(beside);
        let [rows, wide, chunk] = [rows, d, CHUNK].map(|size| size as i32);
        let params = (x.read(), stats.read(), grad.read(), parts.write(), rows, wide, chunk);
        self.gpu.launch(kernel, column_grid(d, chunks, 1), params)?;
        let sums = self.sums(&parts, [1, chunks, 2 * d])?;
        Ok((Storage::Cuda(sums.part(0, d)), Storage::Cuda(sums.part(d, d))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gets_the_fewest_chunks_that_hold_it() {
        // A warp's load of 16 bytes per lane is 128 numbers in f32 and 256 in bf16.
        for (d, f32, bf16) in [
            (64, Chunks::One, Chunks::One),
            (192, Chunks::Two, Chunks::One),
            (384, Chunks::Three, Chunks::Two),
            (640, Chunks::Six, Chunks::Three),
            (768, Chunks::Six, Chunks::Three),
            (1024, Chunks::Any, Chunks::Four),
            (1536, Chunks::Any, Chunks::Six),
            (1544, Chunks::Any, Chunks::Any),
            (18, Chunks::Any, Chunks::Any),
            (12, Chunks::One, Chunks::Any),
        ] {
            assert_eq!((Chunks::of(d, Kind::F32), Chunks::of(d, Kind::Bf16)), (f32, bf16), "{d}");
        }
    }
}
