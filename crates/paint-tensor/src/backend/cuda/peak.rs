//! The rate that the GPU reaches on a large product.

use std::time::Instant;

use super::Cuda;
use crate::Result;
use crate::backend::{Backend as _, Epilogue, Gemm, Matrix};

const SIDE: usize = 8192;

impl Cuda {
    pub(super) fn measured_peak_gflops(&self) -> Result<f64> {
        let numbers = (0..SIDE * SIDE).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8);
        let x = self.compact(&self.upload(numbers.map(|x| f32::from(x) - 127.5).collect())?)?;
        let matrix = Matrix::row_major(&x, SIDE);
        let gemm = Gemm {
            batches: 1,
            m: SIDE,
            n: SIDE,
            k: SIDE,
            a: matrix,
            b: matrix,
            epilogue: Epilogue::None,
            full: false,
            frozen: false,
        };
        let mut best = f64::INFINITY;
        for _ in 0..6 {
            let start = Instant::now();
            self.product(&gemm)?;
            self.synchronize()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(2.0 * (SIDE as f64).powi(3) / best / 1e9)
    }
}
