//! `paint bench`, `paint report` and `paint cam`, as a user runs them, on the embedded model and images.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod grid;
mod report;
mod settings;
mod shards;
mod support;
mod targets;
mod tune;
