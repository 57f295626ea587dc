//! Configured runs: streams through methods, metrics, resumable state, reports.
//!
//! A [`Config`] says everything; a [`Runner`] feeds batches to a method and is the only place where labels meet
//! predictions; [`Observer`]s are told what happens; [`checkpoint`] lets a run stop after any batch and continue with the
//! same bits.

pub mod checkpoint;
pub mod config;
mod error;
pub mod event;
pub mod experiment;
pub mod metric;
pub mod model;
pub mod report;
pub mod runner;
pub mod summary;

pub use config::{Config, Draft};
pub use error::{Error, Result};
pub use event::{Event, Observer};
pub use experiment::{Earlier, Experiment};
pub use runner::{Runner, Task};
pub use summary::{Protocol, Summary};
