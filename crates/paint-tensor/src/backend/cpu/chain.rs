//! Two products in a row, as an MLP has them: a block of rows goes through both before the next one starts, so that what
//! lies between them stays in the second-level cache.

use rayon::prelude::*;

use super::finish::Finish;
use super::gemm::{Operand, Size, blocks};
use super::kernel::Kernel;
use super::packs::FEW_ROWS;
use super::panels::Panels;
use super::slab::Block;

/// Columns between the products up to which a block of rows fits.
const WIDEST: usize = 1024;
/// A task has half the rows of a single product's, because the rows between the products take as much room.
const PART: usize = 2;

/// Whether two products of which this is the first gain by sharing their tasks. Few rows share columns instead.
pub(super) fn suits(Size { m, n, .. }: Size) -> bool {
    m > FEW_ROWS && n <= WIDEST
}

/// One of the products: its size, its right operand and what happens to it on its way to memory.
pub(super) type Link<'a> = (Size, Operand<'a>, Finish<'a>);

/// `out = second(first(A))`. `hidden` receives what `first` gives, unless it is empty, and `slope` the derivative of the
/// activation, if there is one.
pub(super) fn multiply(
    kernel: Kernel,
    a: Operand,
    [first, second]: [Link; 2],
    [hidden, slope, out]: [&mut [f32]; 3],
) {
    let width = first.0.n;
    let [one, two] = [first, second].map(|(size, b, _)| Panels::new(kernel, size, b, true));
    let outputs = [(hidden, width), (slope, width), (out, second.0.n)];
    let blocks = blocks(kernel.task_rows(first.0, PART), outputs);
    blocks.into_par_iter().with_max_len(1).for_each(|(rows, [hidden, slope, out])| {
        let mut scratch = Block::take(if hidden.is_empty() { rows[1] * width } else { 0 });
        let hidden = if hidden.is_empty() { scratch.as_mut_slice() } else { hidden };
        let hidden = &mut hidden[..rows[1] * width];
        one.block(first.0, rows, a.rows_from(rows[0]), first.2, (hidden, slope));
        two.block(second.0, rows, Operand::new(hidden, width, 1), second.2, (out, &mut []));
    });
}

#[cfg(test)]
mod tests {
    use super::super::gemm;
    use super::*;
    use crate::backend::Precision;

    fn values(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 101.0 - 0.5).collect()
    }

    #[test]
    fn rows_that_go_through_both_products_get_the_bits_of_one_after_the_other() {
        let (m, k, width, n) = (700, 40, 70, 50);
        assert!(suits(Size { m, n: width, k }));
        let (a, b, c) = (values(m * k, 1), values(k * width, 2), values(width * n, 3));
        let (bias, residual) = (values(width, 4), values(m * n, 5));
        let a = Operand::new(&a, k, 1);
        let first =
            (Size { m, n: width, k }, Operand::new(&b, 1, k), Finish::Gelu { bias: Some(&bias) });
        let rest = Finish::Residual { bias: None, residual: &residual };
        let second = (Size { m, n, k: width }, Operand::new(&c, n, 1), rest);
        for kernel in Kernel::all().flat_map(|kernel| [kernel, kernel.with(Precision::Tf32)]) {
            let [mut hidden, mut slope] = [0, 1].map(|_| vec![f32::NAN; m * width]);
            let mut expected = vec![f32::NAN; m * n];
            gemm::parallel(kernel, first.0, (a, first.1), first.2, &mut hidden, &mut slope);
            let through = Operand::new(&hidden, width, 1);
            gemm::parallel(kernel, second.0, (through, second.1), rest, &mut expected, &mut []);
            for keeps in [true, false] {
                let mut kept = vec![f32::NAN; if keeps { m * width } else { 0 }];
                let mut rise = vec![f32::NAN; m * width];
                let mut out = vec![f32::NAN; m * n];
                multiply(kernel, a, [first, second], [&mut kept, &mut rise, &mut out]);
                // The portable kernel sums in an order that depends on the size of a block.
                let same = |a: &[f32], b: &[f32]| match kernel {
                    Kernel::Portable => a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4),
                    _ => a == b,
                };
                assert!(same(&out, &expected), "{kernel:?}, {keeps}");
                assert!(same(&rise, &slope), "{kernel:?}, {keeps}");
                assert!(kept.is_empty() || same(&kept, &hidden), "{kernel:?}");
            }
        }
    }
}
