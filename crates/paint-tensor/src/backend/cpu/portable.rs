//! Matrix products by the `gemm` crate, for CPUs without AVX-512.

#![expect(unsafe_code, reason = "the crate takes raw pointers; lengths are checked here")]

use gemm_common::Parallelism;

use super::gemm::{Operand, Size};

/// `C = A B` on the calling thread; rows of `C` are `stride` apart.
pub(super) fn multiply(size: Size, a: Operand, b: Operand, c: &mut [f32], stride: usize) {
    let Size { m, n, k } = size;
    let last = |rows: usize, row: usize, cols: usize, col: usize| {
        (rows.max(1) - 1) * row + (cols.max(1) - 1) * col
    };
    assert!(
        k == 0
            || (last(m, a.row, k, a.col) < a.data.len() && last(k, b.row, n, b.col) < b.data.len())
    );
    assert!(last(m, stride, n, 1) < c.len());
    // SAFETY: the assertions keep the largest address of each operand inside its slice; `c` is not read.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            stride as isize,
            false,
            a.data.as_ptr(),
            a.col as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.col as isize,
            b.row as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
