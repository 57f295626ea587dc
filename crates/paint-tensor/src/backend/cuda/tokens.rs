//! Launches of the kernels that look at tokens and change them.

use super::driver::Grid;
use super::elements::column_grid;
use super::param::structures;
use super::{Cuda, on_gpu};
use crate::Result;
use crate::backend::{Storage, TokenKernels};
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

impl TokenKernels for Cuda {
    fn align(
        &self,
        x: &Storage,
        [running, target]: [&Storage; 2],
        by: &Alignment,
    ) -> Result<[Storage; 3]> {
        let (x, running, target) = (on_gpu(x), self.widened(running)?, self.widened(target)?);
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
        let grid = Grid::new([1, 1, 1], [threads, 1]);
        self.gpu.launch(self.kernels.tokens.align.of(x.kind), grid, params)?;
        Ok([out, next, weight].map(Storage::Cuda))
    }

    fn token_moments(
        &self,
        x: &Storage,
        [b, n, d]: [usize; 3],
        first: usize,
    ) -> Result<Option<[Storage; 2]>> {
        let x = on_gpu(x);
        let (mean, variance) = (self.take_f32(b * d)?, self.take_f32(b * d)?);
        if b * d > 0 {
            let [n, first, wide] = [n, first, d].map(|size| size as i32);
            let params = (x.read(), mean.write(), variance.write(), n, first, wide);
            let kernel = self.kernels.tokens.token_moments.of(x.kind);
            self.gpu.launch(kernel, column_grid(d, b, 1), params)?;
        }
        Ok(Some([mean, variance].map(Storage::Cuda)))
    }

    fn overwrite_first(
        &self,
        x: &mut Storage,
        part: &Storage,
        [row, width]: [usize; 2],
    ) -> Result<bool> {
        let (x, part) = (on_gpu(x), on_gpu(part));
        if !x.is_alone() {
            return Ok(false);
        }
        let rows = part.len().checked_div(width).unwrap_or(0);
        self.copy_rows((part, 0, width), (x, 0, row), [rows, width])?;
        Ok(true)
    }
}
