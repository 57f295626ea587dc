//! Matrix products: packing, blocking, threads, and what is fused into the store.
//!
//! The output is cut into blocks of rows, one task each. The depth is never split between tasks, and our AMX and
//! AVX-512 kernels sum every element in one order whatever its block, so the number of threads changes no bit. The
//! `gemm` crate, used where the CPU has neither, picks its loops (and with them the order of a sum) by the size of a
//! block: its blocks therefore depend on the product alone.

use rayon::prelude::*;

use super::finish::{Finish, Part, finish_part};
use super::kernel::Kernel;
use super::packs::Packs;
use super::panels::Panels;
#[cfg(target_arch = "x86_64")]
use super::{amx, avx512, few, packs::FEW_ROWS};

/// Columns of a panel, and of one pass of the store.
pub(super) const NR: usize = 32;

/// Floats of a right operand that stay in the second-level cache with AVX-512: 1 MiB.
#[cfg(target_arch = "x86_64")]
const STAYS: usize = 1 << 18;

/// The blocks of the portable kernel are cut for this many threads, however many there are.
const PORTABLE_THREADS: usize = 4;

impl Kernel {
    /// The rows of each task: as many for one task as for another, enough tasks to keep every thread busy to the end, and
    /// no more rows than the second-level cache holds in packed form, or that part of them. Whole panels, but for small
    /// products with AVX-512.
    pub(super) fn task_rows(self, size: Size, part: usize) -> Vec<usize> {
        let m = size.m;
        let threads = rayon::current_num_threads();
        let (panel, most, threads) = match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(_) => (amx::LANES, 256, threads),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => (avx512::MR, 112, threads),
            Self::Portable => (14, 112, PORTABLE_THREADS),
        };
        let panels = m.div_ceil(panel);
        #[cfg(target_arch = "x86_64")]
        if self == Self::Avx512 && m <= FEW_ROWS && panels >= threads && size.n * size.k <= STAYS {
            // Tasks of nearly equal size, as many for each thread: it does not matter how often they read the right
            // operand.
            let tasks = panels.next_multiple_of(threads).min(m);
            return (0..tasks).map(|task| m * (task + 1) / tasks - m * task / tasks).collect();
        }
        let tasks = m.div_ceil(most / part).max(4 * threads).next_multiple_of(threads).min(panels);
        let first = |task: usize| m.min(task * panels / tasks * panel);
        (0..tasks).map(|task| first(task + 1) - first(task)).collect()
    }
}

/// A strided matrix; element `(i, j)` is at `i * row + j * col`.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) data: &'a [f32],
    pub(super) row: usize,
    pub(super) col: usize,
    /// Where a right operand may stay packed.
    pub(super) packs: Option<&'a Packs>,
}

impl<'a> Operand<'a> {
    pub(super) fn new(data: &'a [f32], row: usize, col: usize) -> Self {
        Self { data, row, col, packs: None }
    }

    /// The rows from `first` on.
    pub(super) fn rows_from(self, first: usize) -> Self {
        // A product of depth zero has no data at all.
        let skip = (first * self.row).min(self.data.len());
        Self { data: &self.data[skip..], ..self }
    }
}

/// Sizes of `C [m, n] = A [m, k] B [k, n]`.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

/// Where a product goes.
pub(super) struct Output<'a> {
    pub(super) data: &'a mut [f32],
    /// From one row to the next.
    pub(super) stride: usize,
    /// Whether what lies beyond the product may be overwritten, to whole panels of rows and columns.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only the kernel of x86 writes whole tiles")
    )]
    pub(super) margin: bool,
}

/// A number of rows or columns, rounded up to whole panels.
pub(super) fn whole_panels(len: usize) -> usize {
    len.next_multiple_of(NR)
}

/// `C = finish(A B)`, spread over the threads of the pool. `slope` receives the derivative of the activation, or is
/// empty.
pub(super) fn parallel(
    kernel: Kernel,
    size: Size,
    (a, b): (Operand, Operand),
    finish: Finish,
    c: &mut [f32],
    slope: &mut [f32],
) {
    let Size { m, n, .. } = size;
    if m == 0 || n == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Kernel::Amx(split) = kernel
        && few::suits(size)
    {
        return few::multiply(split, size, (a, b), finish, c, slope);
    }
    let packed = Panels::new(kernel, size, b, true);
    let blocks = blocks(kernel.task_rows(size, 1), [(c, n), (slope, n)]);
    blocks.into_par_iter().with_max_len(1).for_each(|(rows, [c, slope])| {
        packed.block(size, rows, a.rows_from(rows[0]), finish, (c, slope));
    });
}

/// The tasks of a product: first row and number of rows, and these rows of each output, given with its width. An output
/// may be empty.
pub(super) fn blocks<const N: usize>(
    rows: Vec<usize>,
    mut outputs: [(&mut [f32], usize); N],
) -> Vec<([usize; 2], [&mut [f32]; N])> {
    let mut first = 0;
    let mut block = |rows: usize| {
        let parts = outputs.each_mut().map(|(output, width)| {
            let len = output.len().min(rows * *width);
            let (part, rest) = std::mem::take(output).split_at_mut(len);
            *output = rest;
            part
        });
        first += rows;
        ([first - rows, rows], parts)
    };
    rows.into_iter().map(&mut block).collect()
}

impl Panels<'_> {
    /// `finish(A B)` for the rows of one task.
    pub(super) fn block(
        &self,
        size: Size,
        [first, m]: [usize; 2],
        a: Operand,
        finish: Finish,
        (c, slope): (&mut [f32], &mut [f32]),
    ) {
        let n = size.n;
        let out = Output { data: c, stride: n, margin: false };
        self.multiply_rows(Size { m, ..size }, a, out, |c, [rows, cols]| {
            finish_part(finish, c, slope, Part { first, n, rows, cols });
        });
    }
}

/// `C = A B` on the calling thread; rows of `C` are `stride` apart.
pub(super) fn serial(
    kernel: Kernel,
    size: Size,
    operands: (Operand, Operand),
    c: &mut [f32],
    stride: usize,
) {
    serial_into(kernel, size, operands, Output { data: c, stride, margin: false });
}

/// The same for any output.
pub(super) fn serial_into(kernel: Kernel, size: Size, (a, b): (Operand, Operand), out: Output) {
    if size.m > 0 && size.n > 0 {
        let packed = Panels::new(kernel, size, b, false);
        packed.multiply_rows(size, a, out, |_, _| ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Precision;
    use crate::backend::cpu::{math, reference};

    /// All that this CPU runs, with and without `tf32`.
    fn kernels() -> impl Iterator<Item = Kernel> {
        Kernel::all().flat_map(|kernel| [kernel, kernel.with(Precision::Tf32)])
    }

    fn values(len: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn every_layout_and_edge_agrees_with_the_reference() {
        for (m, n, k) in [
            (1, 1, 1),
            (14, 32, 16),
            (15, 33, 17),
            (67, 67, 64),
            (3, 70, 300),
            (120, 10, 513),
            // More columns than stay in the cache.
            (40, 1000, 300),
            (29, 47, 0),
        ] {
            for layout in 0..4 {
                let (a, b) = (values(m * k, 1), values(k * n, 2));
                let left =
                    if layout & 1 == 0 { Operand::new(&a, k, 1) } else { Operand::new(&a, 1, m) };
                let right =
                    if layout & 2 == 0 { Operand::new(&b, n, 1) } else { Operand::new(&b, 1, k) };
                let expected = reference::product(Size { m, n, k }, left, right);
                for kernel in kernels() {
                    // Up to 513 products of numbers below one, each rounded to 2^-24 of a sum below 100, or cut to
                    // 2^-16 of itself.
                    let tolerance =
                        if Kernel::all().any(|all| all == kernel) { 2e-4 } else { 3e-3 };
                    let mut c = vec![f32::NAN; m * n];
                    parallel(
                        kernel,
                        Size { m, n, k },
                        (left, right),
                        Finish::None,
                        &mut c,
                        &mut [],
                    );
                    for (found, expected) in c.iter().zip(&expected) {
                        assert!(
                            (found - expected).abs() < tolerance,
                            "{kernel:?} {m}x{n}x{k} layout {layout}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn fused_stores_equal_separate_passes() {
        for size in [(45, 70, 40), (40, 1000, 300)] {
            check_fused_stores(size);
        }
    }

    fn check_fused_stores((m, n, k): (usize, usize, usize)) {
        let (a, b, bias, residual) =
            (values(m * k, 1), values(n * k, 2), values(n, 3), values(m * n, 4));
        let operands = (Operand::new(&a, k, 1), Operand::new(&b, 1, k));
        let size = Size { m, n, k };
        for kernel in kernels() {
            let run = |finish, slope: &mut [f32]| {
                let mut c = vec![f32::NAN; m * n];
                parallel(kernel, size, operands, finish, &mut c, slope);
                c
            };
            let plain = run(Finish::None, &mut []);
            let biased = run(Finish::Bias(&bias), &mut []);
            let mut slope = vec![f32::NAN; m * n];
            let gelu = run(Finish::Gelu { bias: Some(&bias) }, &mut slope);
            let factored = run(Finish::Times(&residual), &mut []);
            let summed = run(Finish::Residual { bias: None, residual: &residual }, &mut []);
            for i in 0..m * n {
                assert_eq!(biased[i], plain[i] + bias[i % n]);
                assert_eq!((gelu[i], slope[i]), math::gelu(biased[i]));
                assert_eq!(factored[i], plain[i] * residual[i]);
                assert_eq!(summed[i], plain[i] + residual[i]);
            }
        }
    }

    /// Sizes that meet the special cases of the kernels: one row, few rows, a last block of one row, small squares, one
    /// column, a shallow depth.
    const SIZES: [(usize, usize, usize); 14] = [
        (400, 96, 300),
        // Several blocks of depths.
        (400, 70, 900),
        (33, 130, 1300),
        (1, 96, 300),
        (2, 64, 64),
        (5, 40, 70),
        (15, 33, 129),
        (29, 64, 64),
        (57, 96, 100),
        (64, 64, 64),
        (71, 64, 300),
        (85, 1, 200),
        (99, 40, 1),
        (113, 70, 2),
    ];

    /// Rows a multiple of 512 floats apart would push each other out of the cache, and are packed.
    #[test]
    fn the_distance_of_rows_does_not_change_a_bit() {
        let (m, n, k) = (45, 70, 300);
        let (a, b) = (values(m * k, 1), values(n * k, 2));
        for kernel in kernels() {
            let [close, far] = [k, 512].map(|distance| {
                let mut spread = vec![f32::NAN; 7 + (m - 1) * distance + k];
                for (to, row) in spread[7..].chunks_mut(distance).zip(a.chunks(k)) {
                    to[..k].copy_from_slice(row);
                }
                let left = Operand::new(&spread[7..], distance, 1);
                let operands = (left, Operand::new(&b, 1, k));
                let mut c = vec![f32::NAN; m * n];
                serial(kernel, Size { m, n, k }, operands, &mut c, n);
                c
            });
            assert!(close == far && close.iter().all(|c| c.is_finite()), "{kernel:?}");
        }
    }

    #[test]
    fn a_weight_that_stays_packed_gives_the_same_bits() {
        let (m, n, k) = (70, 130, 900);
        let (a, b) = (values(m * k, 1), values(n * k, 2));
        for kernel in kernels() {
            let packs = Packs::default();
            let right = Operand { packs: Some(&packs), ..Operand::new(&b, 1, k) };
            let run = || {
                let mut c = vec![f32::NAN; m * n];
                let operands = (Operand::new(&a, k, 1), right);
                parallel(kernel, Size { m, n, k }, operands, Finish::None, &mut c, &mut []);
                c
            };
            let first = run();
            assert!((0..3).all(|_| run() == first), "{kernel:?}");
        }
    }

    #[test]
    fn the_number_of_threads_does_not_change_a_bit() {
        let pools = [1, 2, 3, 5, 16]
            .map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
        for (m, n, k) in SIZES {
            let (a, b) = (values(m * k, 1), values(n * k, 2));
            for (kernel, layout) in kernels().flat_map(|kernel| [(kernel, 0), (kernel, 1)]) {
                let right =
                    if layout == 0 { Operand::new(&b, n, 1) } else { Operand::new(&b, 1, k) };
                let run = |pool: &rayon::ThreadPool| {
                    let mut c = vec![0.0; m * n];
                    let operands = (Operand::new(&a, k, 1), right);
                    pool.install(|| {
                        parallel(kernel, Size { m, n, k }, operands, Finish::None, &mut c, &mut []);
                    });
                    c
                };
                let first = run(&pools[0]);
                for pool in &pools[1..] {
                    let threads = pool.current_num_threads();
                    assert!(
                        run(pool) == first,
                        "{kernel:?} {m}x{n}x{k} layout {layout}, {threads} threads"
                    );
                }
            }
        }
    }
}
