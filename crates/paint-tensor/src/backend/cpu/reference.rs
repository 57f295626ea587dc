//! Readable twins of the kernels for the tests, with products in `f64`: the formulas and nothing else.

use super::attention::Problem;
use super::gemm::{Operand, Size};

pub(super) fn product(Size { m, n, k }: Size, a: Operand, b: Operand) -> Vec<f32> {
    let at = |x: Operand, i: usize, j: usize| f64::from(x.data[i * x.row + j * x.col]);
    let element =
        |i: usize, j: usize| (0..k).map(|p| at(a, i, p) * at(b, p, j)).sum::<f64>() as f32;
    (0..m * n).map(|index| element(index / n, index % n)).collect()
}

pub(super) fn softmax(x: &[f32], d: usize) -> Vec<f32> {
    let row = |row: &[f32]| {
        let exp: Vec<f64> = row.iter().map(|&x| f64::from(x).exp()).collect();
        let total: f64 = exp.iter().sum();
        exp.into_iter().map(move |e| (e / total) as f32).collect::<Vec<_>>()
    };
    x.chunks_exact(d).flat_map(row).collect()
}

pub(super) fn layer_norm(x: &[f32], gamma: &[f32], beta: &[f32], eps: f32) -> Vec<f32> {
    let d = gamma.len();
    let row = |row: &[f32]| {
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / d as f64;
        let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / d as f64;
        let rstd = (variance + f64::from(eps)).sqrt().recip();
        let affine = |(i, &x): (usize, &f32)| {
            ((f64::from(x) - mean) * rstd * f64::from(gamma[i]) + f64::from(beta[i])) as f32
        };
        row.iter().enumerate().map(affine).collect::<Vec<_>>()
    };
    x.chunks_exact(d).flat_map(row).collect()
}

/// The output `[M, D]` of one image.
pub(super) fn attention(problem: &Problem, image: usize) -> Vec<f32> {
    let Problem { heads, head_dim, scale, q, k, v, .. } = *problem;
    let at = |rows: super::attention::Rows, i: usize, column: usize| {
        rows.data[rows.start + (image * rows.len + i) * rows.row + column]
    };
    let mut out = vec![0.0; q.len * heads * head_dim];
    for i in 0..q.len {
        for head in 0..heads {
            let columns = head * head_dim..(head + 1) * head_dim;
            let score =
                |j: usize| scale * columns.clone().map(|c| at(q, i, c) * at(k, j, c)).sum::<f32>();
            let p = softmax(&(0..k.len).map(score).collect::<Vec<_>>(), k.len);
            for c in columns.clone() {
                out[i * heads * head_dim + c] =
                    p.iter().enumerate().map(|(j, p)| p * at(v, j, c)).sum();
            }
        }
    }
    out
}
