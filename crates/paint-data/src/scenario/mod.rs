//! Scenarios: the order in which the images of a dataset arrive.
//!
//! A scenario is one row of [`SCENARIOS`] and turns a dataset's shape into a [`Stream`]: the batches, sample by
//! sample, with nothing decoded. It is a pure function of the dataset, the [`Config`] and the seed.
//!
//! ```
//! use paint_data::{Dataset, Domain, Image, Info, Sample, dataset::Memory, scenario};
//! use paint_rng::Seed;
//! let info = Info { name: "two", num_classes: 1, class_indices: None, class_names: None };
//! let image = Sample { image: Image::new(1, 1, vec![0; 3])?, label: Some(0) };
//! let data = Memory::new(info, vec![(Domain::clean(), vec![image; 5])])?;
//! let config = scenario::Config { batch_size: 2, ..Default::default() };
//! let stream = config.stream(&data, Seed(0))?;
//! assert_eq!(stream.batches.iter().map(|batch| batch.samples.len()).collect::<Vec<_>>(), [2, 2, 1]);
//! # Ok::<(), paint_data::Error>(())
//! ```

mod config;
mod correlate;
mod interleave;
mod orders;
mod plan;
mod ramp;
mod shift;

pub use config::{Config, Correlation, Mixing, Path, Selection, Visit};

use config::SPECIAL;
use plan::Plan;

use crate::Result;

/// One sample of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleRef {
    /// The domain's place in `Dataset::domains`.
    pub domain: usize,
    /// The image's place in the domain.
    pub index: usize,
}

/// One batch of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPlan {
    /// The samples, in order.
    pub samples: Vec<SampleRef>,
    /// The segment it belongs to: batches of one visit to a domain share it.
    pub segment: usize,
    /// Whether the model is reset to its source before this batch.
    pub reset_before: bool,
}

/// The batches of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The batches, in order.
    pub batches: Vec<BatchPlan>,
}

impl Stream {
    /// One visit of these samples, in batches of which the last may be shorter.
    pub fn of(samples: &[SampleRef], batch_size: usize) -> Self {
        let plan = |samples: &[SampleRef]| BatchPlan {
            samples: samples.to_vec(),
            segment: 0,
            reset_before: false,
        };
        Self { batches: samples.chunks(batch_size.max(1)).map(plan).collect() }
    }

    /// Samples, over all batches.
    pub fn num_samples(&self) -> usize {
        self.batches.iter().map(|batch| batch.samples.len()).sum()
    }
}

/// A row of [`SCENARIOS`].
pub struct ScenarioEntry {
    /// The name in configs and on the command line.
    pub name: &'static str,
    /// One line on the order it makes.
    pub what: &'static str,
    /// The keys of [`Config`] that only some scenarios read, and this one does; any other such key is refused.
    pub keys: &'static [&'static str],
    plan: fn(&Plan<'_>) -> Result<Stream>,
}

impl ScenarioEntry {
    /// Whether the scenario reads a key of [`Config`].
    pub fn reads(&self, key: &str) -> bool {
        self.keys.contains(&key) || !SPECIAL.contains(&key)
    }
}

/// Every scenario.
pub const SCENARIOS: &[ScenarioEntry] = &[
    ScenarioEntry {
        name: "continual",
        what: "one domain after the other, the model never reset",
        keys: &["severity", "order"],
        plan: |plan| plan.visits(plan.sequence()?),
    },
    ScenarioEntry {
        name: "reset_each",
        what: "one domain after the other, the model reset at each new one",
        keys: &["severity", "order"],
        plan: |plan| Ok(plan.visits(plan.sequence()?)?.reset_at_segments()),
    },
    ScenarioEntry {
        name: "gradual",
        what: "each corruption through severities 1-2-3-4-5-4-3-2-1 (or as CoTTA: the first from 5 down)",
        keys: &["order", "path"],
        plan: |plan| plan.visits(plan.gradual_sequence()?),
    },
    ScenarioEntry {
        name: "mixed",
        what: "all domains shuffled together, by sample or by batch",
        keys: &["severity", "mixing"],
        plan: |plan| plan.mixed(),
    },
    ScenarioEntry {
        name: "correlated",
        what: "one domain after the other, neighbours in time of like class (Dirichlet or sorted)",
        keys: &["severity", "order", "correlation", "delta"],
        plan: |plan| plan.correlated(plan.sequence()?),
    },
    ScenarioEntry {
        name: "label_shift",
        what: "one domain after the other, at any time one class far more frequent than the others",
        keys: &["severity", "order", "ratio"],
        plan: |plan| plan.label_shift(),
    },
    ScenarioEntry {
        name: "interleaved",
        what: "visits of random length, domains returning (continual dynamic change: Dirichlet over three slots)",
        keys: &["severity", "order", "delta"],
        plan: |plan| plan.interleaved(),
    },
    ScenarioEntry {
        name: "ramp",
        what: "a slow change from each corruption to the next: one fades out while the other grows",
        keys: &["order"],
        plan: |plan| plan.ramp(),
    },
    ScenarioEntry {
        name: "recurring",
        what: "the whole sequence of domains, several times over, by class in time if asked for",
        keys: &["severity", "order", "rounds", "correlation", "delta"],
        plan: |plan| plan.recurring(),
    },
    ScenarioEntry {
        name: "custom",
        what: "the visits of a list, in its order",
        keys: &["visits"],
        plan: |plan| plan.visits(plan.custom_sequence()?),
    },
];

#[cfg(test)]
mod tests;
