//! What `paint run` makes of a stream, to be compared with what a server makes of it.

use std::path::Path;

use paint_run::deployment::Config;
use paint_run::{Draft, Earlier, Event, Experiment};

use crate::tiny;

/// A run of the tiny network.
pub(crate) struct Measured {
    /// Of all logits.
    pub(crate) hash: String,
    /// Pixels `[B, 32, 32, 3]`.
    pub(crate) batches: Vec<Vec<u8>>,
    pub(crate) config: Config,
}

/// Runs a method over three conditions in turn, `count` batches in all.
pub(crate) fn measured(method: &str, batch: usize, count: usize, folder: &Path) -> Measured {
    let weights = tiny::weights(folder);
    let text = format!(
        "[model]\nweights = '{}'\n[data]\nname = 'embedded'\ncorrupt = {{}}\n\
         [scenario]\nbatch_size = {batch}\nlimit = {}\ndomains = ['fog', 'gaussian_noise', 'contrast']\n\
         [method]\nname = '{method}'\n",
        weights.display(),
        batch * count / 3
    );
    let mut draft = Draft::parse(&text, "test").unwrap();
    draft.set("out", folder.join("run").to_str().unwrap()).unwrap();
    let experiment = Experiment::open(draft.resolve().unwrap()).unwrap();
    let batches = experiment.stream.batches.iter().map(|batch| {
        let sample = |at: &paint_data::SampleRef| experiment.dataset.sample(at.domain, at.index);
        batch.samples.iter().flat_map(|at| sample(at).unwrap().image.into_pixels()).collect()
    });
    let batches: Vec<Vec<u8>> = batches.collect();
    assert_eq!(batches.len(), count);
    let config = Config::from(&experiment.config);
    let summary = experiment.run(Earlier::Keep, |_: &Event| {}).unwrap();
    Measured { hash: summary.logits_hash, batches, config }
}

/// As `paint run` hashes logits, given as the bytes of their floats, the lowest first.
pub(crate) fn hash(logits: &[u8]) -> String {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", logits.iter().fold(0, fnv))
}
