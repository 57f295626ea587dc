//! Configured runs: streams through methods, metrics, resumable state. And [`Session`]s, which adapt to unlabelled
//! images and measure nothing.
//!
//! A [`Config`] says everything; a [`Runner`] feeds batches to a method and is, beside [`probe`], the only place where
//! labels meet predictions; [`Observer`]s are told what happens; [`checkpoint`] lets a run stop after any batch and
//! continue with the same bits. [`Experiment`] opens what a configuration names and does all of that.
//!
//! ```no_run
//! use paint_run::{Draft, Earlier, Event, Experiment};
//! # fn main() -> paint_run::Result<()> {
//! let mut draft = Draft::parse("out = 'out'\n[data]\nname = 'cifar10-c'\npath = 'CIFAR-10-C'", "example")?;
//! draft.set("model.weights", "vit.safetensors")?;
//! draft.set_assignment("method.name=paint")?;
//! let experiment = Experiment::open(draft.resolve()?)?;
//! let summary = experiment.run(Earlier::Resume, |event: &Event| {
//!     if let Event::BatchDone(batch) = event {
//!         println!("{} {:?}", batch.domain, batch.running_accuracy);
//!     }
//! })?;
//! println!("{:?}", summary.mean_accuracy);
//! # Ok(())
//! # }
//! ```

pub mod checkpoint;
mod classes;
mod clean_image;
pub mod config;
pub mod deployment;
mod error;
pub mod escape;
pub mod event;
pub mod event_log;
pub mod experiment;
pub mod fingerprint;
pub mod fit;
pub mod metric;
pub mod model;
pub mod probe;
pub mod runner;
pub mod session;
pub mod source;
pub mod summary;
pub mod table;
pub mod upload;

pub use paint_nn::backbone::watch;

pub use clean_image::CleanImage;
pub use config::{Config, Draft};
pub use deployment::Deployment;
pub use error::{Error, Result};
pub use event::{Event, Observer};
pub use experiment::{Earlier, Experiment};
pub use runner::{Runner, Task};
pub use session::Session;
pub use summary::{Setup, Summary};
