//! What a run is told: one strict TOML document.
//!
//! Unknown keys are refused at every level. A [`Draft`] is what was typed (a file, flags, `--set key.path=value`); a
//! [`Config`] is what it means, and is written beside every result.

mod draft;
mod setting;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paint_data::{dataset, scenario};
use paint_methods::settings::Settings;
use paint_methods::{guard, stream};
use paint_nn::checkpoint::{Activation, CropMode, GlobalPool};
use serde::{Deserialize, Serialize};

pub use draft::Draft;
pub use setting::method_of;

use crate::{Error, Result, probe};

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Every random draw derives from it. Default: 0.
    #[serde(default)]
    pub seed: u64,
    /// Where the model lives. Default: `cpu`.
    #[serde(default = "default_device")]
    pub device: String,
    /// How the device computes: `f32`, `tf32`, `bf16` or `fp8` on a GPU, or `int8` on a CPU. Default: `f32`.
    #[serde(default = "default_precision", skip_serializing_if = "is_default_precision")]
    pub precision: String,
    /// Threads of the processor. Default: all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// The folder of the results.
    pub out: PathBuf,
    /// Batches between two checkpoints; 0 leaves only the one at the end. Default: 20.
    #[serde(default = "default_checkpoint_every")]
    pub checkpoint_every: usize,
    /// Which prediction of a batch counts. Default: `own`.
    #[serde(default)]
    pub prediction: Prediction,
    /// The weights.
    pub model: Model,
    /// The images.
    pub data: dataset::Config,
    /// Their order.
    #[serde(default)]
    pub scenario: scenario::Config,
    /// What is looked at after each visit, beside the stream itself. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<probe::Config>,
    /// What adapts.
    pub method: Method,
    /// Images of the source domain; a method that does not look at any leaves them unread. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Images as they come: single ones, short batches, runs of one class. Default: each batch as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<stream::Config>,
    /// What notices harm without labels and undoes it. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<guard::Config>,
}

/// Images of the source domain, for the methods that look at them before they are deployed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The row of `DATASETS`; one with a single domain.
    pub name: String,
    /// The folder or file; none for the embedded images.
    #[serde(default)]
    pub path: PathBuf,
    /// What the opening can be told, such as `split = "train"`. Default: each option's own.
    #[serde(default)]
    pub options: dataset::Options,
    /// How many images are drawn. Default: 2000, or all where there are fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<usize>,
    /// The seed of the draw. Default: that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// Weights, and what the files beside them leave open: the same table in the configuration of a run, which says where
/// the file is, and in a protocol, which says what the weights are called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Only in a run: the file.
    #[serde(skip_serializing_if = "is_empty")]
    pub weights: PathBuf,
    /// Only in a protocol: what people call the weights.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// SHA-256 of the file. Default: not checked; the resolved copy has it, so that a result names its weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The same of the source statistics beside the file (`paint stats`), if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistics_sha256: Option<String>,
    /// The row of `BACKBONES`. Default: as `config.json` beside the weights says, or as their shapes show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backbone: Option<String>,
    /// The mean of each channel. Default: from the files beside the weights, as for the keys below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<[f32; 3]>,
    /// The standard deviation of each channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std: Option<[f32; 3]>,
    /// Height and width of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_size: Option<[usize; 2]>,
    /// The part of the resized image that the crop keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop_pct: Option<f32>,
    /// The filter of the resize: `bilinear` or `bicubic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpolation: Option<String>,
    /// How an image of another shape is brought to the input: `center` or `squash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop_mode: Option<CropMode>,
    /// Heads of a transformer, where they are not one for 64 channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_heads: Option<usize>,
    /// The epsilon of a transformer's layer norms, where the files beside the weights do not say it. Default: the
    /// publisher's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer_norm_eps: Option<f32>,
    /// The activation of a transformer's MLPs: `gelu`, `gelu_tanh`, `quick_gelu` or `silu`. Default: the publisher's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// What a transformer's classifier reads: `token`, `avg`, `avg_raw`, `token_avg` or `map`. Default: as the
    /// arrays show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_pool: Option<GlobalPool>,
    /// A file with a matrix of text features, one row per class: the zero-shot classifier of an image tower of CLIP or
    /// SigLIP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_features: Option<PathBuf>,
    /// Whether images that have the model's size already are resized and cropped too. Default: `if_needed`.
    pub resize: Resize,
}

impl Method {
    /// A method with its default settings.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), settings: toml::Table::new() }
    }

    /// A method with typed settings.
    pub fn typed<S: Settings>(settings: &S) -> Result<Self> {
        Ok(Self { name: S::METHOD.into(), settings: settings.table()? })
    }

    /// The frozen source model, which needs nothing.
    pub fn source() -> Self {
        Self::named("source")
    }
}

impl Model {
    /// These weights, with nothing said about them.
    pub fn new(weights: impl Into<PathBuf>) -> Self {
        Self { weights: weights.into(), ..Self::default() }
    }
}

impl<P: Into<PathBuf>> From<P> for Model {
    fn from(weights: P) -> Self {
        Self::new(weights)
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// Which images are resized and cropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resize {
    /// Those of another size than the model's.
    #[default]
    IfNeeded,
    /// All: the field enlarges ImageNet-C's stored 224x224 to 256 and crops 224 again.
    Always,
}

/// Which prediction of a batch counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prediction {
    /// The one each method's paper counts: before the update for some, after it for others.
    #[default]
    Own,
    /// With the state before the batch is adapted to.
    Before,
    /// With the state after.
    After,
}

/// A method and its own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// The row of `METHODS`.
    pub name: String,
    /// Every other key of the table; the method itself refuses those it does not know.
    #[serde(flatten)]
    pub settings: toml::Table,
}

pub(crate) fn default_device() -> String {
    "cpu".into()
}

pub(crate) fn default_precision() -> String {
    "f32".into()
}

/// True for the precision that a configuration need not name.
pub fn is_default_precision(name: &str) -> bool {
    name == "f32"
}

fn default_checkpoint_every() -> usize {
    20
}

/// Keys that change where and how fast a run goes, and not what it gives.
pub const INERT: [&str; 3] = ["out", "threads", "checkpoint_every"];

impl Config {
    /// The same on the CPU: where images and sizes are all that is asked for, the machine need not have the device.
    #[must_use]
    pub fn on_cpu(self) -> Self {
        Self { device: default_device(), precision: default_precision(), ..self }
    }

    /// The document that gives this run again.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::config(error.to_string()))
    }

    /// Every value under its dotted key.
    pub fn leaves(&self) -> Result<BTreeMap<String, String>> {
        leaves(&self.to_toml()?)
    }

    /// The first key, dotted, in which another run's document differs in a way that changes results, with both values
    /// (this run's first).
    pub fn difference(&self, other: &str) -> Result<Option<(String, String, String)>> {
        let (mut ours, mut theirs) = (self.leaves()?, leaves(other)?);
        for leaves in [&mut ours, &mut theirs] {
            leaves.retain(|key, _| !INERT.contains(&key.as_str()));
        }
        Ok(difference(&ours, &theirs))
    }
}

/// The first key in which two documents differ, with both values; what makes other keys differ too comes first.
pub fn difference(
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
) -> Option<(String, String, String)> {
    let value = |leaves: &BTreeMap<String, String>, key: &str| {
        leaves.get(key).map_or_else(|| "nothing".into(), String::clone)
    };
    let first = ["method.name", "method.preset", "model.sha256"].into_iter();
    let all = first.chain(ours.keys().chain(theirs.keys()).map(String::as_str));
    let key = all.into_iter().find(|key| value(ours, key) != value(theirs, key))?;
    Some((key.to_owned(), value(ours, key), value(theirs, key)))
}

/// Every value of a document under its dotted key.
pub(crate) fn leaves(text: &str) -> Result<BTreeMap<String, String>> {
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| Error::config(error.message()))?;
    let mut leaves = Vec::new();
    flatten("", table.into(), &mut leaves);
    Ok(leaves.into_iter().collect())
}

/// Appends every value of a table under its dotted key.
pub fn flatten(prefix: &str, value: toml::Value, leaves: &mut Vec<(String, String)>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let path = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
                flatten(&path, value, leaves);
            }
        }
        leaf => leaves.push((prefix.into(), leaf.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const TEXT: &str = r#"
out = "out"
[model]
weights = "vit.safetensors"
[data]
name = "cifar10-c"
path = "CIFAR-10-C"
[scenario]
limit = 200
[method]
name = "paint"
eta = 0.5
[source]
name = "cifar10"
path = "cifar-10-batches-bin"
images = 500
"#;

    fn read(text: &str) -> Result<Config> {
        Draft::parse(text, "run.toml")?.resolve()
    }

    #[test]
    fn defaults_fill_what_is_left_out_and_the_resolved_copy_gives_the_same_run() {
        let config = read(TEXT).unwrap();
        assert_eq!((config.seed, config.device.as_str(), config.checkpoint_every), (0, "cpu", 20));
        assert_eq!((config.scenario.batch_size, config.scenario.limit), (50, Some(200)));
        assert_eq!(config.method.settings["eta"].as_float(), Some(0.5));
        assert!(!config.method.settings.contains_key("name"));
        assert_eq!(read(&config.to_toml().unwrap()).unwrap(), config);
    }

    #[test]
    fn an_unknown_key_is_refused_at_every_level() {
        for (section, known) in [
            ("out = \"out\"", "checkpoint_every"),
            ("[model]", "weights"),
            ("[data]", "path"),
            ("[scenario]", "batch_size"),
            ("[source]\nname = \"cifar10\"", "images"),
        ] {
            let text = TEXT.replace(section, &format!("{section}\nwieghts = 1"));
            let error = read(&text).unwrap_err();
            assert!(error.is_usage());
            let message = error.to_string();
            assert!(message.contains("`wieghts`") && message.contains(known), "{message}");
        }
    }

    #[test]
    fn a_difference_is_named_unless_it_cannot_change_results() {
        let config = read(TEXT).unwrap();
        let moved = TEXT.replace("\"out\"", "\"elsewhere\"\nthreads = 1");
        assert_eq!(config.difference(&read(&moved).unwrap().to_toml().unwrap()).unwrap(), None);
        let other = read(&TEXT.replace("0.5", "0.25")).unwrap().to_toml().unwrap();
        let expected = ("method.eta".into(), "0.5".into(), "0.25".into());
        assert_eq!(config.difference(&other).unwrap(), Some(expected));
        let without = read(&TEXT.replace("eta = 0.5", "")).unwrap().to_toml().unwrap();
        let expected = ("method.eta".into(), "0.5".into(), "nothing".into());
        assert_eq!(config.difference(&without).unwrap(), Some(expected));
        // What makes the others differ comes first.
        let tent = TEXT.replace("\"paint\"\neta = 0.5", "\"tent\"\nalr = 0.5");
        let (key, ..) = config.difference(&tent).unwrap().unwrap();
        assert_eq!(key, "method.name");
    }
}
