//! How far the Gaussian prediction replaces the classifier's (Eq. 3).

/// Halvings after which the root is known to 1e-12.
const HALVINGS: usize = 40;

/// The `λ` in [0, 1] for which `E_p[ξ] = goal` under `p ∝ s exp(λ ξ)`, given `ln s` and `ξ = ln(q̂/s)`. The expectation
/// grows with `λ`, from `-KL(s ‖ q̂)` to `KL(q̂ ‖ s)`; beyond either, the end is the answer.
pub(super) fn strength(log_s: &[f64], xi: &[f64], goal: f64) -> f64 {
    if goal <= expected(log_s, xi, 0.0) {
        return 0.0;
    }
    if goal >= expected(log_s, xi, 1.0) {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if expected(log_s, xi, middle) < goal {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// `E_p[ξ]` under `p ∝ s exp(λ ξ)`.
fn expected(log_s: &[f64], xi: &[f64], lambda: f64) -> f64 {
    let weights = || log_s.iter().zip(xi).map(|(s, xi)| s + lambda * xi);
    let largest = weights().fold(f64::NEG_INFINITY, f64::max);
    let (mut total, mut sum) = (0.0, 0.0);
    for (weight, xi) in weights().zip(xi) {
        let p = (weight - largest).exp();
        total += p;
        sum += p * xi;
    }
    sum / total
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: [f64; 3] = [0.7, 0.2, 0.1];
    const Q: [f64; 3] = [0.2, 0.5, 0.3];

    fn logs(p: [f64; 3]) -> [f64; 3] {
        p.map(f64::ln)
    }

    fn xi() -> [f64; 3] {
        std::array::from_fn(|k| (Q[k] / S[k]).ln())
    }

    fn divergence(p: [f64; 3], q: [f64; 3]) -> f64 {
        p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum()
    }

    #[test]
    fn the_ends_are_the_divergences_of_both_predictions() {
        assert!((expected(&logs(S), &xi(), 0.0) + divergence(S, Q)).abs() < 1e-12);
        assert!((expected(&logs(S), &xi(), 1.0) - divergence(Q, S)).abs() < 1e-12);
        assert_eq!(strength(&logs(S), &xi(), -divergence(S, Q) - 1e-9), 0.0);
        assert_eq!(strength(&logs(S), &xi(), divergence(Q, S) + 1e-9), 1.0);
    }

    #[test]
    fn between_them_the_root_is_found() {
        for lambda in [0.01, 0.3, 0.5, 0.99] {
            let goal = expected(&logs(S), &xi(), lambda);
            assert!((strength(&logs(S), &xi(), goal) - lambda).abs() < 1e-10, "{lambda}");
        }
    }

    #[test]
    fn a_certain_mean_takes_the_gaussian_prediction_and_an_equal_one_changes_nothing() {
        // With certain means q̄ = q̂, so the goal is KL(q̂ ‖ s): λ = 1.
        let goal = Q.iter().zip(xi()).map(|(q, xi)| q * xi).sum();
        assert!(strength(&logs(S), &xi(), goal) > 1.0 - 1e-6);
        // Where q̂ = s, ξ = 0 and every λ gives the same prediction.
        assert_eq!(strength(&logs(S), &[0.0; 3], 0.0), 0.0);
    }
}
