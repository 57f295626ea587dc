//! The document: every key of a protocol, and how it is read and changed.

use std::collections::BTreeMap;

use paint_data::corruption::CORRUPTIONS;
use paint_data::dataset::{Corrupt, Options};
use paint_data::{dataset, scenario};
use paint_methods::{guard, stream};
use paint_nn::backbone::{self, Family};
use paint_run::config::{Draft, Method, Model, Prediction, Source, method_of};
use paint_run::metric::Rate;
use paint_run::probe;
use paint_run::{Error, Result};
use paint_settings::read;
use serde::{Deserialize, Serialize};

use super::place::Place;

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
    /// Images as they come: single ones, short batches, runs of one class. Default: each batch as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<stream::Config>,
    /// What notices harm without labels and undoes it. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<guard::Config>,
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
    pub fn what(self, rate: Rate) -> String {
        match self {
            Self::MeanOfVisits => "The mean over visits, each counting the same".into(),
            Self::Overall => format!("The {} over all images", rate.name()),
        }
    }
}

/// Which images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The dataset's name.
    pub name: String,
    /// How it is opened.
    #[serde(default)]
    pub options: Options,
    /// Corruption on the fly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Corrupt>,
    /// Over domains, labels and images; filled in when the data are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// Names of images that a stream does not show but a number depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fingerprints {
    /// The source images that are drawn, one for each seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<String>,
    /// The images that are looked at after each visit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
}

impl Fingerprints {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The severity of the published tables.
const DEFAULT_SEVERITY: u8 = 5;

impl Protocol {
    /// What its network is made of, where that has a name.
    pub fn family(&self) -> Option<Family> {
        let name = self.model.backbone.as_deref()?;
        backbone::find(name).ok().map(|entry| entry.family)
    }

    /// The document in `text`; `origin` names it in messages.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let refuse = |why: String| Error::config(format!("protocol {origin}: {why}"));
        let table = text.parse().map_err(|error: toml::de::Error| refuse(error.to_string()))?;
        let protocol: Self = read(table).map_err(|misread| refuse(misread.to_string()))?;
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
        if method_of(assignment).is_some() {
            draft.set_assignment(&format!("settings.{}", assignment.trim_start()))?;
        } else {
            draft.set_assignment(assignment)?;
        }
        *self = Self::parse(&draft.text()?, &self.name)?;
        Ok(())
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
            stream: self.stream,
            guard: self.guard,
            method: Method::source(),
        }
    }
}
