//! Keeps an image classifier accurate, without labels, while the world it looks at drifts.
//!
//! A pre-trained network meets unlabelled images whose conditions change without notice: fog, a dirty lens, a new
//! camera. An [`Adapter`] adapts it batch by batch, with PAINT, keel or one of the methods they are compared with.
//!
//! # First steps
//!
//! The name `embedded` stands for a small ViT inside this library, so nothing is downloaded here. Put the path of
//! your own weights in its place: safetensors, PyTorch, npz or ONNX, with the names of timm or torchvision. Their
//! preprocessing is read from the files beside them.
//!
//! ```
//! use paint_tta::{Adapter, corrupt, embedded_images};
//!
//! # fn main() -> paint_tta::Result<()> {
//! // Ten test images of CIFAR-10, in fog.
//! let clean = embedded_images(10)?;
//! let foggy: Vec<_> =
//!     clean.iter().map(|image| corrupt(image, "fog", 5, 0)).collect::<Result<_, _>>()?;
//!
//! let mut adapter = Adapter::builder("embedded").method("tent").set("lr", 1e-3).open()?;
//! let batch = adapter.step(&foggy)?;
//! for prediction in &batch.predictions[..3] {
//!     let class = adapter.class_name(prediction.class).unwrap_or("?");
//!     println!("{class} {:.2}", prediction.confidence);
//! }
//! # assert_eq!(batch.predictions.len(), 10);
//! # Ok(())
//! # }
//! ```
//!
//! Methods compare the images of a batch with each other: give [`Adapter::step`] a few dozen, of several classes.
//! Where images come one by one, predict each with [`Adapter::predict`] and adapt to groups of them, as
//! `examples/camera.rs` does.
//!
//! # Where to look
//!
//! | you want to | look at |
//! |---|---|
//! | adapt a model to images | [`Adapter`], [`Builder`], `examples/adapt_folder.rs` |
//! | change what the files beside the weights say | [`Model`] |
//! | choose a method and its settings | [`Builder::method`], [`settings`] |
//! | keep what was learnt, or forget it | [`Adapter::save`], [`Adapter::load`], [`Adapter::reset`] |
//! | undo harm, take single images | [`Builder::guard`], [`Builder::stream`] |
//! | take the adapted weights elsewhere | [`Adapter::weights`], [`write_weights`] |
//! | be told what happens | [`Adapter::observe`], [`Event`] |
//! | corrupt images as the benchmarks do | [`corrupt`], [`corruptions`] |
//! | measure one method on a stream with labels | [`run`] |
//! | compare methods under a protocol | [`mod@bench`] |
//! | write a method of your own | [`method`], `examples/custom_method.rs` |
//!
//! # Errors
//!
//! An [`Error`] has a [kind](Error::kind) for programs and a message for people, which names the file and says what
//! was expected and what was found. A step that fails leaves the model as it was.

mod adapter;
pub mod bench;
mod builder;
mod error;
mod event;
mod images;
pub mod method;
pub mod run;
pub mod settings;

pub use adapter::Adapter;
pub use builder::Builder;
pub use error::{Error, ErrorKind, Result};
pub use event::{Batch, Event};
pub use images::{corrupt, corrupt_all, corruptions, embedded_images};
#[doc(inline)]
pub use paint_data::Image;
#[doc(inline)]
pub use paint_methods::{PromptUse, Registry, guard, stream};
#[doc(inline)]
pub use paint_run::config::{Model, Source};
#[doc(inline)]
pub use paint_run::event::Intervention;
#[doc(inline)]
pub use paint_run::session::{Guarded, Prediction, Weight, write_weights};
pub use toml;
