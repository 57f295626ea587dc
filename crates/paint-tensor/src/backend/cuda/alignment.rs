//! The launch of the kernel that brings rows towards given moments.

use super::Cuda;
use super::buffer::Buffer;
use super::driver::Grid;
use super::param::structures;
use crate::Result;
use crate::backend::Storage;
use crate::op::alignment::Alignment;

structures! {
    /// [`Alignment`] as the kernel reads it.
    struct By {
        share: f32,
        rows: f32,
        target_rows: f32,
        shrinkage: f32,
        stretch: f32,
    }
}

/// The most threads of the one block.
const THREADS: usize = 1024;

impl Cuda {
    /// Rows, running moments and weight; the rows are stored as they were.
    pub(super) fn align_rows(
        &self,
        x: &Buffer,
        [running, target]: [&Storage; 2],
        by: &Alignment,
    ) -> Result<[Storage; 3]> {
        let (running, target) = (self.widened(running)?, self.widened(target)?);
        let d = target.len() / 2;
        let (out, next) = (self.take(x.len(), x.kind)?, self.take_f32(2 * d)?);
        let weight = self.take_f32(1)?;
        let Alignment { share, rows, target_rows, shrinkage, stretch } = *by;
        let params = (
            By { share, rows, target_rows, shrinkage, stretch },
            x.read(),
            running.read(),
            target.read(),
            out.write(),
            next.write(),
            weight.write(),
            (x.len() / d) as i32,
            d as i32,
        );
        let threads = d.next_multiple_of(32).min(THREADS) as u32;
        self.gpu.launch(
            self.kernels.alignment.align.of(x.kind),
            Grid::new([1, 1, 1], [threads, 1]),
            params,
        )?;
        Ok([out, next, weight].map(Storage::Cuda))
    }
}
