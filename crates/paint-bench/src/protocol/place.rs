//! Where a protocol is run.

use std::path::PathBuf;

use paint_methods::Registry;

/// Where a protocol is run, by which program, and how fast: nothing of it decides a number.
#[derive(Debug, Clone)]
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
    /// The precision of products.
    pub precision: String,
    /// CPU threads.
    pub threads: Option<usize>,
    /// Batches between two checkpoints.
    pub checkpoint_every: usize,
    /// The methods that names are looked up among.
    pub methods: Registry,
}

impl Place {
    /// These weights on the CPU, the methods of this project, images that are inside the program; a run is saved at
    /// its end only.
    pub fn new(out: impl Into<PathBuf>, weights: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            data: PathBuf::new(),
            clean: PathBuf::new(),
            source: PathBuf::new(),
            weights: weights.into(),
            device: "cpu".into(),
            precision: "f32".into(),
            threads: None,
            checkpoint_every: 0,
            methods: Registry::default(),
        }
    }
}

/// The keys of a configuration that say where files are.
pub(crate) const PLACES: [&str; 5] =
    ["data.path", "model.text_features", "model.weights", "probe.data.path", "source.path"];
