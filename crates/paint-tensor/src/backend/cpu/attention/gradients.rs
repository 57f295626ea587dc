//! The gradients of attention: probabilities are computed again from the scores and `log Σ exp` of each row.

use rayon::prelude::*;

use super::super::gemm::{Operand, Output, Size, serial, serial_into};
use super::super::kernel::Kernel;
use super::super::math;
use super::super::parallel::vectorized;
use super::super::slab::Block;
use super::super::storage::{build, build2, host};
use super::{Problem, Rows};
use crate::backend::{Attention, AttentionGrad, Storage};

/// The gradients of the query rows `[B, M, D]` and of key and value rows `[B, N, 2D]`.
pub(in super::super) fn apart(
    kernel: Kernel,
    attention: &Attention,
    saved: &AttentionGrad,
) -> (Storage, Storage) {
    let width = attention.batch * attention.width();
    let len = [attention.q_len * width, attention.kv_len * 2 * width];
    let problem = Problem::new(kernel, attention);
    build2(len, |dq, dkv| problem.backward(&Saved::new(saved), dq, dkv))
}

/// The gradient of packed rows `[q | k | v]`, `[B, N, 3D]`.
pub(in super::super) fn packed(
    kernel: Kernel,
    attention: &Attention,
    saved: &AttentionGrad,
) -> Storage {
    let len = attention.batch * attention.kv_len * 3 * attention.width();
    let problem = Problem::new(kernel, attention);
    build(len, |dqkv| problem.backward_packed(&Saved::new(saved), dqkv))
}

impl Problem<'_> {
    /// `dq [B, M, D]` and `dkv [B, N, 2D]`.
    fn backward(&self, saved: &Saved, dq: &mut [f32], dkv: &mut [f32]) {
        let (m, n, d) = (self.q.len, self.k.len, self.width());
        let images = dq.par_chunks_mut(m * d).zip(dkv.par_chunks_mut(n * 2 * d)).enumerate();
        images.with_max_len(1).for_each(|(image, (dq, dkv))| {
            self.image_backward(saved, image, Gradients::Apart { dq, dkv, d });
        });
    }

    /// `[dq | dk | dv]`, `[B, N, 3D]`, of as many queries as keys.
    fn backward_packed(&self, saved: &Saved, dqkv: &mut [f32]) {
        let (n, d) = (self.k.len, self.width());
        let images = dqkv.par_chunks_mut(n * 3 * d).enumerate();
        images.with_max_len(1).for_each(|(image, dqkv)| {
            self.image_backward(saved, image, Gradients::Packed { dqkv, d });
        });
    }

    fn image_backward(&self, saved: &Saved, image: usize, mut gradients: Gradients) {
        let (m, n, d, h) = (self.q.len, self.k.len, self.width(), self.head_dim);
        let (room, pitch) = (self.room(m), self.pitch());
        let wide = n.next_multiple_of(math::LANES);
        let like_q = |data| Rows { data, start: 0, row: d, len: m };
        let read = [self.q, self.k, self.v, like_q(saved.grad), like_q(saved.out)];
        let mut scratch = Block::take(2 * room);
        let (p, ds) = scratch.as_mut_slice().split_at_mut(room);
        for head in 0..self.heads {
            let column = head * h;
            let rows = |x| Operand::new(x, d, 1);
            let at = image * m * d + column;
            let (out, grad) = (&saved.out[at..], &saved.grad[at..]);
            let lse = &saved.lse[(image * self.heads + head) * m..][..m];
            self.scores(image, column, [0, m], p);
            let v = Operand::new(self.v.head(image, column), 1, self.v.row);
            let to = Output { data: ds, stride: pitch, margin: true };
            serial_into(self.kernel, Size { m, n, k: h }, (rows(grad), v), to);
            vectorized(
                #[inline(always)]
                || {
                    for i in 0..m {
                        self.fetch_next(read, (image, head), i);
                        let delta = math::dot(&out[i * d..i * d + h], &grad[i * d..i * d + h]);
                        let (p, ds) = (&mut p[i * pitch..][..wide], &mut ds[i * pitch..][..wide]);
                        score_gradients(p, ds, [self.scale, lse[i], delta]);
                    }
                },
            );
            let k = Operand::new(self.k.head(image, column), self.k.row, 1);
            let q = Operand::new(self.q.head(image, column), self.q.row, 1);
            let by_depth = Size { m: n, n: h, k: m };
            for (part, size, operands) in [
                (Part::Query, Size { m, n: h, k: n }, (Operand::new(ds, pitch, 1), k)),
                (Part::Key, by_depth, (Operand::new(ds, 1, pitch), q)),
                (Part::Value, by_depth, (Operand::new(p, 1, pitch), rows(grad))),
            ] {
                let (to, stride) = gradients.part(part);
                serial(self.kernel, size, operands, &mut to[column..], stride);
            }
        }
    }
}

/// What the forward pass left, and the gradient of its output.
#[derive(Clone, Copy)]
pub(in super::super) struct Saved<'a> {
    pub(in super::super) out: &'a [f32],
    pub(in super::super) lse: &'a [f32],
    pub(in super::super) grad: &'a [f32],
}

impl<'a> Saved<'a> {
    pub(in super::super) fn new(saved: &AttentionGrad<'a>) -> Self {
        Self { out: host(saved.out), lse: host(saved.lse), grad: host(saved.grad) }
    }
}

/// Whose gradient.
#[derive(Clone, Copy)]
enum Part {
    Query,
    Key,
    Value,
}

/// Where the gradients of one image go; rows have `d`, `2 d` or `3 d` elements.
enum Gradients<'a> {
    Apart { dq: &'a mut [f32], dkv: &'a mut [f32], d: usize },
    Packed { dqkv: &'a mut [f32], d: usize },
}

impl Gradients<'_> {
    /// From the first element of a part on, and the distance of its rows.
    fn part(&mut self, part: Part) -> (&mut [f32], usize) {
        match (self, part) {
            (Self::Apart { dq, d, .. }, Part::Query) => (dq, *d),
            (Self::Apart { dkv, d, .. }, Part::Key) => (dkv, 2 * *d),
            (Self::Apart { dkv, d, .. }, Part::Value) => (&mut dkv[*d..], 2 * *d),
            (Self::Packed { dqkv, d }, part) => (&mut dqkv[part as usize * *d..], 3 * *d),
        }
    }
}

/// A row of scores becomes probabilities `p`, and their gradients `ds` those of the scores.
#[inline(always)]
fn score_gradients(p: &mut [f32], ds: &mut [f32], [scale, lse, delta]: [f32; 3]) {
    const LANES: usize = math::LANES;
    let (p, ds) = (p.as_chunks_mut::<LANES>().0, ds.as_chunks_mut::<LANES>().0);
    for (p, ds) in p.iter_mut().zip(ds) {
        let (mut probabilities, mut gradients) = (*p, *ds);
        for (p, ds) in probabilities.iter_mut().zip(&mut gradients) {
            *p = math::exp(*p * scale - lse);
            *ds = *p * (*ds - delta) * scale;
        }
        (*p, *ds) = (probabilities, gradients);
    }
}
