//! The options of a scenario.

use paint_rng::Seed;
use paint_settings::{above, at_least, between, check_fields, choice, settings};

use super::{SCENARIOS, Stream, plan::Plan};
use crate::{Dataset, Error, Result};

settings! {
    /// A scenario and its settings. A key that only some scenarios read is refused in the others.
    #[derive(Debug, Clone, PartialEq)]
    #[serde(default)]
    pub struct Config {
        /// Row of `SCENARIOS`
        pub name: String,
        /// Batch size; the last batch of a visit may be shorter
        #[within(at_least(1.0))]
        pub batch_size: usize,
        /// Names of the domains to visit; the fifteen corruptions where the dataset has corruptions, otherwise all
        pub domains: Option<Vec<String>>,
        /// Images per visit, at most; all unless given
        pub limit: Option<usize>,
        /// Which images a limit keeps
        pub selection: Selection,
        /// Whether the images of a visit are shuffled
        pub shuffle: bool,
        /// Severity of the corruptions; 5 unless given
        #[within(between(1.0, 5.0))]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub severity: Option<u8>,
        /// Embedded order of the corruptions, `paint_0` to `paint_9` or `cotta_order_0`; that of the dataset or of
        /// `domains` unless given
        #[serde(skip_serializing_if = "Option::is_none")]
        pub order: Option<String>,
        /// Severities that a corruption goes through; `up_and_down` unless given
        #[serde(skip_serializing_if = "Option::is_none")]
        pub path: Option<Path>,
        /// What is shuffled; `samples` unless given
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mixing: Option<Mixing>,
        /// How images of one class come to be close together in time; `dirichlet` unless given, but `recurring` has
        /// none unless this or `delta` is given
        #[serde(skip_serializing_if = "Option::is_none")]
        pub correlation: Option<Correlation>,
        /// Concentration of the Dirichlet distribution; small means that a class comes all at once, or a domain in one
        /// piece; 0.1 for classes and 1 for the domains of `interleaved` unless given
        #[within(above(0.0))]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub delta: Option<f64>,
        /// How much more likely the frequent class is than any other; 100 unless given
        #[within(at_least(1.0))]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ratio: Option<f64>,
        /// How many times the sequence is run; 10 unless given
        #[within(at_least(1.0))]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rounds: Option<usize>,
        /// Visits, each a domain and for corruptions its severity
        #[serde(skip_serializing_if = "Option::is_none")]
        pub visits: Option<Vec<Visit>>,
    }
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

choice! {
    /// Which images a limit keeps.
    #[derive(Default)]
    pub enum Selection {
        /// The first ones
        #[default]
        First = "first",
        /// A seeded sample, in the order of the dataset; domains of one length keep the same images
        Random = "random",
        /// The next ones of a seeded order at each visit; when too few are left, a new order
        Fresh = "fresh",
    }
}

choice! {
    /// The severities a corruption goes through.
    #[derive(Default)]
    pub enum Path {
        /// 1-2-3-4-5-4-3-2-1 for every corruption, as in PAINT's code
        #[default]
        UpAndDown = "up_and_down",
        /// The same, but the first corruption starts at 5 and goes down, as in CoTTA's code
        Cotta = "cotta",
    }
}

choice! {
    /// What a mixed stream shuffles.
    #[derive(Default)]
    pub enum Mixing {
        /// Samples: a batch holds several domains
        #[default]
        Samples = "samples",
        /// Batches: a batch holds one domain, and each is a visit of its own
        Batches = "batches",
    }
}

choice! {
    /// How images of one class come to be close together in time.
    #[derive(Default)]
    pub enum Correlation {
        /// Each class is spread over time slots by a draw from a Dirichlet distribution
        #[default]
        Dirichlet = "dirichlet",
        /// Sorted by class
        Sorted = "sorted",
    }
}

settings! {
    /// One visit of a custom list.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Visit {
        /// Name of the domain
        pub domain: String,
        /// Severity, for corruptions
        #[within(between(1.0, 5.0))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub severity: Option<u8>,
    }
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
        check_fields(self)?;
        (entry.plan)(&Plan { dataset, config: self, seed })
    }

    /// The keys that only some scenarios read, and whether they are given.
    fn special_keys(&self) -> [(&'static str, bool); SPECIAL.len()] {
        let given = [
            self.severity.is_some(),
            self.order.is_some(),
            self.path.is_some(),
            self.mixing.is_some(),
            self.correlation.is_some(),
            self.delta.is_some(),
            self.ratio.is_some(),
            self.rounds.is_some(),
            self.visits.is_some(),
        ];
        std::array::from_fn(|at| (SPECIAL[at], given[at]))
    }
}

/// The keys that only some scenarios read.
pub(super) const SPECIAL: [&str; 9] =
    ["severity", "order", "path", "mixing", "correlation", "delta", "ratio", "rounds", "visits"];
