//! Statistics beside weights are part of the model: found, named by their hash, and held to it.

use std::fs;
use std::path::{Path, PathBuf};

use paint_run::config::{Method, Model};
use paint_run::{Deployment, Result, deployment};

fn asset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/vit_tiny_patch4_32_cifar10").join(name)
}

/// The embedded weights as files of a folder, without their statistics.
fn weights(folder: &Path) -> PathBuf {
    for name in ["model.safetensors", "config.json"] {
        fs::copy(asset(name), folder.join(name)).unwrap();
    }
    folder.join("model.safetensors")
}

/// The hash of the statistics that a deployment finds, where `pinned` is the one that it is told to expect.
fn found(weights: &Path, pinned: Option<&str>) -> Result<Option<String>> {
    let pinned = pinned.map(str::to_owned);
    let model = Model { statistics_sha256: pinned, ..Model::new(weights) };
    let opened = Deployment::open(deployment::Config::new(model, Method::source()))?;
    Ok(opened.config.model.statistics_sha256)
}

#[test]
fn statistics_are_found_beside_the_weights_and_held_to_the_hash_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let weights = weights(folder.path());
    let statistics = folder.path().join("model.statistics.safetensors");
    assert_eq!(found(&weights, None).unwrap(), None);

    let pinned = "0".repeat(64);
    let message = found(&weights, Some(&pinned)).unwrap_err().to_string();
    let expected = format!("expected statistics with SHA-256 {pinned}, found no such file");
    assert!(message.contains(&expected), "{message}");
    assert!(message.ends_with(&statistics.display().to_string()), "{message}");

    fs::copy(asset("model.statistics.safetensors"), &statistics).unwrap();
    let sha256 = found(&weights, None).unwrap().unwrap();
    assert_eq!(sha256, paint_nn::checkpoint::sha256(&statistics).unwrap());
    assert_eq!(found(&weights, Some(&sha256)).unwrap().as_ref(), Some(&sha256));
    let message = found(&weights, Some(&pinned)).unwrap_err().to_string();
    assert!(message.contains(&format!("{pinned}, found {sha256}")), "{message}");
    assert!(message.ends_with(&statistics.display().to_string()), "{message}");
}
