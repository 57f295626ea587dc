//! From a configuration to batches.

use std::borrow::Cow;

use paint_rng::Seed;

use super::{BatchPlan, Config, Mixing, Path, SampleRef, Selection, Stream, correlate, orders};
use crate::{Dataset, Error, Result, corruption::CORRUPTIONS};

/// The rise and fall of a corruption.
const UP_AND_DOWN: [u8; 9] = [1, 2, 3, 4, 5, 4, 3, 2, 1];
/// Where CoTTA's first corruption starts in it.
const TOP: usize = 4;
const DEFAULT_SEVERITY: u8 = 5;
const DEFAULT_ROUNDS: usize = 10;

/// What every scenario is made from.
pub(super) struct Plan<'a> {
    pub(super) dataset: &'a dyn Dataset,
    pub(super) config: &'a Config,
    pub(super) seed: Seed,
}

impl Plan<'_> {
    /// The names to visit, in order.
    pub(super) fn names(&self) -> Result<Vec<Cow<'_, str>>> {
        let names = self.config.domains.as_ref().map_or_else(
            || self.default_names(),
            |names| names.iter().map(|name| name.as_str().into()).collect(),
        );
        let Some(order) = &self.config.order else { return Ok(names) };
        let order = orders::by_name(order)?;
        if let Some(stranger) = names.iter().find(|name| !order.contains(&name.as_ref())) {
            return Err(Error::Argument {
                what: "domains of an embedded order",
                expected: "the fifteen corruptions or some of them".into(),
                got: stranger.clone().into_owned(),
            });
        }
        Ok(order
            .into_iter()
            .filter(|name| names.iter().any(|known| known == name))
            .map(Cow::from)
            .collect())
    }

    /// The benchmark's corruptions if the dataset has any, otherwise all its names.
    fn default_names(&self) -> Vec<Cow<'_, str>> {
        let domains = self.dataset.domains();
        let is_benchmark = |name: &str| CORRUPTIONS.iter().any(|c| !c.held_out && c.name == name);
        let has_corruptions = domains.iter().any(|domain| is_benchmark(&domain.name));
        let mut names: Vec<Cow<'_, str>> = Vec::new();
        for domain in domains.iter().filter(|domain| !has_corruptions || is_benchmark(&domain.name))
        {
            if !names.iter().any(|name| *name == domain.name) {
                names.push(domain.name.as_str().into());
            }
        }
        names
    }

    /// The domain of this name and severity; a domain without severities is found whatever severity is asked.
    fn find(&self, name: &str, severity: Option<u8>) -> Result<usize> {
        let matches = |domain: &crate::Domain| {
            domain.name == name
                && (domain.severity.is_none() || severity.is_none() || domain.severity == severity)
        };
        self.dataset.domains().iter().position(matches).ok_or_else(|| {
            let domains = self.dataset.domains().iter();
            let severities: Vec<String> = domains
                .clone()
                .filter(|domain| domain.name == name)
                .filter_map(|domain| Some(domain.severity?.to_string()))
                .collect();
            if let Some(severity) = severity.filter(|_| !severities.is_empty()) {
                return Error::Argument {
                    what: "severity",
                    expected: format!("one of {} for {name}", severities.join(", ")),
                    got: severity.to_string(),
                };
            }
            let mut known: Vec<&str> = domains.map(|domain| domain.name.as_str()).collect();
            known.dedup();
            let expected = format!("one of {}", known.join(", "));
            Error::Argument { what: "domain", expected, got: name.to_owned() }
        })
    }

    /// Every name at the severity.
    pub(super) fn sequence(&self) -> Result<Vec<usize>> {
        let severity = self.config.severity.unwrap_or(DEFAULT_SEVERITY);
        self.names()?.iter().map(|name| self.find(name, Some(severity))).collect()
    }

    /// Every name through the severities.
    pub(super) fn gradual_sequence(&self) -> Result<Vec<usize>> {
        let start = match self.config.path.unwrap_or_default() {
            Path::UpAndDown => 0,
            Path::Cotta => TOP,
        };
        let names = self.names()?;
        let steps = names.iter().enumerate().flat_map(|(i, name)| {
            UP_AND_DOWN[if i == 0 { start } else { 0 }..]
                .iter()
                .map(move |&severity| (name, severity))
        });
        steps.map(|(name, severity)| self.find_severe(name, severity)).collect()
    }

    /// As `find`, but the domain must have severities.
    pub(super) fn find_severe(&self, name: &str, severity: u8) -> Result<usize> {
        let domain = self.find(name, Some(severity))?;
        if self.dataset.domains()[domain].severity.is_none() {
            return Err(Error::Argument {
                what: "domain of a gradual scenario",
                expected: "a corruption with severities".into(),
                got: name.into(),
            });
        }
        Ok(domain)
    }

    /// The visits of the list.
    pub(super) fn custom_sequence(&self) -> Result<Vec<usize>> {
        let visits = self.config.visits.as_deref().unwrap_or_default();
        visits.iter().map(|visit| self.find(&visit.domain, visit.severity)).collect()
    }

    /// How often the sequence is run.
    pub(super) fn rounds(&self) -> usize {
        self.config.rounds.unwrap_or(DEFAULT_ROUNDS)
    }

    /// The images of one visit, in order.
    pub(super) fn samples(&self, domain: usize, segment: usize) -> Vec<SampleRef> {
        let len = self.dataset.len(domain);
        let keep = self.config.limit.unwrap_or(len).min(len);
        let order = |of: &[u64]| self.seed.derive("scenario/selection", of).permutation(len);
        let mut indices: Vec<usize> = match self.config.selection {
            Selection::First => (0..keep).collect(),
            Selection::Fresh => {
                let visits = (len / keep.max(1)).max(1);
                let (pass, visit) = (segment / visits, segment % visits);
                order(&[len as u64, pass as u64])[visit * keep..][..keep].to_vec()
            }
            Selection::Random => {
                let mut order = order(&[len as u64]);
                order.truncate(keep);
                order.sort_unstable();
                order
            }
        };
        if self.config.shuffle {
            let order = self.seed.derive("scenario/shuffle", &[segment as u64]).permutation(keep);
            indices = order.into_iter().map(|at| indices[at]).collect();
        }
        indices.into_iter().map(|index| SampleRef { domain, index }).collect()
    }

    pub(super) fn batches(
        &self,
        samples: &[SampleRef],
        segment: usize,
    ) -> impl Iterator<Item = BatchPlan> {
        let batch = move |samples: &[SampleRef]| BatchPlan {
            samples: samples.to_vec(),
            segment,
            reset_before: false,
        };
        samples.chunks(self.config.batch_size).map(batch)
    }

    /// One visit after the other.
    pub(super) fn visits(&self, sequence: Vec<usize>) -> Result<Stream> {
        self.reordered(sequence, |samples, _| Ok(samples))
    }

    /// All domains shuffled together.
    pub(super) fn mixed(&self) -> Result<Stream> {
        let visits = self.sequence()?;
        let visits =
            visits.into_iter().enumerate().map(|(segment, domain)| self.samples(domain, segment));
        let mut rng = self.seed.derive("scenario/mixed", &[]);
        let batches = match self.config.mixing.unwrap_or_default() {
            Mixing::Samples => {
                let samples: Vec<SampleRef> = visits.flatten().collect();
                let order = rng.permutation(samples.len());
                let samples: Vec<SampleRef> = order.into_iter().map(|at| samples[at]).collect();
                self.batches(&samples, 0).collect()
            }
            Mixing::Batches => {
                let batches: Vec<BatchPlan> = visits
                    .flat_map(|samples| self.batches(&samples, 0).collect::<Vec<_>>())
                    .collect();
                let order = rng.permutation(batches.len());
                let place =
                    |(segment, at): (usize, usize)| BatchPlan { segment, ..batches[at].clone() };
                order.into_iter().enumerate().map(place).collect()
            }
        };
        self.non_empty(batches)
    }

    /// One visit after the other, each ordered by class in time.
    pub(super) fn correlated(&self, sequence: Vec<usize>) -> Result<Stream> {
        self.reordered(sequence, |samples, segment| {
            let mut rng = self.seed.derive("scenario/correlated", &[segment as u64]);
            correlate::reorder(self.dataset, self.config, samples, &mut rng)
        })
    }

    /// The whole sequence again and again, each visit ordered by class in time if that is asked for.
    pub(super) fn recurring(&self) -> Result<Stream> {
        let sequence = self.sequence()?.repeat(self.rounds());
        match (self.config.correlation, self.config.delta) {
            (None, None) => self.visits(sequence),
            _ => self.correlated(sequence),
        }
    }

    /// One visit after the other, the images of each in the order that `reorder` gives them.
    pub(super) fn reordered(
        &self,
        sequence: Vec<usize>,
        reorder: impl Fn(Vec<SampleRef>, usize) -> Result<Vec<SampleRef>>,
    ) -> Result<Stream> {
        let mut batches = Vec::new();
        for (segment, domain) in sequence.into_iter().enumerate() {
            let samples = reorder(self.samples(domain, segment), segment)?;
            batches.extend(self.batches(&samples, segment));
        }
        self.non_empty(batches)
    }

    pub(super) fn non_empty(&self, batches: Vec<BatchPlan>) -> Result<Stream> {
        if batches.is_empty() {
            let expected = "at least one image to visit".into();
            return Err(Error::Argument {
                what: "scenario",
                expected,
                got: format!("none in {}", self.config.name),
            });
        }
        Ok(Stream { batches })
    }
}

impl Stream {
    /// Resets the model before the first batch of every segment except the first, where it is at its source already.
    pub(super) fn reset_at_segments(mut self) -> Self {
        let mut segment = self.batches.first().map_or(0, |batch| batch.segment);
        for batch in &mut self.batches {
            batch.reset_before = batch.segment != segment;
            segment = batch.segment;
        }
        self
    }
}
