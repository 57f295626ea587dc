//! Eigenvalues and eigenvectors of small symmetric matrices: Householder's reflections make a matrix tridiagonal, and
//! implicitly shifted QL rotations make that diagonal.
//!
//! Vectors are rows, so that every inner loop runs along memory. Only sums, products and square roots are used, in an
//! order that does not depend on the width of the processor's vectors: the same bits on every machine.
//!
//! Nothing of the values depends on the vectors, so these follow at the end: all reflections and rotations are applied
//! to a few columns at a time, which stay in the first-level cache.

use pulp::Arch;

/// Rotations of one eigenvalue after which it counts as found; two are usual.
const ROUNDS: usize = 50;
/// Columns of the vectors that are computed together: 192 rows of them take 48 KiB.
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
        let values: Vec<f64> = self.values.iter().map(|value| f(*value)).collect();
        Arch::new().dispatch(
            #[inline(always)]
            || recompose(&values, &self.vectors),
        )
    }
}

/// `Σ λᵢ vᵢ vᵢᵀ`.
#[inline(always)]
fn recompose(values: &[f64], vectors: &[f64]) -> Vec<f64> {
    let n = values.len();
    let mut a = vec![0.0; n * n];
    for (band, rows) in a.chunks_mut((BAND * n).max(1)).enumerate() {
        for (value, v) in values.iter().zip(vectors.chunks_exact(n)) {
            for (row, x) in rows.chunks_exact_mut(n).zip(&v[band * BAND..]) {
                add(row, value * x, v);
            }
        }
    }
    a
}

/// `A B` of two symmetric `[n, n]` matrices.
pub(crate) fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    // Row `j` of `B` is its column `j`.
    let rows = |m| <[f64]>::chunks_exact(m, n.max(1));
    Arch::new().dispatch(
        #[inline(always)]
        || rows(a).flat_map(|x| rows(b).map(move |y| dot(x, y))).collect(),
    )
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
    let mut v = vec![0.0; n * n];
    for first in (0..n).step_by(STRIP) {
        follow(&mut v, n, first, &reflections, &rounds);
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| diagonal[j].total_cmp(&diagonal[i]));
    let values = order.iter().map(|&i| diagonal[i]).collect();
    let vectors = order.iter().flat_map(|&i| oriented(&v[i * n..(i + 1) * n])).collect();
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

/// `STRIP` columns of `v`, the identity before, after all reflections and rotations.
#[inline(always)]
fn follow(v: &mut [f64], n: usize, first: usize, reflections: &[Reflection], rounds: &[Round]) {
    let mut strip = vec![[0.0; STRIP]; n];
    for (row, column) in strip[first..].iter_mut().zip(0..STRIP) {
        row[column] = 1.0;
    }
    for Reflection { u, beta } in reflections {
        let rows = &mut strip[n - u.len()..];
        let mut along = [0.0; STRIP];
        u.iter().zip(&*rows).for_each(|(u, row)| add(&mut along, *u, row));
        u.iter().zip(rows).for_each(|(u, row)| add(row, -beta * u, &along));
    }
    for Round { last, turns } in rounds {
        let mut lower = strip[*last];
        for (row, &(c, s)) in (0..*last).rev().zip(turns) {
            let upper = strip[row];
            for i in 0..STRIP {
                strip[row + 1][i] = s * upper[i] + c * lower[i];
                lower[i] = c * upper[i] - s * lower[i];
            }
        }
        strip[last - turns.len()] = lower;
    }
    for (row, strip) in v.chunks_exact_mut(n).zip(strip) {
        row[first..].iter_mut().zip(strip).for_each(|(v, x)| *v = x);
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
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (x, y))| *sum += x * y);
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
        let mut p: Vec<f64> = (k + 1..n).map(|row| beta * dot(&a[below(row)], &u)).collect();
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

/// A vector or its negative, so that the sign is the same on every machine.
fn oriented(v: &[f64]) -> impl Iterator<Item = f64> {
    let largest = v.iter().copied().max_by(|x, y| x.abs().total_cmp(&y.abs())).unwrap_or(0.0);
    let sign = if largest < 0.0 { -1.0 } else { 1.0 };
    v.iter().map(move |x| sign * x)
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;

    #[test]
    fn values_and_vectors_give_the_matrix_back() {
        for n in [1, 2, 3, 20, STRIP, 2 * STRIP + 6] {
            let mut rng = Seed(n as u64).derive("eigen", &[]);
            let b: Vec<f64> = (0..n * n).map(|_| rng.uniform() - 0.5).collect();
            let at = |i: usize, j: usize| (0..n).map(|k| b[i * n + k] * b[j * n + k]).sum::<f64>();
            let a: Vec<f64> = (0..n * n).map(|at_| at(at_ / n, at_ % n)).collect();
            let Eigen { values, vectors } = symmetric(a.clone(), n);
            assert!(values.is_sorted_by(|x, y| x >= y));
            for i in 0..n {
                for j in 0..n {
                    let back: f64 =
                        (0..n).map(|k| values[k] * vectors[k * n + i] * vectors[k * n + j]).sum();
                    assert!(
                        (back - a[i * n + j]).abs() < 1e-12,
                        "{n}: {back} and {}",
                        a[i * n + j]
                    );
                    let dot: f64 = (0..n).map(|k| vectors[i * n + k] * vectors[j * n + k]).sum();
                    assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn a_root_times_itself_is_the_matrix() {
        let a = [4.0, 1.0, 0.5, 1.0, 3.0, 0.25, 0.5, 0.25, 2.0];
        let root = symmetric(a.to_vec(), 3).function(f64::sqrt);
        for (back, a) in product(&root, &root, 3).iter().zip(a) {
            assert!((back - a).abs() < 1e-12, "{back} for {a}");
        }
    }

    #[test]
    fn equal_values_and_zeros_are_no_obstacle() {
        let Eigen { values, vectors } = symmetric(vec![0.0; 9], 3);
        assert_eq!((values, vectors.iter().sum::<f64>()), (vec![0.0; 3], 3.0));
        let twice = vec![2.0, 0.0, 0.0, 0.0, 1.5, 0.5, 0.0, 0.5, 1.5];
        let Eigen { values, .. } = symmetric(twice, 3);
        values.iter().zip([2.0, 2.0, 1.0]).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
        assert!(symmetric(Vec::new(), 0).values.is_empty());
    }
}
