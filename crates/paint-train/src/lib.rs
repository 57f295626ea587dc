//! Training of source models: the networks that adaptation begins with.
//!
//! Images stay on the device; a step draws on the host what its batch looks like and leaves everything else there.
//!
//! ```
//! use paint_data::dataset::{Options, Split, entry};
//! use paint_nn::backbone::find;
//! use paint_rng::Seed;
//! use paint_tensor::Device;
//! use paint_train::{LabelledImages, Start, Trainer, preset};
//!
//! # fn main() -> paint_train::Result<()> {
//! let device = Device::cpu();
//! let train = Options { split: Split::Train, ..Options::default() };
//! let data = (entry("embedded")?.open)("".as_ref(), &train)?;
//! let data = LabelledImages::read(&*data, Some(8), [32, 32], &device)?;
//! let start = Start { weights: None, image_size: None, num_classes: 10, seed: Seed(0) };
//! let (model, _) = start.build(find("cifar_resnet20")?, &device)?;
//! let recipe = (preset("cnn")?.recipe)();
//! assert_eq!(Trainer::new(model, recipe)?.steps_done(), 0);
//! # assert_eq!(data.labels.len(), 8);
//! # Ok(())
//! # }
//! ```

pub mod augment;
mod batch;
mod checkpoint;
mod drop_path;
mod error;
mod evaluate;
mod event;
mod export;
mod identity;
mod images;
mod meter;
pub mod mixing;
mod optimizer;
mod recipe;
pub mod schedule;
mod session;
mod start;
mod trainer;

pub use batch::Batch;
pub use error::{Error, Result};
pub use evaluate::accuracy;
pub use event::{Epoch, Event, Observer, Progress};
pub use export::{Numbers, WEIGHTS};
pub use identity::Identity;
pub use images::LabelledImages;
pub use recipe::{Decay, Optimizer, PRESETS, Preset, Recipe, preset, preset_for};
pub use session::{Earlier, Files, Session, Summary, Throughput};
pub use start::Start;
pub use trainer::{Outcome, Trainer};
