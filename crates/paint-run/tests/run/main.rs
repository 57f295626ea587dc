//! The runner and its checkpoints, with a small method that depends on its whole history.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod experiment;
mod resume;
mod runner;
mod session;
mod single_images;
mod statistics;
mod support;
