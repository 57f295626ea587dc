//! Continual test-time adaptation methods.
//!
//! A [`Method`] sees unlabelled images and nothing else. The only labels in this crate are those of [`SourceData`],
//! which a method may use before it is deployed, and no method knows which dataset it runs on. Each method is one
//! file of `methods/` and one row of [`METHODS`]; a [`Registry`] adds rows of other crates.
//!
//! Words: a *batch* is what one [`Method::step`] sees; the *source* is the model before adaptation, and the data it was
//! trained on; a *preset* is a named set of default settings; to *probe* is to predict without changing anything, to
//! measure forgetting; a *view* is an augmented copy of a batch; what *trains* are the parameters that adaptation may
//! change.
//!
//! ```
//! use paint_methods::{BuildArgs, by_name};
//! use paint_nn::backbone::{BuildOptions, Weights, find};
//! use paint_rng::Seed;
//! use paint_tensor::{Device, Tensor};
//! # fn main() -> paint_methods::Result<()> {
//! let device = Device::cpu();
//! let weights = Weights::Random(Seed(0));
//! let model = find("vit_tiny_patch4_32")?.build(weights, &BuildOptions::new(&device))?;
//! let args = BuildArgs::new(model.as_ref(), Seed(0));
//! let mut method = by_name("source")?.build(&args, &toml::Table::new())?;
//! let step = method.step(&Tensor::full([2, 3, 32, 32], 0.5, &device)?)?;
//! assert_eq!(step.logits.shape(), [2, 10]);
//! # Ok(())
//! # }
//! ```

mod attached;
mod balanced_memory;
mod build_args;
mod contrast;
mod deployed;
pub mod draws;
mod eigen;
mod entropy_filter;
mod entry;
mod error;
mod fisher;
pub mod guard;
mod head;
pub mod images;
mod learner;
mod method;
mod methods;
mod preset;
mod preset_values;
mod prototypes;
mod registry;
mod report;
pub mod settings;
mod source_data;
mod statistics;
pub mod stream;
mod teacher;
#[cfg(test)]
mod tiny_vit;
pub mod views;
mod wrap;

pub use build_args::BuildArgs;
pub use entry::{Build, MethodEntry, Networks, PRESET, Presets, Resolve, SourceNeed};
pub use error::{Error, Result};
use method::without;
pub use method::{Method, Predictor, PromptUse, State, Step};
pub use methods::{METHODS, configs, paint};
pub use preset_values::PresetValue;
pub use registry::{Registry, by_name};
pub use source_data::SourceData;
pub use statistics::{SourceStatistics, StatisticsFrom};
pub use wrap::Wrap;
