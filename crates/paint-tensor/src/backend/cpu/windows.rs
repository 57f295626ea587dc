//! Attention inside windows, one image per task. The rows of a window are brought together in the cache and its results
//! are written to where they came from, so that no copy of the batch is made in the order of windows.

use rayon::prelude::*;

use super::attention::{gradients::Saved, softmax_rows};
use super::gemm::{Operand, Size, serial};
use super::kernel::Kernel;
use super::parallel::vectorized;
use super::slab::Block;
use super::storage::{build, build2, host};
use super::{Cpu, layout, math};
use crate::Result;
use crate::backend::{AttentionGrad, BiasGradient, Storage, WindowAttention, WindowKernels};

impl WindowKernels for Cpu {
    fn window_attention(&self, attention: &WindowAttention) -> Result<(Storage, Storage)> {
        let rows = attention.batch * attention.places.len();
        let len = [rows * attention.width(), rows * attention.heads];
        Ok(build2(len, |out, lse| Problem::new(self.kernel, attention).forward(out, lse)))
    }

    fn window_attention_backward(
        &self,
        attention: &WindowAttention,
        saved: &AttentionGrad,
        bias: BiasGradient,
    ) -> Result<(Storage, Option<Storage>)> {
        let problem = Problem::new(self.kernel, attention);
        let saved = Saved::new(saved);
        let packed = attention.batch * attention.places.len() * 3 * attention.width();
        if bias == BiasGradient::Omit {
            let dqkv = build(packed, |dqkv| {
                let images = dqkv.par_chunks_mut(problem.image(3)).enumerate();
                images.for_each(|(image, dqkv)| problem.backward(&saved, image, dqkv, None));
            });
            return Ok((dqkv, None));
        }
        // One sum per image, added in their order: the number of threads changes no bit.
        let square = host(attention.bias).len();
        let (dqkv, parts) = build2([packed, attention.batch * square], |dqkv, parts| {
            let images = dqkv.par_chunks_mut(problem.image(3)).zip(parts.par_chunks_mut(square));
            images.enumerate().for_each(|(image, (dqkv, part))| {
                part.fill(0.0);
                problem.backward(&saved, image, dqkv, Some(part));
            });
        });
        let total = build(square, |out| {
            layout::sum(host(&parts), [1, attention.batch, square], out);
        });
        Ok((dqkv, Some(total)))
    }
}

struct Problem<'a> {
    kernel: Kernel,
    heads: usize,
    head_dim: usize,
    scale: f32,
    len: usize,
    places: &'a [usize],
    qkv: &'a [f32],
    bias: &'a [f32],
    mask: Option<&'a [f32]>,
}

impl<'a> Problem<'a> {
    fn new(kernel: Kernel, attention: &WindowAttention<'a>) -> Self {
        Self {
            kernel,
            heads: attention.heads,
            head_dim: attention.head_dim,
            scale: attention.scale(),
            len: attention.len,
            places: attention.places,
            qkv: host(attention.qkv),
            bias: host(attention.bias),
            mask: attention.mask.map(host),
        }
    }

    fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of an image with so many times `D` in a row.
    fn image(&self, times: usize) -> usize {
        self.places.len() * times * self.width()
    }

    /// What is added to the scores of one head of one window: its bias, and the window's mask.
    fn added(&self, head: usize, window: usize) -> (&'a [f32], Option<&'a [f32]>) {
        let square = self.len * self.len;
        let part = |x: &'a [f32], at: usize| &x[at * square..][..square];
        (part(self.bias, head), self.mask.map(|mask| part(mask, window)))
    }

    /// `out = Q Kᵀ / sqrt(D/h) + bias + mask` of one head, from the packed rows of a window.
    fn scores(&self, rows: &[f32], head: usize, window: usize, out: &mut [f32]) {
        let (n, d, h) = (self.len, self.width(), self.head_dim);
        let q = Operand::new(&rows[head * h..], 3 * d, 1);
        let k = Operand::new(&rows[d + head * h..], 1, 3 * d);
        serial(self.kernel, Size { m: n, n, k: h }, (q, k), out, n);
        let (bias, mask) = self.added(head, window);
        vectorized(
            #[inline(always)]
            || {
                out.iter_mut().zip(bias).for_each(|(s, bias)| *s = *s * self.scale + bias);
                if let Some(mask) = mask {
                    out.iter_mut().zip(mask).for_each(|(s, mask)| *s += mask);
                }
            },
        );
    }

    /// `out [B, N, D]` and `lse [B, windows, h, n]`.
    fn forward(&self, out: &mut [f32], lse: &mut [f32]) {
        let (n, d, h) = (self.len, self.width(), self.head_dim);
        let lses = self.places.len() * self.heads;
        let images = out.par_chunks_mut(self.image(1)).zip(lse.par_chunks_mut(lses)).enumerate();
        images.for_each(|(image, (out, lse))| {
            let qkv = &self.qkv[image * self.image(3)..];
            let mut scratch = Block::take(n * 4 * d + n * n);
            let (rows, rest) = scratch.as_mut_slice().split_at_mut(n * 3 * d);
            let (attended, scores) = rest.split_at_mut(n * d);
            let windows = self.places.chunks_exact(n).zip(lse.chunks_exact_mut(self.heads * n));
            for (window, (places, lse)) in windows.enumerate() {
                layout::gather(qkv, places, 3 * d, rows);
                for (head, lse) in lse.chunks_exact_mut(n).enumerate() {
                    self.scores(rows, head, window, scores);
                    vectorized(
                        #[inline(always)]
                        || softmax_rows((scores, n), lse, n, 1.0, |_| ()),
                    );
                    let v = Operand::new(&rows[2 * d + head * h..], 3 * d, 1);
                    let (p, size) = (Operand::new(scores, n, 1), Size { m: n, n: h, k: n });
                    serial(self.kernel, size, (p, v), &mut attended[head * h..], d);
                }
                scatter(attended, places, d, out);
            }
        });
    }

    /// `dqkv [N, 3D]` of one image, and what it adds to `dbias [h, n, n]`.
    fn backward(
        &self,
        saved: &Saved,
        image: usize,
        dqkv: &mut [f32],
        mut dbias: Option<&mut [f32]>,
    ) {
        let (n, d, heads) = (self.len, self.width(), self.heads);
        let gathered = |x: &[f32], places: &[usize], times: usize, out: &mut [f32]| {
            layout::gather(&x[image * self.image(times)..], places, times * d, out);
        };
        let mut scratch = Block::take(n * 8 * d + 2 * n * n);
        let (rows, rest) = scratch.as_mut_slice().split_at_mut(n * 3 * d);
        let (drows, rest) = rest.split_at_mut(n * 3 * d);
        let (out, rest) = rest.split_at_mut(n * d);
        let (grad, squares) = rest.split_at_mut(n * d);
        for (window, places) in self.places.chunks_exact(n).enumerate() {
            gathered(self.qkv, places, 3, rows);
            gathered(saved.out, places, 1, out);
            gathered(saved.grad, places, 1, grad);
            for head in 0..heads {
                let at = (image * self.places.len() + window * n) * heads + head * n;
                let pass = Pass { rows, out, grad, lse: &saved.lse[at..][..n] };
                let square = n * n;
                let dbias = dbias.as_mut().map(|sums| &mut sums[head * square..][..square]);
                self.head_backward([head, window], &pass, squares, (drows, dbias));
            }
            scatter(drows, places, 3 * d, dqkv);
        }
    }

    /// The gradients of one head of one window.
    fn head_backward(
        &self,
        [head, window]: [usize; 2],
        pass: &Pass,
        squares: &mut [f32],
        (drows, dbias): (&mut [f32], Option<&mut [f32]>),
    ) {
        let (n, d, h) = (self.len, self.width(), self.head_dim);
        let (column, scale) = (head * h, self.scale);
        let (p, ds) = squares.split_at_mut(n * n);
        let Pass { rows, out, grad, lse } = *pass;
        let packed = |part: usize| &rows[part * d + column..];
        let of_grad = Operand::new(&grad[column..], d, 1);
        self.scores(rows, head, window, p);
        let v = Operand::new(packed(2), 1, 3 * d);
        serial(self.kernel, Size { m: n, n, k: h }, (of_grad, v), ds, n);
        vectorized(
            #[inline(always)]
            || {
                for i in 0..n {
                    let at = i * d + column;
                    let delta = math::dot(&out[at..at + h], &grad[at..at + h]);
                    let (p, ds) = (&mut p[i * n..][..n], &mut ds[i * n..][..n]);
                    for (p, ds) in p.iter_mut().zip(ds) {
                        *p = math::exp(*p - lse[i]);
                        *ds = *p * (*ds - delta);
                    }
                }
                if let Some(dbias) = dbias {
                    dbias.iter_mut().zip(&*ds).for_each(|(sum, ds)| *sum += ds);
                }
                ds.iter_mut().for_each(|ds| *ds *= scale);
            },
        );
        let by_rows = Size { m: n, n: h, k: n };
        let (of_ds, turned) = (Operand::new(ds, n, 1), Operand::new(ds, 1, n));
        let (q, k) = (Operand::new(packed(0), 3 * d, 1), Operand::new(packed(1), 3 * d, 1));
        serial(self.kernel, by_rows, (of_ds, k), &mut drows[column..], 3 * d);
        serial(self.kernel, by_rows, (turned, q), &mut drows[d + column..], 3 * d);
        let p = Operand::new(p, 1, n);
        serial(self.kernel, by_rows, (p, of_grad), &mut drows[2 * d + column..], 3 * d);
    }
}

/// The rows of one window that the gradients of a head are made of.
#[derive(Clone, Copy)]
struct Pass<'a> {
    /// `[n, 3D]`.
    rows: &'a [f32],
    /// `[n, D]`.
    out: &'a [f32],
    /// `[n, D]`.
    grad: &'a [f32],
    /// `[n]`, of this head.
    lse: &'a [f32],
}

/// Row `i` of `x` is written to row `places[i]`.
fn scatter(x: &[f32], places: &[usize], width: usize, out: &mut [f32]) {
    for (row, &place) in x.chunks_exact(width).zip(places) {
        out[place * width..][..width].copy_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, Tensor, Windows};

    fn values(shape: &[usize], seed: f32) -> Tensor {
        let len = shape.iter().product::<usize>();
        let data = (0..len).map(|i| ((i as f32 + seed) * 0.7).sin()).collect();
        Tensor::from_vec(data, shape, &Device::cpu()).unwrap().variable()
    }

    /// Windows of the size that Swin has, in an order of their own, with a mask that closes half of each window.
    fn windows(count: usize, n: usize) -> Windows {
        let rows = count * n;
        let places = (0..rows).map(|i| (i * 5 + 3) % rows).collect();
        let closed = |i: usize| if i % n < n / 2 { -100.0 } else { 0.0 };
        let mask = (0..count * n * n).map(closed).collect();
        let mask = Tensor::from_vec(mask, [count, n, n], &Device::cpu()).unwrap();
        Windows::new(places, n, Some(mask)).unwrap()
    }

    #[test]
    fn it_is_what_separate_steps_give_and_the_number_of_threads_changes_no_bit() {
        let (qkv, bias) = (values(&[3, 4 * 49, 3 * 24], 0.0), values(&[3, 49, 49], 0.3));
        let windows = windows(4, 49);
        let weights = values(&[3, 4 * 49, 24], 0.9).detach();
        let bits = |out: &Tensor| {
            let gradients = out.mul(&weights).unwrap().sum_all().unwrap().backward().unwrap();
            let of = |x| gradients.get(x).unwrap().to_vec().unwrap();
            [out.to_vec().unwrap(), of(&qkv), of(&bias)]
        };
        let fused = || bits(&qkv.window_attention(3, &bias, &windows).unwrap());
        let found = fused();
        let steps = bits(&qkv.window_attention_in_steps(3, &bias, &windows).unwrap());
        for (found, expected) in found.iter().zip(&steps) {
            for (a, b) in found.iter().zip(expected) {
                // 1e-5: sums of up to 49 products of numbers below one, 12 of them for the bias, in other orders.
                assert!((a - b).abs() < 1e-5, "{a} and {b}");
            }
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(fused) == found, "{threads} threads");
        }
    }
}
