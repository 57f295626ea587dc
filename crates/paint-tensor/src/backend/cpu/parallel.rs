//! Spreading rows over threads, and compiling loops for the widest vectors of the CPU.

use rayon::prelude::*;

use super::awake;

/// Elements of one task: few enough to balance the load, many enough to outweigh the cost of a task. The number does
/// not depend on that of threads, so that a reduction over tasks has one order.
pub(super) const GRAIN: usize = 1 << 14;

/// Elements of two outputs that the calling thread writes alone where it would have to wake another one, which takes as
/// long.
const ALONE: usize = 1 << 16;

/// Runs `f` compiled for the best instruction set found at run time. `f` should be `#[inline(always)]`.
#[inline]
pub(super) fn vectorized<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}

/// Rows of `width` elements that make one task.
pub(super) fn rows_per_task(width: usize) -> usize {
    (GRAIN / width.max(1)).max(1)
}

/// Calls `f(first_row, rows)` for consecutive groups of rows of `out`.
pub(super) fn for_rows(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = rows_per_task(width);
    for_chunks(out, rows * width, |task, out| f(task * rows, out));
}

/// Calls `f(task, part)` for consecutive parts of `len` elements of `out`, each a task of its own.
pub(super) fn for_chunks(out: &mut [f32], len: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    if out.len() > len {
        out.par_chunks_mut(len).enumerate().with_max_len(1).for_each(|(task, out)| f(task, out));
    } else if !out.is_empty() {
        f(0, out);
    }
}

/// The same for two outputs that have a common number of rows.
pub(super) fn for_rows2(
    (a, width_a): (&mut [f32], usize),
    (b, width_b): (&mut [f32], usize),
    f: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) {
    let rows = rows_per_task(width_a.max(width_b));
    let (len_a, len_b) = (rows * width_a, rows * width_b);
    let alone = if awake::is_on() { GRAIN } else { ALONE };
    if a.len().max(b.len()) > alone {
        let chunks = a.par_chunks_mut(len_a).zip(b.par_chunks_mut(len_b));
        let chunks = chunks.enumerate().with_max_len(1);
        chunks.for_each(|(task, (a, b))| f(task * rows, a, b));
    } else if !a.is_empty() {
        let chunks = a.chunks_mut(len_a).zip(b.chunks_mut(len_b));
        chunks.enumerate().for_each(|(task, (a, b))| f(task * rows, a, b));
    }
}
