//! Datasets, corruptions and streams: pixels and labels on the host.
//!
//! This crate sees neither tensors nor methods. An [`Image`] is 8-bit RGB; a [`Dataset`] gives random access to
//! labelled images of several domains.

pub mod corruption;
pub mod dataset;
mod error;
mod file;
pub mod image;
mod loader;
mod npy;
pub mod scenario;
mod simd;

pub use dataset::{DATASETS, Dataset, DatasetEntry, Domain, Info, Sample};
pub use error::{Error, Result};
pub use file::{write_atomically, write_unflushed};
pub use image::Image;
pub use loader::{Batch, Damaged, Loader, ReadAhead};
pub use paint_files::npy::NpyWriter;
pub use scenario::{BatchPlan, SCENARIOS, SampleRef, ScenarioEntry, Stream};
