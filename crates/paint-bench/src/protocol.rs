//! A protocol: everything that decides a number, pinned in one document and named by a hash.
//!
//! A [`Protocol`] as shipped may leave open what only the user knows (the weights, a smaller number of images);
//! [`Protocol::resolve`] fills that in from what is really there, data and weights with their fingerprints. The hash is over
//! every key that decides a number: two results with one hash may stand side by side, and for two hashes
//! [`Protocol::differences`] names what differs. Names, descriptions and the methods' settings are not part of it: a
//! method's settings belong to its row of a table, and are told there.

mod built_in;
mod check;
mod fingerprint;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use paint_data::corruption::CORRUPTIONS;
use paint_data::dataset::{Corrupt, Options};
use paint_data::{dataset, scenario};
use paint_methods::METHODS;
use serde::{Deserialize, Serialize};

pub use built_in::{PROTOCOLS, built_in};
pub use check::MOST_SEEDS;
pub use fingerprint::Fingerprints;

use crate::{Error, Result};
use paint_run::config::{Draft, Method, Model, Prediction, Source, flatten};
use paint_run::fingerprint::digest;
use paint_run::probe;

/// The pinned description of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// One line on what it is.
    pub what: String,
    /// The table of the paper its results stand beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// One run for each.
    pub seeds: Vec<u64>,
    /// The figure of a run.
    pub metric: Metric,
    /// Which prediction of a batch counts.
    pub prediction: Prediction,
    /// One run for each, by the names of the embedded orders of corruptions; none for the order of `scenario`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
    /// The images.
    pub data: Data,
    /// The weights by name; what is left open is taken from the weights themselves.
    pub model: Model,
    /// The order of the images, batch size and resets.
    pub scenario: scenario::Config,
    /// What is looked at after each visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<probe::Config>,
    /// Source images for the methods that look at some before they are deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Of images beside the stream; filled in when they are there.
    #[serde(default, skip_serializing_if = "Fingerprints::is_empty")]
    pub fingerprints: Fingerprints,
    /// Where the paper did otherwise than this document, by dotted key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paper: BTreeMap<String, String>,
    /// Settings of methods by name, unless the user gives others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, toml::Table>,
}

/// The figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The mean of the visits' accuracies, each counting the same.
    MeanOfVisits,
    /// The accuracy over all images.
    Overall,
}

impl Metric {
    /// What it is, in a phrase.
    pub fn what(self) -> &'static str {
        match self {
            Self::MeanOfVisits => "The mean over visits, each counting the same",
            Self::Overall => "The accuracy over all images",
        }
    }
}

/// Which images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The row of `DATASETS`.
    pub name: String,
    /// What its opening is told.
    #[serde(default)]
    pub options: Options,
    /// Corruption on the fly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Corrupt>,
    /// Over domains, labels and images; filled in when the data are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// One key in which two protocols differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The dotted key.
    pub key: String,
    /// Its value here.
    pub ours: String,
    /// Its value there.
    pub theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} in place of {}", self.key, self.ours, self.theirs)
    }
}

/// The severity of the published tables.
const DEFAULT_SEVERITY: u8 = 5;
/// Keys that describe and do not decide.
const DESCRIPTION: [&str; 5] = ["name", "what", "reference", "paper", "settings"];

impl Protocol {
    /// The built-in protocol of this name, or the document in the file of this name.
    pub fn find(name: &str) -> Result<Self> {
        if let Some(text) = built_in(name) {
            return Self::parse(text, name);
        }
        let path = Path::new(name);
        if !path.exists() {
            let known: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            return Err(Error::config(format!(
                "protocol: expected a file or one of {known}, got {name:?}"
            )));
        }
        let read = paint_files::read_text(path);
        let text =
            read.map_err(|source| Error::Io { action: "read", source, path: path.to_owned() })?;
        Self::parse(&text, name)
    }

    /// The document in `text`; `origin` names it in messages.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let refuse = |why: String| Error::config(format!("protocol {origin}: {why}"));
        let protocol: Self = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        if protocol.model.tag.is_empty() {
            return Err(refuse("missing key model.tag: what the weights are called".into()));
        }
        if !protocol.model.weights.as_os_str().is_empty() {
            return Err(refuse("model.weights belongs to a run: give --weights".into()));
        }
        Ok(protocol)
    }

    /// The document.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::config(error.to_string()))
    }

    /// Changes one key, as `scenario.severity=3`, or one setting of a method, as `paint.eta=0.5`.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let mut draft = Draft::parse(&self.to_toml()?, &self.name)?;
        if Self::method_of(assignment).is_some() {
            draft.set_assignment(&format!("settings.{}", assignment.trim_start()))?;
        } else {
            draft.set_assignment(assignment)?;
        }
        *self = Self::parse(&draft.text()?, &self.name)?;
        Ok(())
    }

    /// The method that an assignment such as `paint.eta=0.5` is for, if it is for one.
    pub fn method_of(assignment: &str) -> Option<&'static str> {
        let first = assignment.split(['.', '=']).next().unwrap_or_default().trim();
        METHODS.iter().map(|method| method.name).find(|name| *name == first)
    }

    /// Puts the clean source images after every domain as visits of their own, adaptation left on, as EATA looks at
    /// forgetting.
    pub fn interleave_clean(&mut self) {
        let severity = self.scenario.severity.take().or(Some(DEFAULT_SEVERITY));
        let benchmark = CORRUPTIONS.iter().filter(|corruption| !corruption.held_out);
        let names = self.scenario.domains.take();
        let names = names.unwrap_or_else(|| benchmark.map(|c| c.name.to_owned()).collect());
        let clean = || scenario::Visit { domain: probe::CLEAN.into(), severity: None };
        let visits =
            names.into_iter().flat_map(|domain| [scenario::Visit { domain, severity }, clean()]);
        self.scenario.visits = Some(visits.collect());
        self.scenario.name = "custom".into();
    }

    /// The keys that decide, with their values.
    fn leaves(&self) -> Result<BTreeMap<String, String>> {
        let mut table = toml::Table::try_from(self).map_err(|e| Error::config(e.to_string()))?;
        table.retain(|key, _| !DESCRIPTION.contains(&key));
        let mut leaves = Vec::new();
        flatten("", table.into(), &mut leaves);
        leaves.retain(|(key, _)| !PLACES.contains(&key.as_str()));
        Ok(leaves.into_iter().collect())
    }

    /// Twelve hexadecimal digits over every key that decides a number.
    pub fn hash(&self) -> Result<String> {
        Ok(digest(self.leaves()?.iter().map(|(key, value)| format!("{key} = {value}"))))
    }

    /// The keys that decide in which another protocol differs.
    pub fn differences(&self, other: &Self) -> Result<Vec<Difference>> {
        Ok(differences(&self.leaves()?, &other.leaves()?))
    }

    /// The keys in which this protocol departs from the one it was made from; what that one leaves to data and weights is
    /// no departure.
    pub fn departures(&self, shipped: &Self) -> Result<Vec<Difference>> {
        let parts = ["model.", "data.", "fingerprints."];
        let open = |key: &str| parts.iter().any(|part| key.starts_with(part));
        let mut found = self.differences(shipped)?;
        found.retain(|difference| difference.theirs != NOTHING || !open(&difference.key));
        Ok(found)
    }

    /// The keys that decide in which the paper's own run of the table differs from this one.
    pub fn differences_from_paper(&self, shipped: &Self) -> Result<Vec<Difference>> {
        let mut paper = shipped.leaves()?;
        paper.extend(shipped.paper.clone());
        let mut found = differences(&self.leaves()?, &paper);
        found.retain(|difference| !UNKNOWABLE.contains(&difference.key.as_str()));
        Ok(found)
    }

    /// The run that this protocol asks for, of no method yet.
    pub fn config(&self, place: &Place) -> paint_run::Config {
        paint_run::Config {
            seed: 0,
            device: place.device.clone(),
            precision: place.precision.clone(),
            threads: place.threads,
            out: place.out.clone(),
            checkpoint_every: place.checkpoint_every,
            prediction: self.prediction,
            model: Model {
                weights: place.weights.clone(),
                tag: String::new(),
                ..self.model.clone()
            },
            data: dataset::Config {
                name: self.data.name.clone(),
                path: place.data.clone(),
                options: self.data.options.clone(),
                corrupt: self.data.corrupt.clone(),
            },
            scenario: self.scenario.clone(),
            probe: self.probe.clone().map(|mut probe| {
                probe.data.iter_mut().for_each(|data| data.path.clone_from(&place.clean));
                probe
            }),
            source: self
                .source
                .clone()
                .map(|source| Source { path: place.source.clone(), ..source }),
            method: Method::source(),
        }
    }
}

/// Where a protocol is run, and how fast: nothing of it decides a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The folder of the results.
    pub out: std::path::PathBuf,
    /// The dataset's folder or file.
    pub data: std::path::PathBuf,
    /// Clean images for a probe, where the dataset has none.
    pub clean: std::path::PathBuf,
    /// Source images.
    pub source: std::path::PathBuf,
    /// The file of weights.
    pub weights: std::path::PathBuf,
    /// The device.
    pub device: String,
    /// How it computes.
    pub precision: String,
    /// Threads of the processor.
    pub threads: Option<usize>,
    /// Batches between two checkpoints.
    pub checkpoint_every: usize,
}

/// What stands for a key that a document does not have.
const NOTHING: &str = "nothing";
/// Where files lie.
pub(crate) const PLACES: [&str; 4] =
    ["data.path", "model.weights", "probe.data.path", "source.path"];
/// What a paper cannot tell.
const UNKNOWABLE: [&str; 4] =
    ["data.fingerprint", "fingerprints.probe", "fingerprints.source", "model.sha256"];

fn differences(
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let value = |leaves: &BTreeMap<String, String>, key: &str| {
        leaves.get(key).cloned().unwrap_or_else(|| NOTHING.into())
    };
    let mut keys: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let difference = |key: &String| Difference {
        key: key.clone(),
        ours: value(ours, key),
        theirs: value(theirs, key),
    };
    let found = keys.into_iter().map(difference).filter(|found| found.ours != found.theirs);
    found
        .map(|Difference { key, ours, theirs }| {
            let [ours, theirs] = [ours, theirs].map(|value| without_noise(&value));
            Difference { key, ours, theirs }
        })
        .collect()
}

/// A value with its numbers as they were given: single precision leaves 0.485 with the digits of a double.
fn without_noise(value: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut text = String::new();
    let mut rest = value;
    while let Some(start) = rest.find(is_number) {
        let (before, from) = rest.split_at(start);
        let (number, after) = from.split_at(from.find(|c| !is_number(c)).unwrap_or(from.len()));
        text.push_str(before);
        match number.parse::<f32>() {
            Ok(single) if number.len() > 12 && number.contains('.') => {
                text.push_str(&single.to_string());
            }
            _ => text.push_str(number),
        }
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests;
