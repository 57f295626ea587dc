//! Kernels that move or sum elements along axes.

use super::parallel::{for_chunks, for_rows, rows_per_task, vectorized};
use crate::shape::broadcast_strides;

/// The sum over the middle of `[outer, mid, inner]`. For a long middle the terms are added in groups of 64 rows, so
/// that rounding errors grow slowly and the order is fixed.
pub(super) fn sum(x: &[f32], [outer, mid, inner]: [usize; 3], out: &mut [f32]) {
    const GROUP: usize = 64;
    /// Columns of a task, two cache lines: a tall and narrow matrix is shared between threads too.
    const NARROWEST: usize = 32;
    if inner == 1 {
        for (out, row) in out.iter_mut().zip(x.chunks_exact(mid.max(1))) {
            *out = vectorized(
                #[inline(always)]
                || super::math::sum(row),
            );
        }
        if mid == 0 {
            out.fill(0.0);
        }
        return;
    }
    debug_assert_eq!(out.len(), outer * inner);
    let part = |o: usize| &x[o * mid * inner..(o + 1) * mid * inner];
    // The columns of `out` from `first` on, of one part.
    let columns = |x: &[f32], first: usize, out: &mut [f32]| {
        vectorized(
            #[inline(always)]
            || {
                out.fill(0.0);
                let mut group = vec![0.0_f32; out.len()];
                for rows in x.chunks(GROUP * inner) {
                    group.fill(0.0);
                    for row in rows.chunks_exact(inner) {
                        let row = &row[first..first + group.len()];
                        group.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                    }
                    out.iter_mut().zip(&group).for_each(|(out, sum)| *out += sum);
                }
            },
        );
    };
    if outer > 1 {
        let rows = rows_per_task(mid * inner);
        for_chunks(out, rows * inner, |task, out| {
            for (o, out) in out.chunks_exact_mut(inner).enumerate() {
                columns(part(task * rows + o), 0, out);
            }
        });
    } else if outer == 1 {
        let width = rows_per_task(mid).max(NARROWEST);
        for_chunks(out, width, |task, out| columns(part(0), task * width, out));
    }
}

/// Axis `i` of the output is axis `axes[i]` of the input.
pub(super) fn permute(x: &[f32], shape: &[usize], axes: &[usize], out: &mut [f32]) {
    let strides = broadcast_strides(shape, shape);
    let Some(&last) = axes.last() else {
        out.copy_from_slice(x);
        return;
    };
    let (width, step) = (shape[last], strides[last]);
    let outer: Vec<(usize, usize)> =
        axes[..axes.len() - 1].iter().map(|&axis| (shape[axis], strides[axis])).collect();
    for_rows(out, width, |first, out| {
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let mut rest = first + row;
            let mut offset = 0;
            for &(size, stride) in outer.iter().rev() {
                offset += rest % size * stride;
                rest /= size;
            }
            if step == 1 {
                out.copy_from_slice(&x[offset..offset + width]);
            } else {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = x[offset + i * step];
                }
            }
        }
    });
}

/// Parts `[outer, width_i]` side by side.
pub(super) fn concat(parts: &[(&[f32], usize)], out: &mut [f32]) {
    let total: usize = parts.iter().map(|(_, width)| width).sum();
    for_rows(out, total, |first, out| {
        for (row, out) in out.chunks_exact_mut(total).enumerate() {
            let mut start = 0;
            for &(part, width) in parts {
                let source = (first + row) * width;
                out[start..start + width].copy_from_slice(&part[source..source + width]);
                start += width;
            }
        }
    });
}

/// `len` of the middle of `[outer, mid, inner]`, from `start`.
pub(super) fn slice(
    x: &[f32],
    [_, mid, inner]: [usize; 3],
    start: usize,
    len: usize,
    out: &mut [f32],
) {
    for_rows(out, len * inner, |first, out| {
        for (row, out) in out.chunks_exact_mut(len * inner).enumerate() {
            let source = ((first + row) * mid + start) * inner;
            out.copy_from_slice(&x[source..source + len * inner]);
        }
    });
}

/// Rows of `width` elements by index.
pub(super) fn gather(x: &[f32], indices: &[usize], width: usize, out: &mut [f32]) {
    for (out, &index) in out.chunks_exact_mut(width.max(1)).zip(indices) {
        out.copy_from_slice(&x[index * width..(index + 1) * width]);
    }
}

/// Adds row `i` of `x` to row `indices[i]` of zeros.
pub(super) fn scatter_add(x: &[f32], indices: &[usize], width: usize, out: &mut [f32]) {
    out.fill(0.0);
    for (row, &index) in x.chunks_exact(width.max(1)).zip(indices) {
        let out = &mut out[index * width..(index + 1) * width];
        out.iter_mut().zip(row).for_each(|(out, x)| *out += x);
    }
}
