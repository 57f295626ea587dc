//! How often the memory finds the right prompt, for reports that know the true domains.
//!
//! The paper prints one matching accuracy without saying what is counted, so both readings are kept: batches that
//! used the prompt first made for their domain, and domains whose most used prompt is that one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Selection;

/// Counts of selections by true domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matching {
    domains: BTreeMap<usize, Domain>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Domain {
    /// The prompt first made while the domain was running.
    own: Option<u64>,
    /// Batches that used the own prompt.
    matched: u64,
    /// Batches by prompt used.
    used: BTreeMap<u64, u64>,
}

impl Matching {
    /// Counts one batch of `domain`.
    pub fn record(&mut self, domain: usize, selection: &Selection) {
        let domain = self.domains.entry(domain).or_default();
        if selection.allocated && domain.own.is_none() {
            domain.own = Some(selection.id);
        }
        domain.matched += u64::from(domain.own == Some(selection.id));
        *domain.used.entry(selection.id).or_default() += 1;
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
