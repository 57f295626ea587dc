//! Retrieval by distance, in place of Eq. 2 and 4 (ours): a domain changes features in length as well as in direction,
//! and two severities of one corruption differ in length alone.
//!
//! Each sample votes for the nearest key. The mean `q̄` of `B` queries lies around the mean of its domain with a squared
//! error of `S / B`, `S` the sum over channels of the variance within the batch. A key that has averaged `u` such means
//! with smoothing `γ` (Eq. 11) has the error `v_u S / B`:
//!
//! `v_u = a + (1 − a) (1 − γ) / (1 + γ)`, `a = γ^(2 (u − 1))`.
//!
//! `r_s = (1 + v_u) (S / B) / |q̄ − k_s|²` is then about 1 for a batch of the key's own domain, whatever the model and
//! the batch size, and smaller for any other.

use super::queries::Queries;
use super::{PromptMemory, first_maximum};

impl PromptMemory {
    /// The votes for each key, the winner and its `r_s`.
    pub(super) fn by_distance(&self, queries: &Queries) -> (Vec<usize>, usize, f32) {
        let mut votes = vec![0; self.entries.len()];
        for query in queries.rows() {
            let nearness: Vec<f64> =
                self.entries.iter().map(|entry| -square_distance(query, &entry.key)).collect();
            votes[first_maximum(&nearness)] += 1;
        }
        let s = first_maximum(&votes);
        let b = queries.len() as f64;
        if b < 2.0 {
            return (votes, s, 1.0);
        }
        let squares = queries.rows().map(|query| square_distance(query, queries.mean()));
        let error = squares.sum::<f64>() / (b - 1.0) / b;
        let entry = &self.entries[s];
        let distance = square_distance(queries.mean(), &entry.key).max(f64::MIN_POSITIVE);
        let r = (1.0 + key_error(entry.uses, f64::from(self.config.gamma))) * error / distance;
        (votes, s, r as f32)
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
