//! Whether two rows of a table differ by more than chance: the paired t test over seeds and orders.
//!
//! With `d_i` the difference of the two rows in pair `i`, `t = d̄ / (s_d / √n)` has `n − 1` degrees of freedom, and the
//! two-sided `p = I_x(ν/2, 1/2)` at `x = ν/(ν + t²)`, with the regularised incomplete beta function.

use serde::{Deserialize, Serialize};

/// The fewest pairs that are tested. Two always give a spread, and with one degree of freedom any p-value can come of
/// it.
pub const MIN_PAIRS: usize = 3;

/// One row against another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// The row.
    pub label: String,
    /// The row it is compared with.
    pub against: String,
    /// Pairs: runs of the same seed and order.
    pub pairs: usize,
    /// Mean difference in points of accuracy.
    pub difference: f64,
    /// Half the width of the 95 % confidence interval of that; none with fewer than [`MIN_PAIRS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// The two-sided probability of such a difference by chance; none with fewer than [`MIN_PAIRS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
}

/// The test on differences.
pub fn paired(label: &str, against: &str, differences: &[f64]) -> Paired {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n.max(1.0);
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (variance / n).sqrt();
    let test = (differences.len() >= MIN_PAIRS).then(|| {
        // Without any spread the test has nothing to go by: certain, or nothing at all.
        let p = match (error > 0.0, mean == 0.0) {
            (true, _) => two_sided(mean / error, n - 1.0),
            (false, true) => 1.0,
            (false, false) => 0.0,
        };
        (error * quantile(0.05, n - 1.0), p)
    });
    Paired {
        label: label.into(),
        against: against.into(),
        pairs: differences.len(),
        difference: mean,
        margin: test.map(|(margin, _)| margin),
        p: test.map(|(_, p)| p),
    }
}

/// The probability that `|T| ≥ |t|` with `nu` degrees of freedom.
fn two_sided(t: f64, nu: f64) -> f64 {
    incomplete_beta(nu / (nu + t * t), nu / 2.0, 0.5)
}

/// The `t` with `two_sided(t) = p`, by bisection.
fn quantile(p: f64, nu: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, nu) > p { low = middle } else { high = middle }
    }
    low
}

/// `I_x(a, b)` by Lentz's continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() - ln_beta(a, b)).exp() / a;
    let (mut c, mut d, mut value) = (1.0, 0.0, 1.0);
    for i in 0..400 {
        let m = f64::from(i / 2);
        let numerator = match (i, i % 2) {
            (0, _) => 1.0,
            (_, 0) => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 / nonzero(1.0 + numerator * d, TINY);
        c = nonzero(1.0 + numerator / c, TINY);
        value *= c * d;
        if (1.0 - c * d).abs() < 1e-14 && i > 0 {
            break;
        }
    }
    front * (value - 1.0)
}

fn nonzero(x: f64, tiny: f64) -> f64 {
    if x.abs() < tiny { tiny } else { x }
}

/// `ln B(a, b)`, by Stirling's series after a shift.
fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 12.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (p, nu, t) in
            [(0.05, 1.0, 12.706), (0.05, 4.0, 2.776), (0.05, 9.0, 2.262), (0.01, 9.0, 3.250)]
        {
            assert!((quantile(p, nu) - t).abs() < 1e-3, "{p} {nu}: {}", quantile(p, nu));
        }
        // One degree of freedom is Cauchy's distribution: P(|T| > 1) = 1/2.
        assert!((two_sided(1.0, 1.0) - 0.5).abs() < 1e-10);
    }

    #[test]
    fn a_constant_gain_is_certain_and_noise_is_not() {
        let noise = paired("a", "b", &[1.0, -1.0, 0.5, -0.5]);
        assert!((noise.p.unwrap() - 1.0).abs() < 1e-9 && noise.difference == 0.0, "{noise:?}");
        // By hand: mean 2, s = 1, n = 4, t = 4, p(3 degrees) = 0.02800.
        let d = 1.5_f64.sqrt() / 2.0_f64.sqrt();
        let gain = paired("a", "b", &[2.0 - d, 2.0 + d, 2.0 - d, 2.0 + d]);
        assert!((gain.p.unwrap() - 0.028).abs() < 1e-3, "{gain:?}");
        assert!((gain.margin.unwrap() - 3.182 * 0.5).abs() < 1e-3, "{gain:?}");
        assert_eq!(paired("a", "b", &[1.0, 1.0, 1.0]).p, Some(0.0));
    }

    #[test]
    fn two_pairs_have_a_difference_and_no_test() {
        for differences in [&[1.0][..], &[1.0, 1.0], &[1.0, 1.1]] {
            let Paired { pairs, difference, margin, p, .. } = paired("a", "b", differences);
            assert!(pairs == differences.len() && difference >= 1.0);
            assert_eq!((margin, p), (None, None));
        }
    }
}
