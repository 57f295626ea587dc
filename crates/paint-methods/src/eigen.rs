//! Eigenvalues and eigenvectors of small symmetric matrices, by Jacobi's cyclic rotations.
//!
//! Slower than a tridiagonal method, and short: what is decomposed while a stream runs has at most 64 rows.

/// Sweeps after which a matrix counts as diagonal; seven are usual.
const SWEEPS: usize = 30;

/// A symmetric matrix `A = Σ λᵢ vᵢ vᵢᵀ`.
pub(crate) struct Eigen {
    /// `λᵢ`, descending.
    pub(crate) values: Vec<f64>,
    /// `vᵢ`, one after the other, each of unit length with its largest element positive.
    pub(crate) vectors: Vec<f64>,
}

/// Decomposes the symmetric `[n, n]` matrix `a`, row by row.
pub(crate) fn symmetric(mut a: Vec<f64>, n: usize) -> Eigen {
    let mut v = vec![0.0; n * n];
    (0..n).for_each(|i| v[i * n + i] = 1.0);
    let scale: f64 = a.iter().map(|x| x * x).sum::<f64>();
    for _ in 0..SWEEPS {
        let off: f64 = (0..n)
            .flat_map(|p| (0..p).map(move |q| (p, q)))
            .map(|(p, q)| a[p * n + q].powi(2))
            .sum();
        if off <= 1e-24 * scale {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut v, n, p, q);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j * n + j].total_cmp(&a[i * n + i]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    let vectors = order.iter().flat_map(|&i| oriented(&v[i * n..(i + 1) * n])).collect();
    Eigen { values, vectors }
}

/// Makes `a[p, q]` zero: `a ← Jᵀ a J`, and the rows of `v` follow.
fn rotate(a: &mut [f64], v: &mut [f64], n: usize, p: usize, q: usize) {
    let apq = a[p * n + q];
    if apq == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    let (app, aqq) = (a[p * n + p], a[q * n + q]);
    turn(a, n, (p, q), (c, s));
    for k in 0..n {
        (a[k * n + p], a[k * n + q]) = (a[p * n + k], a[q * n + k]);
    }
    (a[p * n + p], a[q * n + q]) = (app - t * apq, aqq + t * apq);
    (a[p * n + q], a[q * n + p]) = (0.0, 0.0);
    turn(v, n, (p, q), (c, s));
}

/// Rows `p < q` of `m` turned by the angle with cosine `c` and sine `s`.
fn turn(m: &mut [f64], n: usize, (p, q): (usize, usize), (c, s): (f64, f64)) {
    let (above, below) = m.split_at_mut(q * n);
    for (x, y) in above[p * n..(p + 1) * n].iter_mut().zip(&mut below[..n]) {
        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
    }
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
        for n in [1, 2, 3, 20] {
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
}
