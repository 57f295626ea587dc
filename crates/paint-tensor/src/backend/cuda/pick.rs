//! Launches of the kernels that move elements: rows side by side, and elements by their index.

use super::buffer::{Buffer, Kind};
use super::driver::Arg;
use super::{Cuda, on_gpu};
use crate::Result;
use crate::backend::Storage;

impl Cuda {
    /// The rows of each part, of its width, beside those of the others.
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

    /// Rows of `width` elements by index.
    pub(super) fn gathered(&self, x: &Buffer, indices: &[usize], width: usize) -> Result<Storage> {
        let (at, out) = (self.indices(indices)?, self.take_f32(indices.len() * width)?);
        let [x, at, to] = [x, &at, &out].map(|x| Arg::Address(x.address()));
        self.each("gather", out.len(), &[x, at, to, Arg::I32(width as i32)], out.len())?;
        Ok(Storage::Cuda(out))
    }

    /// Zeros of `len` elements, plus row `i` of `x` added to row `indices[i]`.
    pub(super) fn scattered(
        &self,
        x: &Buffer,
        indices: &[usize],
        [width, len]: [usize; 2],
    ) -> Result<Storage> {
        let (at, out) = (self.indices(indices)?, self.take_f32(len)?);
        let [x, at, to] = [x, &at, &out].map(|x| Arg::Address(x.address()));
        let sizes = [Arg::I32(indices.len() as i32), Arg::I32(width as i32)];
        self.each("scatter_add", len, &[x, at, to, sizes[0], sizes[1]], len)?;
        Ok(Storage::Cuda(out))
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
        let index = self.indices(places)?;
        let [from, at, to] = [source, &index, &out].map(|x| Arg::Address(x.address()));
        self.each("restore", places.len(), &[from, at, to], places.len())?;
        Ok(Storage::Cuda(out))
    }
}
