//! Launches of the kernels over rows: layer norm, softmax and the like, and per-channel sums.

use super::Cuda;
use super::buffer::{Buffer, Kind};
use super::driver::{Arg, Grid};
use super::elements::{CHUNK, COLUMNS, LANES, THREADS};
use crate::Result;
use crate::backend::Storage;

/// Rows of a block: one warp each.
const WARPS: usize = 8;

macro_rules! sizes {
    ($($chunks:literal),*) => {
        &[$(
            concat!("layer_norm_f32_", $chunks), concat!("layer_norm_bf16_", $chunks),
            concat!("layer_norm_backward_f32_f32_", $chunks), concat!("layer_norm_backward_bf16_f32_", $chunks),
            concat!("layer_norm_backward_bf16_bf16_", $chunks),
        )*]
    };
}

/// Kernels whose names come out of macros.
pub(super) const ROWWISE: &[&str] = sizes!("1", "2", "3", "4", "6", "any");

/// The kernel for rows of `d`: how many times 16 bytes each lane of a warp holds in registers.
fn chunks(d: usize, kind: Kind) -> &'static str {
    let pack = 16 / kind.bytes();
    match d.div_ceil(32 * pack) {
        _ if !d.is_multiple_of(pack) => "any",
        1 => "1",
        2 => "2",
        3 => "3",
        4 => "4",
        5 | 6 => "6",
        _ => "any",
    }
}

impl Cuda {
    fn rows(&self, name: &str, args: &[Arg], rows: usize, d: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let grid = Grid::new([rows.div_ceil(WARPS), 1, 1], [32 * WARPS as u32, 1]);
        self.launch(name, grid, &[args, &[Arg::I32(rows as i32), Arg::I32(d as i32)]].concat())
    }

    /// A kernel from buffers to one new buffer as long as the first.
    pub(super) fn by_row(&self, name: &str, inputs: &[&Buffer], d: usize) -> Result<Storage> {
        let out = self.take_f32(inputs[0].len())?;
        let args: Vec<Arg> =
            inputs.iter().copied().chain([&out]).map(|x| Arg::Address(x.address())).collect();
        self.rows(name, &args, out.len() / d.max(1), d)?;
        Ok(Storage::Cuda(out))
    }

    pub(super) fn l2_normalize_forward(&self, x: &Buffer, d: usize) -> Result<(Storage, Storage)> {
        let rows = x.len() / d;
        let (out, factor) = (self.take_f32(x.len())?, self.take_f32(rows)?);
        let args = [x, &out, &factor].map(|x| Arg::Address(x.address()));
        self.rows("l2_normalize", &args, rows, d)?;
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
        let [from, gamma, beta, to, statistics] =
            [x, &gamma, &beta, &out, &stats].map(|x| Arg::Address(x.address()));
        let name = format!("layer_norm_{}_{}", x.kind.name(), chunks(d, x.kind));
        self.rows(&name, &[from, gamma, beta, Arg::F32(eps), to, statistics], rows, d)?;
        Ok((Storage::Cuda(out), Storage::Cuda(stats)))
    }

    /// What a row is multiplied by or added to, as the kernels read it: `f32`, in packs.
    fn factors(&self, x: &Buffer) -> Result<Buffer> {
        self.aligned(&self.cast(x, Kind::F32)?)
    }

    /// The gradient beside an `f32` input is `f32` too.
    fn gradient_beside(&self, x: &Buffer, grad: &Buffer) -> Result<Buffer> {
        if x.kind == Kind::F32 { self.cast(grad, Kind::F32) } else { Ok(grad.clone()) }
    }

    pub(super) fn layer_norm_gradient(
        &self,
        [x, stats, gamma]: [&Buffer; 3],
        grad: &Buffer,
        earlier: Option<&Buffer>,
    ) -> Result<Storage> {
        let (d, x, gamma) = (gamma.len(), &self.aligned(x)?, self.factors(gamma)?);
        let grad = self.aligned(&self.gradient_beside(x, grad)?)?;
        let earlier = match earlier {
            Some(earlier) => Some(self.aligned(&self.cast(earlier, x.kind)?)?),
            None => None,
        };
        let dx = self.take(x.len(), x.kind)?;
        let address = |x: &Buffer| Arg::Address(x.address());
        let added = earlier.as_ref().map_or(Arg::Address(0), address);
        let args =
            [address(x), address(stats), address(&gamma), address(&grad), added, address(&dx)];
        let name = format!(
            "layer_norm_backward_{}_{}_{}",
            x.kind.name(),
            grad.kind.name(),
            chunks(d, x.kind)
        );
        self.rows(&name, &args, x.len() / d, d)?;
        Ok(Storage::Cuda(dx))
    }

    pub(super) fn layer_norm_affine_gradient(
        &self,
        x: &Buffer,
        stats: &Buffer,
        grad: &Buffer,
        d: usize,
    ) -> Result<(Storage, Storage)> {
        let grad = self.gradient_beside(x, grad)?;
        let rows = x.len() / d;
        let chunks = rows.div_ceil(CHUNK).max(1);
        let parts = self.take_f32(chunks * 2 * d)?;
        let name = format!("layer_norm_affine_{}_{}", x.kind.name(), grad.kind.name());
        let buffers = [x, stats, &grad, &parts].map(|x| Arg::Address(x.address()));
        let sizes = [rows, d, CHUNK].map(|size| Arg::I32(size as i32));
        let grid = Grid::new([d.div_ceil(COLUMNS), chunks, 1], [COLUMNS as u32, LANES]);
        self.launch(&name, grid, &[&buffers[..], &sizes].concat())?;
        let sums = self.sums(&parts, [1, chunks, 2 * d])?;
        Ok((Storage::Cuda(sums.part(0, d)), Storage::Cuda(sums.part(d, d))))
    }

    /// A kernel with one block for each channel of `[outer, channels, inner]`.
    pub(super) fn per_channel(&self, name: &str, args: &[Arg], split: [usize; 3]) -> Result<()> {
        let sizes = split.map(|size| Arg::I32(size as i32));
        let grid = Grid::new([split[1], 1, 1], [2 * THREADS as u32, 1]);
        self.launch(name, grid, &[args, &sizes].concat())
    }

    /// A kernel over all elements that also reads one number or more for each channel.
    pub(super) fn channel_map(
        &self,
        name: &str,
        inputs: &[&Buffer],
        [_, channels, inner]: [usize; 3],
    ) -> Result<Storage> {
        let out = self.take_f32(inputs[0].len())?;
        let mut args: Vec<Arg> =
            inputs.iter().copied().chain([&out]).map(|x| Arg::Address(x.address())).collect();
        args.extend([Arg::I32(channels as i32), Arg::I32(inner as i32)]);
        self.each(name, out.len(), &args, out.len())?;
        Ok(Storage::Cuda(out))
    }
}
