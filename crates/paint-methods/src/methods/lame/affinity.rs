//! LAME's affinities of images, and the predictions that agree with them. A batch is small: the host computes both, in
//! double precision.

use super::Affinity;

/// The most rounds of step 3.
const ROUNDS: usize = 100;
/// The relative change of `E` at which it ends.
const CONVERGED: f64 = 1e-8;
/// What is added to a probability before its logarithm.
const EPSILON: f64 = 1e-10;

/// `A`, `[B, B]`, of features `[B, D]` of length 1.
pub(super) fn matrix(h: &[f64], b: usize, affinity: Affinity, neighbours: usize) -> Vec<f64> {
    let width = h.len() / b;
    let row = |i: usize| &h[i * width..(i + 1) * width];
    let pairs = (0..b).flat_map(|i| (0..b).map(move |j| (i, j)));
    if affinity == Affinity::Linear {
        let dot = |(i, j)| row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum();
        return pairs.map(dot).collect();
    }
    let apart = |(i, j)| -> f64 { row(i).iter().zip(row(j)).map(|(a, b)| (a - b).powi(2)).sum() };
    let distances: Vec<f64> = pairs.map(apart).map(f64::sqrt).collect();
    if affinity == Affinity::Knn {
        return distances
            .chunks(b)
            .enumerate()
            .flat_map(|(i, row)| nearest(row, i, neighbours))
            .collect();
    }
    let kth = |row: &[f64]| {
        let mut sorted = row.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[neighbours.clamp(1, b) - 1]
    };
    let sigma = distances.chunks(b).map(kth).sum::<f64>() / b as f64;
    let spread = (2.0 * sigma * sigma).max(f64::MIN_POSITIVE);
    distances.iter().map(|d| (-d * d / spread).exp()).collect()
}

/// 1 for the nearest others of image `own`.
fn nearest(distances: &[f64], own: usize, neighbours: usize) -> Vec<f64> {
    let mut others: Vec<usize> = (0..distances.len()).filter(|&j| j != own).collect();
    others.sort_by(|&a, &b| distances[a].total_cmp(&distances[b]));
    let mut row = vec![0.0; distances.len()];
    others.iter().take(neighbours).for_each(|&j| row[j] = 1.0);
    row
}

/// `ln p + A Y`, `[B, C]`, of probabilities `[B, C]`, and the rounds that it took (step 3).
pub(super) fn agreement(p: &[f64], a: &[f64], c: usize) -> (Vec<f64>, usize) {
    let b = p.len() / c;
    let log_p: Vec<f64> = p.iter().map(|p| (p + EPSILON).ln()).collect();
    let (mut y, mut logits, mut energy) = (softmax(&log_p, c), log_p.clone(), f64::INFINITY);
    for round in 0..ROUNDS {
        let mut drawn = vec![0.0; p.len()]; // A Y
        for (i, j) in (0..b).flat_map(|i| (0..b).map(move |j| (i, j))) {
            let weight = a[i * b + j];
            if weight != 0.0 {
                let rows = drawn[i * c..(i + 1) * c].iter_mut().zip(&y[j * c..(j + 1) * c]);
                rows.for_each(|(drawn, y)| *drawn += weight * y);
            }
        }
        logits = log_p.iter().zip(&drawn).map(|(l, d)| l + d).collect();
        y = softmax(&logits, c);
        let of = |i: usize| y[i] * (y[i].max(1e-20).ln() - logits[i]);
        let next: f64 = (0..y.len()).map(of).sum();
        if round > 1 && (next - energy).abs() <= CONVERGED * energy.abs() {
            return (logits, round + 1);
        }
        energy = next;
    }
    (logits, ROUNDS)
}

fn softmax(logits: &[f64], c: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let exp: Vec<f64> = row.iter().map(|z| (z - most).exp()).collect();
        let sum: f64 = exp.iter().sum();
        exp.into_iter().map(move |e| e / sum).collect::<Vec<_>>()
    };
    logits.chunks(c).flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two images at an angle of 60 degrees and one opposite to the first, two classes.
    const FEATURES: [f64; 6] = [1.0, 0.0, 0.5, 0.866_025_403_784_438_6, -1.0, 0.0];

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near, "{found:?} {expected:?}");
    }

    #[test]
    fn affinities_of_three_images_by_hand() {
        let knn = matrix(&FEATURES, 3, Affinity::Knn, 1);
        close(&knn, &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let linear = matrix(&FEATURES, 3, Affinity::Linear, 1);
        close(&linear[..3], &[1.0, 0.5, -1.0]);
        // Distances 1 from the first to the second, √3 from the second to the third: σ is their mean.
        let rbf = matrix(&FEATURES, 3, Affinity::Rbf, 2);
        let sigma = (1.0 + 1.0 + 3_f64.sqrt()) / 3.0;
        close(&rbf[..2], &[1.0, (-1.0 / (2.0 * sigma * sigma)).exp()]);
        close(&matrix(&[1.0, 0.0], 1, Affinity::Rbf, 5), &[1.0]);
    }

    #[test]
    fn without_affinity_the_source_stays() {
        let p = [0.7, 0.3, 0.2, 0.8];
        let (logits, rounds) = agreement(&p, &[0.0; 4], 2);
        close(&softmax(&logits, 2), &[0.7, 0.3, 0.2, 0.8]);
        assert_eq!(rounds, 3, "the first two do not count as converged");
    }

    /// Two images that are each other's only neighbour: `Y` solves `Y_1 = σ(logit p_1 + 2 Y_2 − 1)` and the same the
    /// other way round, with `Y` the probability of the first class and `σ` the logistic function.
    #[test]
    fn two_neighbours_agree_as_the_equation_of_their_balance_says() {
        let p = [0.9, 0.1, 0.45, 0.55];
        let (logits, _) = agreement(&p, &[0.0, 1.0, 1.0, 0.0], 2);
        let y = softmax(&logits, 2);
        let logit = |p: f64| (p / (1.0 - p)).ln();
        let balance =
            |own: f64, other: f64| 1.0 / (1.0 + (-(logit(own) + 2.0 * other - 1.0)).exp());
        assert!((y[0] - balance(0.9, y[2])).abs() < 1e-4, "{y:?}");
        assert!((y[2] - balance(0.45, y[0])).abs() < 1e-4, "{y:?}");
        assert!(y[2] > 0.5, "the unsure image takes the class of its sure neighbour");
    }
}
