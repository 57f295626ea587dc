//! Domains that come and go: continual dynamic change, as in DPCore.
//!
//! Each domain draws shares `q ~ Dirichlet(delta, .., delta)` over three slots of time, and its batches, in order,
//! fill the slots by these shares. A slot visits its domains in a random order. Visits are of any length, and most
//! domains return.

use super::{BatchPlan, Stream, correlate, plan::Plan};
use crate::Result;

const SLOTS: usize = 3;
const DEFAULT_DELTA: f64 = 1.0;

impl Plan<'_> {
    /// Visits of random length; each domain is met up to three times.
    pub(super) fn interleaved(&self) -> Result<Stream> {
        let gamma = correlate::gamma(self.config.delta.unwrap_or(DEFAULT_DELTA))?;
        let mut rng = self.seed.derive("scenario/interleaved", &[]);
        let mut slots: Vec<Vec<Vec<BatchPlan>>> = vec![Vec::new(); SLOTS];
        for (visit, domain) in self.sequence()?.into_iter().enumerate() {
            let batches: Vec<BatchPlan> = self.batches(&self.samples(domain, visit), 0).collect();
            let shares = correlate::dirichlet(&gamma, SLOTS, &mut rng);
            for (slot, part) in slots.iter_mut().zip(correlate::split(&batches, &shares)) {
                slot.push(part.to_vec());
            }
        }
        let mut visits = Vec::new();
        for slot in slots {
            let order = rng.permutation(slot.len());
            visits.extend(order.into_iter().map(|at| slot[at].clone()));
        }
        let visits = visits.into_iter().filter(|visit| !visit.is_empty()).enumerate();
        let numbered = visits.flat_map(|(segment, visit)| {
            visit.into_iter().map(move |batch| BatchPlan { segment, ..batch })
        });
        self.non_empty(numbered.collect())
    }
}
