//! The machine's limit for matrix products, measured, so that a benchmark can say how close it comes.

use std::time::{Duration, Instant};

use super::finish::Finish;
use super::gemm::{Operand, Size, parallel};
use super::kernel::Kernel;

/// The best rate of a large matrix product that fits the caches, in GFLOP/s, over all threads of the current pool.
pub(super) fn peak_gflops(kernel: Kernel) -> f64 {
    let size = Size { m: 1344, n: 768, k: 256 };
    let a = vec![0.5_f32; size.m * size.k];
    let b = vec![0.25_f32; size.k * size.n];
    let mut c = vec![0.0_f32; size.m * size.n];
    let flops = 2.0 * (size.m * size.n * size.k) as f64;
    let times = (0..40).map(|_| {
        let start = Instant::now();
        let operands = (Operand::new(&a, size.k, 1), Operand::new(&b, size.n, 1));
        parallel(kernel, size, operands, Finish::None, &mut c, &mut []);
        start.elapsed()
    });
    best_rate(flops, times)
}

/// The rate of the fastest of several runs of `flops` operations, in GFLOP/s.
fn best_rate(flops: f64, times: impl Iterator<Item = Duration>) -> f64 {
    times.map(|time| flops / time.as_secs_f64() / 1e9).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_rate_of_the_fastest_run() {
        let times = [4, 2, 3].map(Duration::from_secs);
        assert_eq!(best_rate(6e9, times.into_iter()), 3.0);
    }
}
