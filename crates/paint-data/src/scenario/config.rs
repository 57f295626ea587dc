//! The options of a scenario.

use paint_rng::Seed;
use serde::{Deserialize, Serialize};

use super::{SCENARIOS, Stream, plan::Plan};
use crate::{Dataset, Error, Result};

/// A scenario and its settings. A key marked "only" is refused in a scenario that does not read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The row of `SCENARIOS`. Default: `continual`.
    pub name: String,
    /// Batch size; the last batch of a visit may be smaller. Default: 50, as in PAINT.
    pub batch_size: usize,
    /// Names of the domains to visit. Default: the fifteen corruptions where the dataset has corruptions, otherwise all.
    pub domains: Option<Vec<String>>,
    /// Use at most this many images per visit. Default: all.
    pub limit: Option<usize>,
    /// Which images a limit keeps. Default: `first`.
    pub selection: Selection,
    /// Shuffle the images inside a visit. Default: no, the order of the dataset.
    pub shuffle: bool,
    /// Only for scenarios with a single severity: which one. Default: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<u8>,
    /// Only where domains follow each other: the name of an embedded order of the corruptions (`paint_0` to `paint_9`,
    /// `cotta_order_0`). Default: the dataset's order, or that of `domains`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Only `gradual`: the severities of a corruption. Default: `up_and_down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// Only `mixed`: what is shuffled. Default: `samples`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixing: Option<Mixing>,
    /// Only `correlated` and `recurring`: how. Default: `dirichlet`; `recurring` has none unless this or `delta` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlation>,
    /// Only where a Dirichlet distribution is drawn from: its concentration. Small means that a class comes all at once, or
    /// a domain in one piece. Default: 0.1 for classes, 1 for the domains of `interleaved`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// Only `label_shift`: how much more likely the frequent class is than any other. Default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Only `recurring`: how many times the sequence is run. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
    /// Only `custom`: the visits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visits: Option<Vec<Visit>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "continual".into(),
            batch_size: 50,
            domains: None,
            limit: None,
            selection: Selection::First,
            shuffle: false,
            severity: None,
            order: None,
            path: None,
            mixing: None,
            correlation: None,
            delta: None,
            ratio: None,
            rounds: None,
            visits: None,
        }
    }
}

/// Which images a limit keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// The first ones.
    #[default]
    First,
    /// A seeded sample, in the order of the dataset; domains of one length keep the same images.
    Random,
}

/// The severities a corruption goes through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// 1-2-3-4-5-4-3-2-1 for every corruption, as PAINT's code does.
    #[default]
    UpAndDown,
    /// The same, but the first corruption starts at 5 and goes down, as CoTTA's code does.
    Cotta,
}

/// What a mixed stream shuffles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mixing {
    /// Samples: a batch holds several domains.
    #[default]
    Samples,
    /// Batches: a batch holds one domain, and each is a visit of its own.
    Batches,
}

/// How images of one class come to be close together in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correlation {
    /// Each class is spread over time slots by a draw from a Dirichlet distribution.
    #[default]
    Dirichlet,
    /// Sorted by class.
    Sorted,
}

/// One visit of a custom list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visit {
    /// The domain's name.
    pub domain: String,
    /// Its severity, for corruptions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<u8>,
}

impl Config {
    /// The stream of this scenario over `dataset`.
    pub fn stream(&self, dataset: &dyn Dataset, seed: Seed) -> Result<Stream> {
        let Some(entry) = SCENARIOS.iter().find(|entry| entry.name == self.name) else {
            let known: Vec<&str> = SCENARIOS.iter().map(|entry| entry.name).collect();
            let expected = format!("one of {}", known.join(", "));
            return Err(Error::Argument { what: "scenario", expected, got: self.name.clone() });
        };
        for (key, given) in self.special_keys() {
            if given && !entry.keys.contains(&key) {
                let expected = format!("only {:?} beside the common keys", entry.keys);
                return Err(Error::Argument {
                    what: "scenario keys",
                    expected,
                    got: format!("{}: {key}", entry.name),
                });
            }
        }
        if self.batch_size == 0 {
            return Err(Error::Argument {
                what: "batch_size",
                expected: "1 or more".into(),
                got: "0".into(),
            });
        }
        (entry.plan)(&Plan { dataset, config: self, seed })
    }

    /// The keys that only some scenarios read, and whether they are given.
    fn special_keys(&self) -> [(&'static str, bool); 9] {
        [
            ("severity", self.severity.is_some()),
            ("order", self.order.is_some()),
            ("path", self.path.is_some()),
            ("mixing", self.mixing.is_some()),
            ("correlation", self.correlation.is_some()),
            ("delta", self.delta.is_some()),
            ("ratio", self.ratio.is_some()),
            ("rounds", self.rounds.is_some()),
            ("visits", self.visits.is_some()),
        ]
    }
}
