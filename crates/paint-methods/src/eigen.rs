//! Eigenvalues and eigenvectors of small symmetric matrices: Householder's reflections make a matrix tridiagonal, and
//! implicitly shifted QL rotations make that diagonal.
//!
//! Vectors are rows, so that every inner loop runs along memory. Only sums, products and square roots are used, in an
//! order that does not depend on the width of the processor's vectors: the same bits on every machine.
//!
//! Nothing of the values depends on the vectors, so these follow at the end: all reflections and rotations are applied
//! to a few columns at a time, which stay in the first-level cache. Threads share these strips, and the rows of products.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Rotations of one eigenvalue after which it counts as found; two are usual.
const ROUNDS: usize = 50;
/// Columns of the vectors, and rows of a product, that are computed together: for a matrix of 192 rows they take 48 KiB.
const STRIP: usize = 32;
/// Rows of a matrix that are summed together.
const BAND: usize = 8;

/// A symmetric matrix `A = Σ λᵢ vᵢ vᵢᵀ`.
pub(crate) struct Eigen {
    /// `λᵢ`, descending.
    pub(crate) values: Vec<f64>,
    /// `vᵢ`, one after the other, each of unit length with its largest element positive.
    pub(crate) vectors: Vec<f64>,
}

impl Eigen {
    /// `Σ f(λᵢ) vᵢ vᵢᵀ`, row by row.
    pub(crate) fn function(&self, f: impl Fn(f64) -> f64) -> Vec<f64> {
        let n = self.values.len();
        let values: Vec<f64> = self.values.iter().map(|value| f(*value)).collect();
        let rows = |first: usize| {
            let out = vec![0.0; STRIP.min(n - first) * n];
            Arch::new().dispatch(
                #[inline(always)]
                || recompose(out, &values, &self.vectors, first),
            )
        };
        strips(n, rows).concat()
    }
}

/// `work` for the first column, or row, of every strip, in parallel if there is more than one.
///
/// What `work` dispatches takes its memory by value: a closure that only borrows is not always inlined, and then it is
/// not compiled for the processor's vectors.
fn strips<T: Send>(n: usize, work: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
    let firsts = (0..n).into_par_iter().step_by(STRIP);
    if n > STRIP { firsts.map(work).collect() } else { (0..n.min(1)).map(work).collect() }
}

/// The rows of `Σ λᵢ vᵢ vᵢᵀ` from `first` on.
#[inline(always)]
fn recompose(mut rows: Vec<f64>, values: &[f64], vectors: &[f64], first: usize) -> Vec<f64> {
    let n = values.len();
    for (band, rows) in rows.chunks_mut(BAND * n).enumerate() {
        for (value, v) in values.iter().zip(vectors.chunks_exact(n)) {
            for (row, x) in rows.chunks_exact_mut(n).zip(&v[first + band * BAND..]) {
                add(row, value * x, v);
            }
        }
    }
    rows
}

/// `A B` of two symmetric `[n, n]` matrices.
pub(crate) fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let rows = |first: usize| {
        let rows = a[first * n..n * n.min(first + STRIP)].to_vec();
        Arch::new().dispatch(
            #[inline(always)]
            || multiply(rows, b, n),
        )
    };
    strips(n, rows).concat()
}

/// Some rows of `A` by `B`, whose row `j` is its column `j`.
#[inline(always)]
fn multiply(mut rows: Vec<f64>, b: &[f64], n: usize) -> Vec<f64> {
    let mut x = vec![0.0; n];
    for row in rows.chunks_exact_mut(n) {
        x.copy_from_slice(row);
        for (out, y) in row.iter_mut().zip(b.chunks_exact(n)) {
            *out = dot(&x, y);
        }
    }
    rows
}

/// Decomposes the symmetric `[n, n]` matrix `a`, row by row.
pub(crate) fn symmetric(a: Vec<f64>, n: usize) -> Eigen {
    Arch::new().dispatch(
        #[inline(always)]
        || decompose(a, n),
    )
}

#[inline(always)]
fn decompose(mut a: Vec<f64>, n: usize) -> Eigen {
    let (mut diagonal, mut beside, reflections) = tridiagonal(&mut a, n);
    let mut rounds = Vec::with_capacity(2 * n);
    for first in 0..n {
        for _ in 0..ROUNDS {
            let last = end_of_part(&diagonal, &beside, first);
            if last == first {
                break;
            }
            rounds.push(rotate(&mut diagonal, &mut beside, (first, last)));
        }
    }
    let columns = |first: usize| {
        let mut strip = vec![[0.0; STRIP]; n];
        for (row, column) in strip[first..].iter_mut().zip(0..STRIP) {
            row[column] = 1.0;
        }
        Arch::new().dispatch(Follow { strip, reflections: &reflections, rounds: &rounds })
    };
    let strips = strips(n, columns);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| diagonal[j].total_cmp(&diagonal[i]));
    let values = order.iter().map(|&i| diagonal[i]).collect();
    let mut vectors = Vec::with_capacity(n * n);
    for i in order {
        let first = vectors.len();
        strips.iter().for_each(|strip| vectors.extend_from_slice(&strip[i]));
        vectors.truncate(first + n);
        orient(&mut vectors[first..]);
    }
    Eigen { values, vectors }
}

/// `H = I - β u uᵀ`, where `u` is zero up to its last `u.len()` elements.
struct Reflection {
    u: Vec<f64>,
    beta: f64,
}

/// Rotations of rows `last - 1` and `last`, then of the two above, and so on: cosine and sine of each.
struct Round {
    last: usize,
    turns: Vec<(f64, f64)>,
}

/// A strip after all reflections and rotations.
///
/// Vectors are explicit here: of loops over a strip's columns the compiler makes vectors down its rows, which it gathers
/// element by element.
struct Follow<'a> {
    strip: Vec<[f64; STRIP]>,
    reflections: &'a [Reflection],
    rounds: &'a [Round],
}

impl WithSimd for Follow<'_> {
    type Output = Vec<[f64; STRIP]>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { mut strip, reflections, rounds } = self;
        let n = strip.len();
        for Reflection { u, beta } in reflections {
            let rows = &mut strip[n - u.len()..];
            let mut along = [0.0; STRIP];
            for (u, row) in u.iter().zip(&*rows) {
                add_strip(simd, &mut along, *u, row);
            }
            for (u, row) in u.iter().zip(rows) {
                add_strip(simd, row, -beta * u, &along);
            }
        }
        for Round { last, turns } in rounds {
            let mut lower = strip[*last];
            for (row, &turn) in (0..*last).rev().zip(turns) {
                let (upper, below) = strip[row..].split_at_mut(1);
                turn_strip(simd, turn, &upper[0], &mut lower, &mut below[0]);
            }
            strip[last - turns.len()] = lower;
        }
        strip
    }
}

/// `y += factor x`.
#[inline(always)]
fn add_strip<S: Simd>(simd: S, y: &mut [f64; STRIP], factor: f64, x: &[f64; STRIP]) {
    let factor = simd.splat_f64s(factor);
    let ((y, _), (x, _)) = (S::as_mut_simd_f64s(y), S::as_simd_f64s(x));
    for (y, x) in y.iter_mut().zip(x) {
        *y = simd.add_f64s(*y, simd.mul_f64s(factor, *x));
    }
}

/// `below = s upper + c lower`, and `lower = c upper - s lower`.
#[inline(always)]
fn turn_strip<S: Simd>(
    simd: S,
    (c, s): (f64, f64),
    upper: &[f64; STRIP],
    lower: &mut [f64; STRIP],
    below: &mut [f64; STRIP],
) {
    let (c, s) = (simd.splat_f64s(c), simd.splat_f64s(s));
    let ((upper, _), (lower, _)) = (S::as_simd_f64s(upper), S::as_mut_simd_f64s(lower));
    let (below, _) = S::as_mut_simd_f64s(below);
    for (upper, (lower, below)) in upper.iter().zip(lower.iter_mut().zip(below)) {
        *below = simd.add_f64s(simd.mul_f64s(s, *upper), simd.mul_f64s(c, *lower));
        *lower = simd.sub_f64s(simd.mul_f64s(c, *upper), simd.mul_f64s(s, *lower));
    }
}

/// Eight sums side by side, which a processor adds at once.
#[inline(always)]
fn dot(x: &[f64], y: &[f64]) -> f64 {
    const LANES: usize = 8;
    debug_assert_eq!(x.len(), y.len());
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| x * y).sum();
    let mut sums = [0.0; LANES];
    for (x, y) in xs.zip(ys) {
        for i in 0..LANES {
            sums[i] += x[i] * y[i];
        }
    }
    rest + sums.iter().sum::<f64>()
}

/// `y += factor x`.
#[inline(always)]
fn add(y: &mut [f64], factor: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

/// Makes `a` tridiagonal. Returns its diagonal, the elements beside it, the last of them 0, and the reflections.
#[inline(always)]
fn tridiagonal(a: &mut [f64], n: usize) -> (Vec<f64>, Vec<f64>, Vec<Reflection>) {
    let mut beside = vec![0.0; n];
    let mut reflections = Vec::with_capacity(n);
    for k in 0..n.saturating_sub(1) {
        // Column `k` below the diagonal is row `k` right of it.
        let mut u = a[k * n + k + 1..(k + 1) * n].to_vec();
        let length = dot(&u, &u).sqrt();
        let image = if u[0] > 0.0 { -length } else { length };
        beside[k] = image;
        u[0] -= image;
        let square = dot(&u, &u);
        if square == 0.0 {
            continue;
        }
        let beta = 2.0 / square;
        let below = |row: usize| row * n + k + 1..(row + 1) * n;
        let mut p = vec![0.0; n - k - 1];
        for (p, row) in p.iter_mut().zip(k + 1..n) {
            *p = beta * dot(&a[below(row)], &u);
        }
        let half = beta / 2.0 * dot(&p, &u);
        add(&mut p, -half, &u);
        for (i, row) in (k + 1..n).enumerate() {
            let (ui, pi) = (u[i], p[i]);
            for (a, (u, p)) in a[below(row)].iter_mut().zip(u.iter().zip(&p)) {
                *a = *a - ui * p - pi * u;
            }
        }
        reflections.push(Reflection { u, beta });
    }
    ((0..n).map(|i| a[i * n + i]).collect(), beside, reflections)
}

/// The last row of the part that begins at `first` and hangs together.
fn end_of_part(diagonal: &[f64], beside: &[f64], first: usize) -> usize {
    let is_apart = |&at: &usize| {
        let around = diagonal[at].abs() + diagonal[at + 1].abs();
        beside[at].abs() <= f64::EPSILON * around
    };
    (first..diagonal.len() - 1).find(is_apart).unwrap_or(diagonal.len() - 1)
}

/// One QL round over the rows from `first` to `last`, shifted by the eigenvalue of the leading pair that is nearest to
/// its first element.
#[inline(always)]
fn rotate(d: &mut [f64], e: &mut [f64], (first, last): (usize, usize)) -> Round {
    let mut turns = Vec::with_capacity(last - first);
    let ratio = (d[first + 1] - d[first]) / (2.0 * e[first]);
    let root = (ratio * ratio + 1.0).sqrt();
    let mut g = d[last] - d[first] + e[first] / (ratio + if ratio < 0.0 { -root } else { root });
    let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
    for i in (first..last).rev() {
        let (f, b) = (s * e[i], c * e[i]);
        let length = (f * f + g * g).sqrt();
        e[i + 1] = length;
        if length == 0.0 {
            // The part falls in two.
            d[i + 1] -= p;
            e[last] = 0.0;
            return Round { last, turns };
        }
        (s, c) = (f / length, g / length);
        g = d[i + 1] - p;
        let r = (d[i] - g) * s + 2.0 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        turns.push((c, s));
    }
    d[first] -= p;
    e[first] = g;
    e[last] = 0.0;
    Round { last, turns }
}

/// Makes a vector's largest element positive, so that its sign is the same on every machine.
fn orient(v: &mut [f64]) {
    let largest = v.iter().copied().max_by(|x, y| x.abs().total_cmp(&y.abs())).unwrap_or(0.0);
    if largest < 0.0 {
        v.iter_mut().for_each(|x| *x = -*x);
    }
}

#[cfg(test)]
mod tests;
