//! Files that are damaged or mean harm: each gives an error that names file and cause, without a panic and without
//! holding more memory than a small multiple of the file.

mod archive;
mod containers;
mod damage;
mod index;
mod memory;
mod onnx;
mod peak;
mod pickles;
#[path = "../checkpoint_onnx/protobuf.rs"]
mod protobuf;

use std::path::Path;

use paint_nn::checkpoint::{self, Checkpoint, Error};

#[global_allocator]
static ALLOCATOR: peak::Counting = peak::Counting;

/// Decodes within the memory that a file of this length may take; whatever can be read is brought to timm's names too.
fn decode(bytes: &[u8]) -> Result<Checkpoint, Error> {
    memory::within(bytes.len(), || {
        let checkpoint = checkpoint::decode(bytes, Path::new("some/file.pth"))?;
        // Errors of the second stage do not concern the file; it only has to end well.
        if let Ok((_, weights)) = checkpoint::to_timm(checkpoint.clone()) {
            let _ = checkpoint::Architecture::detect(&weights, &checkpoint::ModelConfig::default());
        }
        Ok(checkpoint)
    })
}

/// Asserts that the file is refused, by name and with this cause.
fn assert_refused(bytes: &[u8], cause: &str) {
    let error = decode(bytes).expect_err(cause).to_string();
    assert!(error.contains(cause), "expected {cause:?} in: {error}");
    assert!(error.contains("some/file.pth"), "{error}");
    assert!(error.len() < 1000, "{error}");
}
