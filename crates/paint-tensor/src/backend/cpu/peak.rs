//! The machine's own limit for matrix products, measured, so that a benchmark can say how near it comes.

use std::time::Instant;

use super::finish::Finish;
use super::gemm::{Kernel, Operand, Size, parallel};

/// The best rate of a large matrix product that fits the caches, in GFLOP/s, over all threads of the current pool.
pub(super) fn peak_gflops() -> f64 {
    let size = Size { m: 1344, n: 768, k: 256 };
    let a = vec![0.5_f32; size.m * size.k];
    let b = vec![0.25_f32; size.k * size.n];
    let mut c = vec![0.0_f32; size.m * size.n];
    let flops = 2.0 * (size.m * size.n * size.k) as f64;
    let mut best = 0.0_f64;
    for _ in 0..40 {
        let start = Instant::now();
        let operands = (Operand::new(&a, size.k, 1), Operand::new(&b, size.n, 1));
        parallel(Kernel::detect(), size, operands, Finish::None, &mut c, &mut []);
        best = best.max(flops / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_peak_is_a_plausible_rate() {
        let peak = super::peak_gflops();
        assert!(peak.is_finite() && peak > 0.1, "{peak} GFLOP/s");
    }
}
