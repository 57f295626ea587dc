//! Rows brought towards given moments; see [`crate::op::alignment`] for the formulas and their letters.

use super::{Cpu, build, host, host_mut};
use crate::Result;
use crate::backend::{Storage, TokenKernels};
use crate::op::alignment::{Alignment, LEAST, evidence};

impl TokenKernels for Cpu {
    fn align(&self, x: &Storage, moments: [&Storage; 2], by: &Alignment) -> Result<[Storage; 3]> {
        let [running, target] = moments.map(host);
        let (mut next, mut weight) = (running.to_vec(), 0.0);
        let rows = build(host(x).len(), |out| {
            weight = align(host(x), &mut next, target, by, out);
        });
        let copied = |data: &[f32]| build(data.len(), |out| out.copy_from_slice(data));
        Ok([rows, copied(&next), copied(&[weight])])
    }

    fn overwrite_first(
        &self,
        x: &mut Storage,
        part: &Storage,
        [row, width]: [usize; 2],
    ) -> Result<bool> {
        let Some(x) = host_mut(x) else { return Ok(false) };
        let rows = x.chunks_exact_mut(row.max(1)).zip(host(part).chunks_exact(width.max(1)));
        rows.for_each(|(x, part)| x[..width].copy_from_slice(part));
        Ok(true)
    }
}

/// `running` becomes `[m, q]` with its share of the rows, `out` the rows brought towards `target`; returns `w`.
fn align(x: &[f32], running: &mut [f32], target: &[f32], by: &Alignment, out: &mut [f32]) -> f32 {
    let d = target.len() / 2;
    let rows = x.len() / d;
    if by.share != 0.0 {
        let mut sums = vec![0.0_f64; 2 * d];
        let (first, second) = sums.split_at_mut(d);
        for row in x.chunks_exact(d) {
            for ((sum, square), &x) in first.iter_mut().zip(&mut *second).zip(row) {
                *sum += f64::from(x);
                *square += f64::from(x) * f64::from(x);
            }
        }
        for (old, sum) in running.iter_mut().zip(sums) {
            *old += by.share * ((sum / rows as f64) as f32 - *old);
        }
    }
    let channel =
        |at: usize| [running[at], running[d + at], target[at], target[d + at]].map(f64::from);
    let shifts = (0..d).map(|at| {
        let [m, _, mu, c] = channel(at);
        (m - mu) * (m - mu) / c
    });
    let [n, n_s, n_v, most] = [by.rows, by.target_rows, by.shrinkage, by.stretch].map(f64::from);
    let w = evidence(shifts.sum::<f64>() / d as f64, n, n_s);
    let maps: Vec<[f32; 2]> = (0..d)
        .map(|at| {
            let [m, q, mu, c] = channel(at);
            let v = (n * if q - m * m < LEAST { LEAST } else { q - m * m } + n_v * c) / (n + n_v);
            let a = (c / v).sqrt();
            let a = if a > most { most } else { a };
            [(1.0 + w * (a - 1.0)) as f32, (w * (mu - m * a)) as f32]
        })
        .collect();
    for (out, x) in out.chunks_exact_mut(d).zip(x.chunks_exact(d)) {
        for ((out, x), [scale, added]) in out.iter_mut().zip(x).zip(&maps) {
            *out = x * scale + added;
        }
    }
    w as f32
}
