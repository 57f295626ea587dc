//! Multi-head attention, one image per task, one head after the other: the scores of a head stay in the cache, and only
//! `log Σ exp` of each row is kept for the backward pass, which computes the scores again. The forward pass of a few
//! images has a task for every head and half of its rows, because one image is what a server is asked for.

#![expect(unsafe_code, reason = "tasks write the columns of their heads")]

pub(super) mod gradients;

use std::ops::Range;

use rayon::prelude::*;

use super::columns::Columns;
use super::gemm::{Operand, Output, Size, serial, serial_into, whole_panels};
use super::kernel::Kernel;
use super::math;
use super::parallel::vectorized;
#[cfg(target_arch = "x86_64")]
use super::prefetch;
use super::slab::Block;
use super::storage::{build2, host};
use crate::backend::{Attention, HeadRows, Storage};

/// The output `[B, M, D]` and `log Σ exp` of the scores, `[B, h, M]`.
pub(super) fn forward(kernel: Kernel, attention: &Attention) -> (Storage, Storage) {
    let rows = attention.batch * attention.q_len;
    let len = [rows * attention.width(), rows * attention.heads];
    build2(len, |out, lse| Problem::new(kernel, attention).forward(out, lse))
}

/// Query, key or value rows of a whole batch.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) data: &'a [f32],
    pub(super) start: usize,
    pub(super) row: usize,
    pub(super) len: usize,
}

impl<'a> Rows<'a> {
    /// The rows of one image at one head's columns.
    fn head(&self, image: usize, column: usize) -> &'a [f32] {
        &self.data[self.start + image * self.len * self.row + column..]
    }

    /// Brings these columns of a row, which need not be there, into the second-level cache.
    #[inline(always)]
    fn fetch(&self, image: usize, row: usize, columns: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        for column in columns.step_by(32) {
            let at = self.start + (image * self.len + row) * self.row + column;
            prefetch::row::<{ std::arch::x86_64::_MM_HINT_T1 }>(
                self.data.as_ptr().wrapping_add(at),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (image, row, columns);
    }
}

/// Fewer images than this share their tasks. The number of threads does not matter, so that it does not change a bit.
const FEW: usize = 8;
/// Rows that products take at a time.
const PANEL: usize = 32;
/// Rows of scores that become probabilities at a time. One alone would wait for its largest score, for the last of its
/// exponentials and for their sum.
const TOGETHER: usize = 4;

/// The problem: sizes and inputs.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) kernel: Kernel,
    pub(super) heads: usize,
    pub(super) head_dim: usize,
    pub(super) scale: f32,
    pub(super) q: Rows<'a>,
    pub(super) k: Rows<'a>,
    pub(super) v: Rows<'a>,
}

impl<'a> Problem<'a> {
    fn new(kernel: Kernel, attention: &Attention<'a>) -> Self {
        let rows = |rows: HeadRows<'a>, len| Rows {
            data: host(rows.storage),
            start: rows.start,
            row: rows.row,
            len,
        };
        Self {
            kernel,
            heads: attention.heads,
            head_dim: attention.head_dim,
            scale: attention.scale(),
            q: rows(attention.q, attention.q_len),
            k: rows(attention.k, attention.kv_len),
            v: rows(attention.v, attention.kv_len),
        }
    }
}

impl Problem<'_> {
    fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements from one row of scores to the next.
    fn pitch(&self) -> usize {
        whole_panels(self.k.len)
    }

    /// Room for the scores of so many rows, and for whatever a kernel writes beyond them.
    fn room(&self, rows: usize) -> usize {
        whole_panels(rows) * self.pitch()
    }

    /// Unscaled scores `Q Kᵀ` of `m` rows of one head from `first` on.
    fn scores(&self, image: usize, column: usize, [first, m]: [usize; 2], out: &mut [f32]) {
        let q = &self.q.head(image, column)[first * self.q.row..];
        let k = Operand::new(self.k.head(image, column), 1, self.k.row);
        let size = Size { m, n: self.k.len, k: self.head_dim };
        let out = Output { data: out, stride: self.pitch(), margin: true };
        serial_into(self.kernel, size, (Operand::new(q, self.q.row, 1), k), out);
    }

    /// Brings a row of the head after this one into the cache; meant for a loop over rows that computes meanwhile.
    #[inline(always)]
    fn fetch_next<const N: usize>(&self, of: [Rows; N], (image, head): (usize, usize), row: usize) {
        let next = head + 1;
        let (image, head) = if next < self.heads { (image, next) } else { (image + 1, 0) };
        let columns = head * self.head_dim..(head + 1) * self.head_dim;
        of.into_iter().for_each(|rows| rows.fetch(image, row, columns.clone()));
    }

    /// The rows of one head from `first` on, as many as `lse` has, `pitch` apart in `out`.
    fn attend(
        &self,
        (image, head): (usize, usize),
        first: usize,
        scores: &mut [f32],
        (out, pitch): (&mut [f32], usize),
        lse: &mut [f32],
    ) {
        let (n, column) = (self.k.len, head * self.head_dim);
        self.scores(image, column, [first, lse.len()], scores);
        let place = (image, head);
        vectorized(
            #[inline(always)]
            || {
                let inputs = [self.q, self.k, self.v];
                let ahead = |row| self.fetch_next(inputs, place, first + row);
                softmax_rows((scores, self.pitch()), lse, n, self.scale, ahead);
            },
        );
        let v = Operand::new(self.v.head(image, column), self.v.row, 1);
        let size = Size { m: lse.len(), n: self.head_dim, k: n };
        serial(self.kernel, size, (Operand::new(scores, self.pitch(), 1), v), out, pitch);
    }

    /// `out [B, M, D]` and `lse [B, h, M]`.
    pub(super) fn forward(&self, out: &mut [f32], lse: &mut [f32]) {
        let (m, d) = (self.q.len, self.width());
        if out.len() < FEW * m * d {
            let images = out.chunks_exact_mut(m * d).zip(lse.chunks_exact_mut(self.heads * m));
            images.enumerate().for_each(|(image, (out, lse))| self.shared(image, out, lse));
            return;
        }
        let images = out.par_chunks_mut(m * d).zip(lse.par_chunks_mut(self.heads * m)).enumerate();
        images.with_max_len(1).for_each(|(image, (out, lse))| {
            let mut scores = Block::take(self.room(m));
            let scores = scores.as_mut_slice();
            for (head, lse) in lse.chunks_exact_mut(m).enumerate() {
                let out = &mut out[head * self.head_dim..];
                self.attend((image, head), 0, scores, (out, d), lse);
            }
        });
    }

    /// One image, by several tasks.
    fn shared(&self, image: usize, out: &mut [f32], lse: &mut [f32]) {
        let (m, d, h) = (self.q.len, self.width(), self.head_dim);
        let rows = (m / 2).next_multiple_of(PANEL).max(PANEL);
        let out = Columns::new(out, d);
        let of_heads = lse.par_chunks_mut(m).enumerate();
        of_heads.for_each(|(head, lse)| {
            let parts = lse.par_chunks_mut(rows).enumerate();
            parts.for_each(|(part, lse)| {
                let room = self.room(lse.len());
                let mut scratch = Block::take(room + lse.len() * h);
                let (scores, attended) = scratch.as_mut_slice().split_at_mut(room);
                self.attend((image, head), part * rows, scores, (attended, h), lse);
                for (row, attended) in (part * rows..).zip(attended.chunks_exact(h)) {
                    // SAFETY: no other task has these rows of this head.
                    let out = unsafe { out.part(row, head * h..(head + 1) * h) };
                    out.copy_from_slice(attended);
                }
            });
        });
    }
}

/// Rows of `n` scores, `pitch` apart, become probabilities, and zeros follow up to a whole vector where there is room;
/// `lse` receives the logarithm of each row's normaliser. `ahead` is called before each row.
#[inline(always)]
pub(super) fn softmax_rows(
    (scores, pitch): (&mut [f32], usize),
    lse: &mut [f32],
    n: usize,
    scale: f32,
    ahead: impl Fn(usize),
) {
    let wide = n.next_multiple_of(math::LANES).min(pitch);
    let groups = scores.chunks_mut(TOGETHER * pitch).zip(lse.chunks_mut(TOGETHER));
    for (group, (scores, lse)) in groups.enumerate() {
        (group * TOGETHER..).take(lse.len()).for_each(&ahead);
        for (row, top) in scores.chunks_exact_mut(pitch).zip(&mut *lse) {
            row[n..wide].fill(f32::NEG_INFINITY);
            *top = math::max(&row[..wide]) * scale;
        }
        for (row, &mut top) in scores.chunks_exact_mut(pitch).zip(&mut *lse) {
            row[..wide].iter_mut().for_each(|s| *s = math::exp(*s * scale - top));
        }
        for (row, lse) in scores.chunks_exact_mut(pitch).zip(lse) {
            let total = math::sum(&row[..wide]);
            let factor = 1.0 / total;
            row[..wide].iter_mut().for_each(|s| *s *= factor);
            *lse += total.ln();
        }
    }
}
