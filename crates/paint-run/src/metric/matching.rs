//! How often a method with a prompt memory finds the right prompt, counted where the true domains are known.
//!
//! The paper prints one matching accuracy without saying what is counted, so both readings are kept: batches that were
//! predicted with the prompt first made for their domain, and domains whose most used prompt is that one.

use std::collections::BTreeMap;

use paint_methods::PromptUse;
use serde::{Deserialize, Serialize};

/// Counts of prompts used, by true domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matching {
    domains: BTreeMap<usize, Domain>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Domain {
    /// The prompt first made while the domain was running.
    own: Option<usize>,
    /// Batches that used the own prompt.
    matched: u64,
    /// Batches by prompt used.
    used: BTreeMap<usize, u64>,
}

impl Matching {
    /// Counts one batch of `domain`.
    pub fn record(&mut self, domain: usize, prompt: &PromptUse) {
        let domain = self.domains.entry(domain).or_default();
        domain.own = domain.own.or(prompt.made.first().copied());
        domain.matched += u64::from(domain.own == Some(prompt.index));
        *domain.used.entry(prompt.index).or_default() += 1;
    }

    /// The fraction of batches that used the prompt first made for their domain; 0 before any batch.
    pub fn per_batch(&self) -> f64 {
        let batches: u64 = self.domains.values().flat_map(|domain| domain.used.values()).sum();
        let matched: u64 = self.domains.values().map(|domain| domain.matched).sum();
        matched as f64 / batches.max(1) as f64
    }

    /// The fraction of domains whose most used prompt is the one first made for them; 0 before any batch.
    pub fn per_domain(&self) -> f64 {
        let majority = |domain: &&Domain| {
            let most =
                domain.used.iter().max_by_key(|(id, count)| (**count, std::cmp::Reverse(**id)));
            domain.own.is_some() && domain.own == most.map(|(id, _)| *id)
        };
        self.domains.values().filter(majority).count() as f64 / self.domains.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch predicted with prompt `index`, for which `made` were allocated.
    fn used(index: usize, made: &[usize]) -> PromptUse {
        let allocated = made.contains(&index);
        PromptUse { index, allocated, made: made.to_vec(), reliability: None }
    }

    #[test]
    fn matching_is_counted_by_batch_and_by_domain() {
        let mut matching = Matching::default();
        assert_eq!((matching.per_batch(), matching.per_domain()), (0.0, 0.0));
        // Domain 0 makes prompt 0 and keeps it; domain 1 uses a stranger's prompt twice before it makes its own.
        matching.record(0, &used(0, &[0]));
        matching.record(0, &used(0, &[]));
        matching.record(1, &used(0, &[]));
        matching.record(1, &used(0, &[]));
        matching.record(1, &used(1, &[1]));
        assert!((matching.per_batch() - 0.6).abs() < 1e-12);
        assert!((matching.per_domain() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_prompt_made_on_the_way_is_the_domains_own_even_if_another_one_predicted() {
        let mut matching = Matching::default();
        matching.record(0, &used(3, &[7]));
        assert_eq!((matching.per_batch(), matching.per_domain()), (0.0, 0.0));
        matching.record(0, &used(7, &[]));
        matching.record(0, &used(7, &[]));
        assert!((matching.per_batch() - 2.0 / 3.0).abs() < 1e-12);
        assert!((matching.per_domain() - 1.0).abs() < 1e-12);
    }
}
