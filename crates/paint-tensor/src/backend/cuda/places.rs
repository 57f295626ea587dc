//! Launches of the kernels that move elements: along axes, side by side, and by their index.

use super::axes::Axes;
use super::buffer::{Buffer, Kind};
use super::driver::Grid;
use super::elements::{COLUMNS, LANES, PACK, Packing};
use super::{Cuda, on_gpu};
use crate::Result;
use crate::backend::Storage;
use crate::shape::broadcast_strides;

impl Cuda {
    /// The rows of every part, each of its own width, side by side.
    pub(super) fn joined(&self, outer: usize, parts: &[(&Storage, usize)]) -> Result<Storage> {
        let total: usize = parts.iter().map(|(_, width)| width).sum();
        let narrow = parts.iter().any(|(part, _)| on_gpu(part).kind == Kind::Bf16);
        let out = self.take(outer * total, if narrow { Kind::Bf16 } else { Kind::F32 })?;
        let mut start = 0;
        for &(part, width) in parts {
            self.copy_rows((on_gpu(part), 0, width), (&out, start, total), [outer, width])?;
            start += width;
        }
        Ok(Storage::Cuda(out))
    }

    /// Axis `i` of the result is axis `order[i]` of `x`.
    pub(super) fn permuted(&self, x: &Buffer, shape: &[usize], order: &[usize]) -> Result<Storage> {
        let steps = broadcast_strides(shape, shape);
        let (sizes, steps): (Vec<_>, Vec<_>) =
            order.iter().map(|&axis| (shape[axis], steps[axis])).unzip();
        let axes = Axes::new(&sizes, &steps)?;
        if let Some([rows, columns]) = axes.turned() {
            return Ok(Storage::Cuda(self.turned(x, [rows, columns])?));
        }
        let packed = axes.packed(PACK).filter(|_| x.address().is_multiple_of(16));
        let (packing, each) = Packing::when(packed.is_some(), PACK);
        let (out, n) = (self.take_f32(x.len())?, x.len() / each);
        let params = (packed.unwrap_or(axes), x.read(), out.write(), n as i64);
        self.each(self.kernels.layout.permute.of(packing), n, n, params)?;
        Ok(Storage::Cuda(out))
    }

    /// A matrix `[rows, columns]` with its axes exchanged.
    pub(super) fn turned(&self, x: &Buffer, [rows, columns]: [usize; 2]) -> Result<Buffer> {
        let out = self.take_f32(x.len())?;
        if out.len() > 0 {
            let blocks = [columns.div_ceil(COLUMNS), rows.div_ceil(COLUMNS), 1];
            let grid = Grid::new(blocks, [COLUMNS as u32, LANES as u32]);
            let params = (x.read(), out.write(), rows as i32, columns as i32);
            self.gpu.launch(&self.kernels.layout.turn, grid, params)?;
        }
        Ok(out)
    }

    /// `len` of the middle of `[outer, mid, inner]`, from `start`.
    pub(super) fn sliced(
        &self,
        x: &Buffer,
        [outer, mid, inner]: [usize; 3],
        [start, len]: [usize; 2],
    ) -> Result<Storage> {
        let width = len * inner;
        let out = self.take(outer * width, x.kind)?;
        self.copy_rows((x, start * inner, mid * inner), (&out, 0, width), [outer, width])?;
        Ok(Storage::Cuda(out))
    }

    /// Rows of `width` elements by index.
    pub(super) fn gathered(&self, x: &Buffer, indices: &[usize], width: usize) -> Result<Storage> {
        let index = self.indices(indices)?;
        self.map(&self.kernels.layout.gather, indices.len() * width, |out, n| {
            (x.read(), index.read(), out, width as i32, n)
        })
    }

    /// Zeros of `len` elements, plus row `i` of `x` added to row `indices[i]`.
    pub(super) fn scattered(
        &self,
        x: &Buffer,
        indices: &[usize],
        [width, len]: [usize; 2],
    ) -> Result<Storage> {
        let index = self.indices(indices)?;
        self.map(&self.kernels.layout.scatter_add, len, |out, n| {
            (x.read(), index.read(), out, indices.len() as i32, width as i32, n)
        })
    }

    /// `value`, with the elements of `source` at `places`.
    pub(super) fn restored(
        &self,
        value: &Buffer,
        source: &Buffer,
        places: &[usize],
    ) -> Result<Storage> {
        let out = self.take_f32(value.len())?;
        self.copy_rows((value, 0, value.len()), (&out, 0, value.len()), [1, value.len()])?;
        let (index, n) = (self.indices(places)?, places.len());
        let params = (source.read(), index.read(), out.write(), n as i64);
        self.each(&self.kernels.elementwise.restore, n, n, params)?;
        Ok(Storage::Cuda(out))
    }
}
