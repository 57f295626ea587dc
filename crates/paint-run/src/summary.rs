//! The result of a run, as `summary.json` has it.
//!
//! Accuracies, errors and calibration errors are in percent. Everything that depends on the machine's speed lies under
//! `timing`; the rest is the same bits for the same configuration.

use paint_data::Dataset;
use paint_methods::Method;
use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::metric::Glance;
use crate::metric::{ECE_BINS, Meter, Tally, peak_memory_mib};

/// What was run, without which a number means nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
    /// The seed.
    pub seed: u64,
    /// The device.
    pub device: String,
    /// The version of this program.
    pub version: String,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The method's name.
    pub method: String,
    /// What was run.
    pub setup: Setup,
    /// The mean over `domains`, each counting the same.
    pub mean_accuracy: Option<f64>,
    /// 100 less that.
    pub mean_error: Option<f64>,
    /// Over all images.
    pub overall: Figures,
    /// Every visit, in order.
    pub domains: Vec<DomainResult>,
    /// Pooled by true domain, where that differs from the visits (mixed, recurring).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_domain: Vec<DomainResult>,
    /// Prompts against true domains, for methods with a prompt memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching: Option<MatchingAccuracy>,
    /// What a probe saw after each visit, if there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub glances: Vec<Glance>,
    /// What the method asked of its network, where that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Bins of the calibration errors.
    pub ece_bins: usize,
    /// Hash of the bits of all logits.
    pub logits_hash: String,
    /// Speed and memory.
    pub timing: RunTiming,
}

/// The figures of some images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatchingAccuracy {
    /// Batches that used the prompt first made for their domain.
    pub per_batch: f64,
    /// Domains whose most used prompt is that one.
    pub per_domain: f64,
    /// Prompts made over the run.
    pub prompts_allocated: u64,
}

/// What a method costs, on any machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Forward passes for each image of the stream.
    pub forwards: f64,
    /// Of them those that are differentiated.
    pub backwards: f64,
    /// Numbers that adaptation may change, at the end of the run.
    pub trainable: u64,
}

impl Cost {
    pub(crate) fn new(method: &dyn Method, meter: &Meter) -> Result<Self> {
        let each = |images: u64| images as f64 / meter.overall.samples.max(1) as f64;
        let (mut trainable, state) = (0, method.save()?);
        for name in method.trainable() {
            let model = method.model().map(paint_nn::backbone::Backbone::params);
            // Pixel prompts and projectors hang beside the network, under their own name in the state.
            let beside = || {
                let (part, rest) = name.split_once('.')?;
                state.tensors.get(&format!("{part}/params/{rest}"))
            };
            let own = model.and_then(|params| Some(&params[params.id(&name).ok()?]));
            trainable += own.or_else(beside).map_or(0, Tensor::elem_count);
        }
        let prompts = state.part("memory").tensors;
        let prompts = prompts.iter().filter(|(name, _)| name.ends_with("/prompt"));
        trainable += prompts.map(|(_, prompt)| prompt.elem_count()).sum::<usize>();
        Ok(Self {
            forwards: each(meter.passes.forward),
            backwards: each(meter.passes.backward),
            trainable: trainable as u64,
        })
    }
}

/// Speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Mean time in the method, in milliseconds.
    pub ms_per_batch: f64,
    /// Images a second in the method.
    pub images_per_s: f64,
}

/// Speed and memory of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunTiming {
    /// Over all batches.
    #[serde(flatten)]
    pub speed: Timing,
    /// The largest resident memory of the process, or of the GPU's own memory.
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
pub fn domain_label(dataset: &dyn Dataset, domain: Option<usize>) -> (String, Option<u8>) {
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
    pub(crate) fn new(method: &str, setup: &Setup, dataset: &dyn Dataset, meter: &Meter) -> Self {
        let mean_accuracy = meter.mean_accuracy();
        let one_visit_each = meter.visits.len() == meter.domains.len()
            && meter.visits.iter().all(|visit| visit.domain.is_some());
        let pooled =
            |(domain, tally): &(usize, Tally)| DomainResult::new(dataset, Some(*domain), tally);
        Self {
            method: method.into(),
            setup: setup.clone(),
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
            glances: meter.glances.clone(),
            cost: None,
            ece_bins: ECE_BINS,
            logits_hash: format!("{:016x}", meter.logits_hash),
            timing: RunTiming {
                speed: (&meter.overall).into(),
                peak_memory_mib: peak_memory_mib(),
            },
        }
    }
}
