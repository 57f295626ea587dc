//! Where a protocol is run.

use std::path::PathBuf;

/// Where a protocol is run, and how fast: nothing of it decides a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The folder of the results.
    pub out: PathBuf,
    /// The dataset's folder or file.
    pub data: PathBuf,
    /// Clean images for a probe, where the dataset has none.
    pub clean: PathBuf,
    /// Source images.
    pub source: PathBuf,
    /// The file of weights.
    pub weights: PathBuf,
    /// The device.
    pub device: String,
    /// The precision of a GPU.
    pub precision: String,
    /// CPU threads.
    pub threads: Option<usize>,
    /// Batches between two checkpoints.
    pub checkpoint_every: usize,
}

/// The keys of a configuration that say where files are.
pub(crate) const PLACES: [&str; 4] =
    ["data.path", "model.weights", "probe.data.path", "source.path"];
