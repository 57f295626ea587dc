//! The result of a run, as `summary.json` has it.
//!
//! Accuracies, errors and calibration errors are in percent. Everything that depends on the machine's speed lies under
//! `timing`; the rest is the same bits for the same configuration.

use paint_data::Dataset;
use serde::Serialize;

use crate::metric::{ECE_BINS, Meter, Tally, peak_memory_mib};

/// What was run, without which a number means nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Protocol {
    /// The dataset's row.
    pub dataset: String,
    /// The scenario's row.
    pub scenario: String,
    /// Images in a batch.
    pub batch_size: usize,
    /// The most images of a visit, if there was a limit.
    pub limit: Option<usize>,
    /// The backbone.
    pub backbone: String,
    /// The fingerprint of the weights, where they come from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
    /// The seed.
    pub seed: u64,
    /// The device.
    pub device: String,
    /// The version of this program.
    pub version: String,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The method's name.
    pub method: String,
    /// What was run.
    pub protocol: Protocol,
    /// The mean over `domains`, each counting the same.
    pub mean_accuracy: Option<f64>,
    /// 100 less that.
    pub mean_error: Option<f64>,
    /// Over all images.
    pub overall: Figures,
    /// Every visit, in order.
    pub domains: Vec<DomainResult>,
    /// Pooled by true domain, where that differs from the visits (mixed, recurring).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_domain: Vec<DomainResult>,
    /// Prompts against true domains, for methods with a prompt memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching: Option<MatchingAccuracy>,
    /// Bins of the calibration errors.
    pub ece_bins: usize,
    /// Hash of the bits of all logits.
    pub logits_hash: String,
    /// Speed and memory.
    pub timing: RunTiming,
}

/// The figures of some images.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Images.
    pub samples: u64,
    /// In percent.
    pub accuracy: Option<f64>,
    /// In percent.
    pub error: Option<f64>,
    /// Expected calibration error in percent.
    pub ece: Option<f64>,
    /// Mean negative log-likelihood in nats.
    pub nll: Option<f64>,
}

/// One visit of a domain, or one domain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DomainResult {
    /// The domain's name, `mixed` for several.
    pub name: String,
    /// 1 to 5 for corruptions.
    pub severity: Option<u8>,
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
    /// Prompts made.
    pub prompts_allocated: u64,
    /// Speed.
    pub timing: Timing,
}

/// How often the memory found the right prompt, in percent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatchingAccuracy {
    /// Batches that used the prompt first made for their domain.
    pub per_batch: f64,
    /// Domains whose most used prompt is that one.
    pub per_domain: f64,
    /// Prompts made over the run.
    pub prompts_allocated: u64,
}

/// Speed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// Mean time in the method, in milliseconds.
    pub ms_per_batch: f64,
    /// Images a second in the method.
    pub images_per_s: f64,
}

/// Speed and memory of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunTiming {
    /// Over all batches.
    #[serde(flatten)]
    pub speed: Timing,
    /// The largest resident memory of the process.
    pub peak_memory_mib: Option<f64>,
}

impl From<&Tally> for Figures {
    fn from(tally: &Tally) -> Self {
        let (accuracy, error) = (tally.accuracy(), tally.error());
        Self { samples: tally.samples, accuracy, error, ece: tally.ece(), nll: tally.nll() }
    }
}

impl From<&Tally> for Timing {
    fn from(tally: &Tally) -> Self {
        Self { ms_per_batch: tally.ms_per_batch(), images_per_s: tally.images_per_s() }
    }
}

/// The name and severity of a domain; `mixed` for several.
pub(crate) fn domain_label(dataset: &dyn Dataset, domain: Option<usize>) -> (String, Option<u8>) {
    domain.map_or_else(
        || ("mixed".into(), None),
        |domain| (dataset.domains()[domain].name.clone(), dataset.domains()[domain].severity),
    )
}

impl DomainResult {
    pub(crate) fn new(dataset: &dyn Dataset, domain: Option<usize>, tally: &Tally) -> Self {
        let (name, severity) = domain_label(dataset, domain);
        let prompts_allocated = tally.prompts_allocated;
        Self { name, severity, figures: tally.into(), prompts_allocated, timing: tally.into() }
    }
}

impl Summary {
    pub(crate) fn new(
        method: &str,
        protocol: &Protocol,
        dataset: &dyn Dataset,
        meter: &Meter,
    ) -> Self {
        let mean_accuracy = meter.mean_accuracy();
        let one_visit_each = meter.visits.len() == meter.domains.len()
            && meter.visits.iter().all(|visit| visit.domain.is_some());
        let pooled =
            |(domain, tally): &(usize, Tally)| DomainResult::new(dataset, Some(*domain), tally);
        Self {
            method: method.into(),
            protocol: protocol.clone(),
            mean_accuracy,
            mean_error: mean_accuracy.map(|accuracy| 100.0 - accuracy),
            overall: (&meter.overall).into(),
            domains: meter
                .visits
                .iter()
                .map(|visit| DomainResult::new(dataset, visit.domain, &visit.tally))
                .collect(),
            by_domain: if one_visit_each {
                Vec::new()
            } else {
                meter.domains.iter().map(pooled).collect()
            },
            matching: meter.prompted.then(|| MatchingAccuracy {
                per_batch: 100.0 * meter.matching.per_batch(),
                per_domain: 100.0 * meter.matching.per_domain(),
                prompts_allocated: meter.overall.prompts_allocated,
            }),
            ece_bins: ECE_BINS,
            logits_hash: format!("{:016x}", meter.logits_hash),
            timing: RunTiming {
                speed: (&meter.overall).into(),
                peak_memory_mib: peak_memory_mib(),
            },
        }
    }
}
