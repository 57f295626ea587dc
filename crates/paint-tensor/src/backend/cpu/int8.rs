//! Products of a network's layers with 8-bit integers, where no gradient passes (`--precision int8`).
//!
//! A weight is rounded by column: `w_kj ≈ t_j W_kj` with whole `W` in [-127, 127] and `t_j = max_k |w_kj| / 127`. Rows
//! of the input are rounded when they are multiplied: `x_ik ≈ l_i + s_i X_ik` with `X` in [0, 255], `l_i` the least
//! value of the row and `s_i` a 255th of its range, so that GELU's one-sided values use all of it. Then
//!
//! `Σ_k x_ik w_kj ≈ s_i t_j Σ_k X_ik W_kj + l_i t_j Σ_k W_kj`,
//!
//! where the first sum is exact in 32 bits and the second one belongs to the weight. A row depends on nothing but
//! itself and the weight: not on the batch, the number of threads or the blocks.

use std::sync::Arc;

use rayon::prelude::*;

use super::chain::Link;
use super::finish::{Finish, Part, finish_part};
use super::gemm::{NR, Operand, Size, blocks};
use super::kernel::Kernel;
use super::packs::Form;
use super::panels::pack_parts;
use super::parallel::vectorized;
use super::slab::Block;
use super::vnni::{self, GROUP, MR, Rounded};

/// Depths whose sums of products of 8 bits surely fit 32.
const DEEPEST: usize = i32::MAX as usize / (255 * 127);
/// Bytes of a right operand that stay in the second-level cache: half of 1 MiB.
const COLUMNS: usize = 1 << 19;

/// True if a layer's weight can be rounded.
pub(super) fn suits(Size { n, k, .. }: Size, b: Operand) -> bool {
    n > 0 && (1..=DEEPEST).contains(&k) && b.row == 1
}

/// Floats of a packed panel: its columns four depths at a time, then `t_j`, then `t_j Σ_k W_kj`.
fn panel_len(k: usize) -> usize {
    k.div_ceil(GROUP) * NR + 2 * NR
}

/// The rounded weight, which stays beside its numbers.
fn rounded(size: Size, b: Operand) -> Arc<Block> {
    let Size { n, k, .. } = size;
    let pack = || {
        pack_parts(n.div_ceil(NR) * panel_len(k), panel_len(k), true, |panel, out| {
            let first = panel * NR;
            vectorized(
                #[inline(always)]
                || round_columns(b, [first, (n - first).min(NR)], k, out),
            );
        })
    };
    match b.packs {
        Some(packs) => packs.rounded(Form::new(Kernel::Avx512, size, b), pack),
        None => Arc::new(pack()),
    }
}

/// Rounds up to 32 columns, which lie one after the other in `b`.
#[inline(always)]
fn round_columns(b: Operand, [first, count]: [usize; 2], k: usize, out: &mut [f32]) {
    let (weights, of_columns) = out.split_at_mut(panel_len(k) - 2 * NR);
    let (scales, sums) = of_columns.split_at_mut(NR);
    weights.fill(0.0);
    scales.fill(0.0);
    sums.fill(0.0);
    let weights = vnni::bytes_mut(weights);
    for lane in 0..count {
        let column = &b.data[(first + lane) * b.col..][..k];
        let (mut most, mut sound) = (0.0_f32, true);
        for w in column {
            most = if w.abs() > most { w.abs() } else { most };
            sound &= w.is_finite();
        }
        // Numbers that are not finite show in the product; those whose unit has no reciprocal vanish.
        let scale = if sound { most / 127.0 } else { f32::NAN };
        let per_unit = if sound && (127.0 / most).is_finite() { 127.0 / most } else { 0.0 };
        let mut sum = 0;
        let groups = weights.chunks_exact_mut(NR * GROUP);
        for (values, out) in column.chunks(GROUP).zip(groups) {
            for (w, out) in values.iter().zip(&mut out[lane * GROUP..]) {
                let whole = (w * per_unit).round_ties_even() as i32;
                *out = whole as u8;
                sum += whole;
            }
        }
        scales[lane] = scale;
        sums[lane] = scale * sum as f32;
    }
}

/// A layer with its rounded weight.
struct Layer<'a> {
    size: Size,
    weight: Arc<Block>,
    finish: Finish<'a>,
}

impl<'a> Layer<'a> {
    fn new((size, b, finish): Link<'a>) -> Self {
        Self { size, weight: rounded(size, b), finish }
    }

    /// `finish(A B)` for the block of rows from `first` on, of which `a` has the input.
    fn rows(&self, a: Operand, first: usize, c: &mut [f32]) {
        let Size { n, k, .. } = self.size;
        let m = c.len() / n;
        let mut scratch = Block::take(m * k.div_ceil(GROUP));
        let rows = Rounded::new(&a, [m, k], scratch.as_mut_slice());
        let width = (COLUMNS / k / NR).max(1) * NR;
        for left in (0..n).step_by(width) {
            let right = n.min(left + width);
            for top in (0..m).step_by(MR) {
                let bottom = m.min(top + MR);
                for column in (left..right).step_by(NR) {
                    let panel = &self.weight.as_slice()[column / NR * panel_len(k)..];
                    let (out, cols) = (&mut c[top * n + column..], (n - column).min(NR));
                    vnni::multiply(&rows, [top, bottom], &panel[..panel_len(k)], out, [n, cols]);
                }
                let part = Part { first, n, rows: [top, bottom], cols: [left, right] };
                finish_part(self.finish, c, &mut [], part);
            }
        }
    }
}

/// `C = finish(A B)`, over all threads of the pool.
pub(super) fn multiply(a: Operand, layer: Link, c: &mut [f32]) {
    let layer = Layer::new(layer);
    let blocks = blocks(Kernel::Avx512.task_rows(layer.size, 1), [(c, layer.size.n)]);
    blocks.into_par_iter().with_max_len(1).for_each(|([first, _], [c])| {
        layer.rows(a.rows_from(first), first, c);
    });
}

/// Two layers in a row; a block of rows goes through both before the next one starts.
pub(super) fn multiply_twice(a: Operand, layers: [Link; 2], c: &mut [f32]) {
    let [one, two] = layers.map(Layer::new);
    let blocks = blocks(Kernel::Avx512.task_rows(one.size, 2), [(c, two.size.n)]);
    blocks.into_par_iter().with_max_len(1).for_each(|([first, m], [c])| {
        let mut hidden = Block::take(m * one.size.n);
        one.rows(a.rows_from(first), first, hidden.as_mut_slice());
        two.rows(Operand::new(hidden.as_slice(), one.size.n, 1), first, c);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::packs::Packs;
    use crate::backend::cpu::{kernel, reference};

    /// Rows, columns and depths with edges of every kind, and a weight that does not stay in the cache.
    const SIZES: [[usize; 3]; 7] = [
        [1, 1, 1],
        [14, 32, 4],
        [15, 33, 5],
        [45, 70, 300],
        [29, 64, 63],
        [113, 7, 18],
        [30, 900, 700],
    ];

    fn skipped() -> bool {
        let skipped = !kernel::has_int8();
        if skipped {
            println!("skipped: this CPU lacks AVX-512 VNNI");
        }
        skipped
    }

    /// Whole numbers from `least` to `least + count - 1`, of which every 16 in a row contain both ends.
    fn whole(len: usize, least: i32, count: usize) -> Vec<f32> {
        let value = |i: usize| match i % 16 {
            3 => 0,
            7 => count - 1,
            _ => i * i * 31 % count,
        };
        (0..len).map(|i| (least + value(i) as i32) as f32).collect()
    }

    fn product([m, n, k]: [usize; 3], a: &[f32], b: &[f32], finish: Finish) -> Vec<f32> {
        let mut c = vec![f32::NAN; m * n];
        let layer = (Size { m, n, k }, Operand::new(b, 1, k), finish);
        multiply(Operand::new(a, k, 1), layer, &mut c);
        c
    }

    #[test]
    fn whole_numbers_of_eight_bits_are_multiplied_exactly() {
        if skipped() {
            return;
        }
        for [m, n, k] in SIZES.into_iter().filter(|size| size[2] >= 16) {
            // Units of one in every row and column, which begin with both ends.
            let (mut a, mut b) = (whole(m * k, -100, 256), whole(n * k, -127, 255));
            a.chunks_mut(k).for_each(|row| row[..2].copy_from_slice(&[-100.0, 155.0]));
            b.chunks_mut(k).for_each(|column| column[..2].copy_from_slice(&[-127.0, 127.0]));
            let operands = (Operand::new(&a, k, 1), Operand::new(&b, 1, k));
            let expected = reference::product(Size { m, n, k }, operands.0, operands.1);
            assert_eq!(product([m, n, k], &a, &b, Finish::None), expected, "{m}x{n}x{k}");
        }
    }

    #[test]
    fn a_product_is_as_near_as_units_of_eight_bits_allow() {
        if skipped() {
            return;
        }
        for [m, n, k] in SIZES {
            let value = |i: usize| ((i * 7919) % 1009) as f32 / 1009.0 - 0.3;
            let a: Vec<f32> = (0..m * k).map(value).collect();
            let b: Vec<f32> = (0..n * k).map(|i| value(i + 17)).collect();
            let operands = (Operand::new(&a, k, 1), Operand::new(&b, 1, k));
            let expected = reference::product(Size { m, n, k }, operands.0, operands.1);
            let residual: Vec<f32> = (0..m * n).map(value).collect();
            let bias = &residual[..n];
            let finish = Finish::Residual { bias: Some(bias), residual: &residual };
            let (plain, finished) =
                (product([m, n, k], &a, &b, Finish::None), product([m, n, k], &a, &b, finish));
            // Half a unit of each factor times the other, which is below 0.7: 1 / 255 and 0.7 / 127.
            let most = k as f32 * 0.7 * 0.5 * (1.0 / 255.0 + 0.7 / 127.0);
            for i in 0..m * n {
                assert!((plain[i] - expected[i]).abs() <= most, "{m}x{n}x{k}");
                assert_eq!(finished[i], plain[i] + bias[i % n] + residual[i]);
            }
        }
    }

    #[test]
    fn threads_batches_and_a_weight_that_stays_change_no_bit() {
        if skipped() {
            return;
        }
        let [m, n, k] = [150, 70, 130];
        let value = |i: usize| ((i * 7919) % 1009) as f32 / 1009.0 - 0.3;
        let a: Vec<f32> = (0..m * k).map(value).collect();
        let b: Vec<f32> = (0..n * k).map(value).collect();
        let all = product([m, n, k], &a, &b, Finish::None);
        let packs = Packs::default();
        for (threads, rows) in [(1, m), (2, m), (5, m), (1, 1), (3, 37)] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let b = Operand { packs: Some(&packs), ..Operand::new(&b, 1, k) };
            let mut c = vec![f32::NAN; rows * n];
            let layer = (Size { m: rows, n, k }, b, Finish::None);
            pool.install(|| multiply(Operand::new(&a, k, 1), layer, &mut c));
            assert!(c == all[..rows * n], "{threads} threads, {rows} rows");
        }
    }

    #[test]
    fn two_layers_in_a_row_are_as_one_after_the_other() {
        if skipped() {
            return;
        }
        let [m, width, n, k] = [150, 70, 33, 20];
        let value = |i: usize| ((i * 7919) % 1009) as f32 / 1009.0 - 0.3;
        let [a, one, two] = [m * k, width * k, n * width].map(|len| (0..len).map(value).collect());
        let (a, one, two): (Vec<f32>, Vec<f32>, Vec<f32>) = (a, one, two);
        let gelu = Finish::Gelu { bias: Some(&a[..width]) };
        let residual: Vec<f32> = (0..m * n).map(value).collect();
        let last = Finish::Residual { bias: None, residual: &residual };
        let hidden = product([m, width, k], &a, &one, gelu);
        let expected = product([m, n, width], &hidden, &two, last);
        let layers = [
            (Size { m, n: width, k }, Operand::new(&one, 1, k), gelu),
            (Size { m, n, k: width }, Operand::new(&two, 1, width), last),
        ];
        let mut c = vec![f32::NAN; m * n];
        multiply_twice(Operand::new(&a, k, 1), layers, &mut c);
        assert_eq!(c, expected);
    }

    #[test]
    fn what_is_not_finite_shows_where_it_is_and_nowhere_else() {
        if skipped() {
            return;
        }
        let [m, n, k] = [20, 40, 24];
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (mut a, mut b) = (whole(m * k, 0, 9), whole(n * k, 0, 9));
            (a[3 * k + 20], b[35 * k + 23]) = (wrong, wrong);
            let c = product([m, n, k], &a, &b, Finish::None);
            for (i, value) in c.into_iter().enumerate() {
                let expected = i / n == 3 || i % n == 35;
                assert_eq!(!value.is_finite(), expected, "{wrong} {i}");
            }
        }
    }

    #[test]
    fn equal_and_vanishing_values_have_products() {
        if skipped() {
            return;
        }
        let tiny = f32::from_bits(1);
        for (x, w) in [(0.0, 0.0), (2.5, 0.0), (0.0, 2.5), (2.5, 4.0), (tiny, 1.0), (1.0, tiny)] {
            let c = product([2, 3, 8], &[x; 16], &[w; 24], Finish::None);
            // Units are rounded once; what lies below the normal numbers may vanish.
            let near = |c: &f32| (c - 8.0 * x * w).abs() <= 1e-5 * 8.0 * x * w + f32::MIN_POSITIVE;
            assert!(c.iter().all(near), "{x} {w} {c:?}");
        }
    }
}
