//! Weights out of ONNX graphs: logits against PyTorch's (`fixtures/make_onnx.py`), names of layers, files beside them.

#![expect(clippy::unwrap_used, reason = "a golden file that cannot be read is a failed test")]

mod files;
mod golden;
mod layers;
mod protobuf;

use std::path::PathBuf;

use paint_nn::checkpoint::{self, Checkpoint};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/onnx").join(name)
}

fn read(name: &str) -> Checkpoint {
    checkpoint::read(fixture(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(name: &str) -> String {
    let error = checkpoint::read(fixture(name)).expect_err(name).to_string();
    assert!(error.contains(name) && error.len() < 1000, "{error}");
    error
}
