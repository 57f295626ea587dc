//! Retrieval by distance, in place of Eq. 2 and 4 (ours): a domain changes features in length as well as in direction,
//! and two severities of one corruption differ in length alone.
//!
//! The batch votes as one, by its mean `q̄`: single samples of two noises or of two blurs cannot be told apart, means
//! can. The mean of `B` queries lies around the mean of its domain with a squared error of `S / B`, `S` the sum over
//! channels of the variance within the batch. A key that has averaged `u` such means with smoothing `γ` (Eq. 11) has
//! the error `v_u S / B`:
//!
//! `v_u = a + (1 − a) (1 − γ) / (1 + γ)`, `a = γ^(2 (u − 1))`.
//!
//! Chance alone gives `d = |q̄ − k_s|² / ((1 + v_u) S / B)` a mean of 1 and a variance of `2 / f`, where
//! `f = (tr Σ)² / tr Σ²` counts the independent channels of the covariance `Σ` within the batch. The key of the least
//! `d` wins. With `z = (d − 1) / √(2 / f)`, `r_s = 1 / (1 + max(z, 0))`: `η = 1/5` allows four standard deviations,
//! whatever the model and the batch size.

use super::queries::Queries;
use super::{Entry, PromptMemory, first_maximum};

/// Fewer queries than this tell nothing of their scatter.
const FEW: usize = 3;

impl PromptMemory {
    /// The votes for each key, the winner and its `r_s`.
    pub(super) fn by_distance(&self, queries: &Queries) -> (Vec<usize>, usize, f32) {
        let error = |entry: &Entry| 1.0 + key_error(entry.uses, f64::from(self.config.gamma));
        let distance = |entry: &Entry| square_distance(queries.mean(), &entry.key) / error(entry);
        let nearness: Vec<f64> = self.entries.iter().map(|entry| -distance(entry)).collect();
        let s = first_maximum(&nearness);
        let b = queries.len();
        let mut votes = vec![0; self.entries.len()];
        votes[s] = b;
        if b < FEW {
            return (votes, s, 1.0);
        }
        let Scatter { sum, channels } = Scatter::new(queries);
        let d = -nearness[s] / (sum / b as f64).max(f64::MIN_POSITIVE);
        let z = (d - 1.0) / (2.0 / channels).sqrt();
        (votes, s, (1.0 / (1.0 + z.max(0.0))) as f32)
    }
}

/// How the queries of a batch lie about their mean.
struct Scatter {
    /// `S = tr Σ`.
    sum: f64,
    /// `f`.
    channels: f64,
}

impl Scatter {
    /// Of three queries or more. `tr Σ²` comes from the products of all pairs, less what so few queries add to it.
    fn new(queries: &Queries) -> Self {
        let n = (queries.len() - 1) as f64;
        let centre = |query: &[f32]| -> Vec<f32> {
            query.iter().zip(queries.mean()).map(|(q, mean)| q - mean).collect()
        };
        let rows: Vec<Vec<f32>> = queries.rows().map(centre).collect();
        let product = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>() / n
        };
        let sum: f64 = rows.iter().map(|row| product(row, row)).sum();
        let pairs = rows.iter().flat_map(|a| rows.iter().map(|b| product(a, b).powi(2)));
        let few = n * n / ((n - 1.0) * (n + 2.0)).max(1.0);
        let square = few * (pairs.sum::<f64>() - sum * sum / n);
        let width = queries.mean().len() as f64;
        // Too few to tell: the widest allowance.
        let channels = if square > 0.0 { (sum * sum / square).clamp(1.0, width) } else { 1.0 };
        Self { sum, channels }
    }
}

/// `v_u`.
fn key_error(uses: u64, gamma: f64) -> f64 {
    let a = gamma.powf(2.0 * uses.saturating_sub(1) as f64);
    a + (1.0 - a) * (1.0 - gamma) / (1.0 + gamma)
}

pub(super) fn square_distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum()
}
