//! The runner and its checkpoints, with a small method that depends on its whole history.

mod resume;
mod runner;
mod support;
