//! Matrix products: packing, blocking, threads, and what is fused into the store.
//!
//! The output is cut into blocks of rows, one task each; the depth is never split between tasks, so every element is
//! summed in one fixed order whatever the number of threads. Our AVX-512 kernel is used where the processor has it, the
//! `gemm` crate elsewhere.

use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use super::avx512::{self, A_STEP, Lanes, MR, Tile};
use super::math;
use super::parallel::vectorized;
use super::portable;
use super::slab::Block;

/// Depth of a block: a `B` panel of 32 KiB stays in the first-level cache while `A` panels pass.
const KC: usize = 256;
/// Most rows of a task: the packed `A` block stays in the second-level cache.
const MC: usize = 112;

/// Columns of a panel, and of one pass of the store.
pub(super) const NR: usize = 32;

/// Which code multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    Portable,
}

impl Kernel {
    /// The fastest that this processor runs.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if avx512::available() {
            return Self::Avx512;
        }
        Self::Portable
    }
}

/// A strided matrix; element `(i, j)` is at `i * row + j * col`, times the same element of `times`.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) data: &'a [f32],
    pub(super) row: usize,
    pub(super) col: usize,
    pub(super) times: Option<&'a [f32]>,
}

impl<'a> Operand<'a> {
    pub(super) fn new(data: &'a [f32], row: usize, col: usize) -> Self {
        Self { data, row, col, times: None }
    }

    /// The rows from `first` on.
    pub(super) fn rows_from(self, first: usize) -> Self {
        // A product of depth zero has no data at all.
        let skip = (first * self.row).min(self.data.len());
        Self { data: &self.data[skip..], times: self.times.map(|times| &times[skip..]), ..self }
    }
}

/// Sizes of `C [m, n] = A [m, k] B [k, n]`.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

/// What happens to a product on its way to memory.
#[derive(Clone, Copy)]
pub(super) enum Finish<'a> {
    None,
    Bias(&'a [f32]),
    Gelu { bias: Option<&'a [f32]> },
    Residual { bias: Option<&'a [f32]>, residual: &'a [f32] },
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
    let rows = task_rows(m);
    let packed = PackedB::new(kernel, size, b, true);
    let width = rows * n;
    let task = |index: usize, c: &mut [f32], slope: &mut [f32]| {
        let first = index * rows;
        let block = Size { m: c.len() / n, ..size };
        block_rows(block, a.rows_from(first), &packed, c, |c, cols| {
            finish_columns(finish, c, slope, Columns { first_row: first, n, cols });
        });
    };
    if slope.is_empty() {
        c.par_chunks_mut(width).enumerate().for_each(|(index, c)| task(index, c, &mut []));
    } else {
        let chunks = c.par_chunks_mut(width).zip(slope.par_chunks_mut(width));
        chunks.enumerate().for_each(|(index, (c, slope))| task(index, c, slope));
    }
}

/// `C = A B` on the calling thread; rows of `C` are `stride` apart.
pub(super) fn serial(
    kernel: Kernel,
    size: Size,
    (a, b): (Operand, Operand),
    c: &mut [f32],
    stride: usize,
) {
    if size.m > 0 && size.n > 0 {
        let packed = PackedB::new(kernel, size, b, false);
        strided_rows(size, a, &packed, c, stride, |_, _| ());
    }
}

/// Rows of one task: enough tasks to keep every thread busy to the end.
fn task_rows(m: usize) -> usize {
    let tasks = rayon::current_num_threads() * 8;
    m.div_ceil(tasks).next_multiple_of(14).clamp(14, MC)
}

/// The right operand, ready for the kernel.
enum PackedB<'a> {
    #[cfg(target_arch = "x86_64")]
    Panels(Block),
    Plain(Operand<'a>),
}

impl<'a> PackedB<'a> {
    fn new(kernel: Kernel, size: Size, b: Operand<'a>, threads: bool) -> Self {
        match kernel {
            Kernel::Portable => Self::Plain(b),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => {
                let Size { n, k, .. } = size;
                let lanes =
                    Lanes { data: b.data, lane_step: b.col, depth_step: b.row, times: b.times };
                let mut block = Block::take((n.div_ceil(NR) * NR * k).max(1));
                let pack = |(panel, out): (usize, &mut [f32])| {
                    let first = panel * NR;
                    let count = (n - first).min(NR);
                    avx512::pack(lanes, first, count.min(16), k, out, NR);
                    avx512::pack(
                        lanes,
                        first + 16,
                        count.saturating_sub(16),
                        k,
                        &mut out[16.min(k * NR)..],
                        NR,
                    );
                };
                let panels = &mut block.as_mut_slice()[..n.div_ceil(NR) * NR * k];
                if k > 0 && threads && panels.len() > 1 << 14 {
                    panels.par_chunks_mut(k * NR).enumerate().for_each(pack);
                } else if k > 0 {
                    panels.chunks_mut(k * NR).enumerate().for_each(pack);
                }
                Self::Panels(block)
            }
        }
    }
}

fn block_rows(
    size: Size,
    a: Operand,
    b: &PackedB,
    c: &mut [f32],
    finish: impl FnMut(&mut [f32], [usize; 2]),
) {
    strided_rows(size, a, b, c, size.n, finish);
}

/// One block of rows; `finish` is called with the columns that are complete, while they are still in the cache.
fn strided_rows(
    size: Size,
    a: Operand,
    b: &PackedB,
    c: &mut [f32],
    stride: usize,
    mut finish: impl FnMut(&mut [f32], [usize; 2]),
) {
    match b {
        PackedB::Plain(b) => {
            portable::multiply(size, a, *b, c, stride);
            finish(c, [0, size.n]);
        }
        #[cfg(target_arch = "x86_64")]
        PackedB::Panels(b) => {
            let Size { m, n, k } = size;
            let mut packed = Block::take((m.div_ceil(MR) * A_STEP * k).max(1));
            let packed = packed.as_mut_slice();
            let lanes = Lanes { data: a.data, lane_step: a.row, depth_step: a.col, times: a.times };
            for panel in 0..m.div_ceil(MR) {
                let out = &mut packed[panel * A_STEP * k..(panel + 1) * A_STEP * k];
                avx512::pack(lanes, panel * MR, (m - panel * MR).min(MR), k, out, A_STEP);
            }
            let mut depth = 0;
            loop {
                let block = (k - depth).min(KC);
                for first_col in (0..n).step_by(NR) {
                    let b = &b.as_slice()[first_col * k + depth * NR..];
                    let cols = (n - first_col).min(NR);
                    for panel in 0..m.div_ceil(MR) {
                        let a = &packed[(panel * k + depth) * A_STEP..];
                        let rows = (m - panel * MR).min(MR);
                        let out = &mut c[panel * MR * stride + first_col..];
                        avx512::multiply(
                            block,
                            a,
                            b,
                            &mut Tile { out, stride, rows, cols, add: depth > 0 },
                        );
                    }
                    if depth + block == k {
                        finish(c, [first_col, first_col + cols]);
                    }
                }
                depth += block;
                if depth == k {
                    break;
                }
            }
        }
    }
}

/// The columns of a row block that are complete.
#[derive(Clone, Copy)]
struct Columns {
    first_row: usize,
    n: usize,
    cols: [usize; 2],
}

fn finish_columns(finish: Finish, c: &mut [f32], slope: &mut [f32], at: Columns) {
    let Columns { first_row, n, cols: [from, to] } = at;
    let bias = match finish {
        Finish::None => return,
        Finish::Bias(bias) => Some(bias),
        Finish::Gelu { bias } | Finish::Residual { bias, .. } => bias,
    };
    let none = [0.0_f32; NR];
    // One pass over each row: a second one would wait for the stores of the first.
    vectorized(
        #[inline(always)]
        || {
            for (i, row) in c.chunks_exact_mut(n).enumerate() {
                for start in (from..to).step_by(NR) {
                    let end = (start + NR).min(to);
                    let bias = bias.map_or(&none[..end - start], |bias| &bias[start..end]);
                    let row = &mut row[start..end];
                    match finish {
                        Finish::Gelu { .. } if slope.is_empty() => {
                            row.iter_mut().zip(bias).for_each(|(y, b)| *y = math::gelu(*y + b).0);
                        }
                        Finish::Gelu { .. } => {
                            let slope = &mut slope[i * n + start..i * n + end];
                            for ((y, b), slope) in row.iter_mut().zip(bias).zip(slope) {
                                (*y, *slope) = math::gelu(*y + b);
                            }
                        }
                        Finish::Residual { residual, .. } => {
                            let at = (first_row + i) * n;
                            let residual = &residual[at + start..at + end];
                            for ((y, b), r) in row.iter_mut().zip(bias).zip(residual) {
                                *y = *y + b + r;
                            }
                        }
                        Finish::Bias(_) | Finish::None => {
                            row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
                        }
                    }
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::reference;

    fn values(len: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    fn kernels() -> Vec<Kernel> {
        let mut kernels = vec![Kernel::Portable];
        if Kernel::detect() != Kernel::Portable {
            kernels.push(Kernel::detect());
        }
        kernels
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
            (29, 47, 0),
        ] {
            for layout in 0..4 {
                let (a, b) = (values(m * k, 1), values(k * n, 2));
                let factors = values(m * k, 3);
                let mut left =
                    if layout & 1 == 0 { Operand::new(&a, k, 1) } else { Operand::new(&a, 1, m) };
                let right =
                    if layout & 2 == 0 { Operand::new(&b, n, 1) } else { Operand::new(&b, 1, k) };
                left.times = (layout == 3).then_some(&factors[..]);
                let expected = reference::product(Size { m, n, k }, left, right);
                for kernel in kernels() {
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
                            (found - expected).abs() < 2e-4,
                            "{kernel:?} {m}x{n}x{k} layout {layout}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn fused_stores_equal_separate_passes() {
        let (m, n, k) = (45, 70, 40);
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
            let summed = run(Finish::Residual { bias: None, residual: &residual }, &mut []);
            for i in 0..m * n {
                assert_eq!(biased[i], plain[i] + bias[i % n]);
                assert_eq!((gelu[i], slope[i]), math::gelu(biased[i]));
                assert_eq!(summed[i], plain[i] + residual[i]);
            }
        }
    }

    #[test]
    fn the_number_of_threads_does_not_change_a_bit() {
        let (m, n, k) = (400, 96, 300);
        let (a, b) = (values(m * k, 1), values(n * k, 2));
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut c = vec![0.0; m * n];
            let operands = (Operand::new(&a, k, 1), Operand::new(&b, 1, k));
            pool.install(|| {
                parallel(
                    Kernel::detect(),
                    Size { m, n, k },
                    operands,
                    Finish::None,
                    &mut c,
                    &mut [],
                );
            });
            c
        };
        assert_eq!(run(1), run(3));
    }
}
