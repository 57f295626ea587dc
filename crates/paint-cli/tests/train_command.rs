//! `paint train`, as a user runs it, on the embedded images.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const NETWORK: [&str; 4] = ["--dataset", "embedded", "--backbone", "cifar_resnet20"];

fn paint(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paint")).args(args).output().unwrap()
}

fn train(out: &Path, more: &[&str]) -> Output {
    let out = out.to_str().unwrap();
    let short = ["--limit", "48", "--test-limit", "50", "--batch-size", "16", "--set", "lr=0.02"];
    paint(&[&["train"], &NETWORK[..], &short, &["--out", out], more].concat())
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_training_learns_continues_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("trained");
    let output = train(&out, &["--epochs", "4", "--checkpoint-every", "1", "--json", "--half"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["last"]["test_accuracy"].as_f64().is_some(), "{summary}");
    let log = fs::read_to_string(out.join("log.jsonl")).unwrap();
    let losses: Vec<f64> = (log.lines())
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["loss"].as_f64().unwrap())
        .collect();
    assert_eq!(losses.len(), 4);
    assert!(losses[3] < losses[0], "{losses:?}");

    // Nothing is left to do, and the file says so again.
    let weights = out.join("model.safetensors");
    let before = fs::read(&weights).unwrap();
    let again = train(&out, &["--epochs", "4", "--checkpoint-every", "1", "--half", "--resume"]);
    assert!(stderr(&again).contains("continues after epoch 4"), "{}", stderr(&again));
    assert!(before == fs::read(&weights).unwrap());

    let run = ["run", "--dataset", "embedded", "--method", "source", "--limit", "20", "--json"];
    let (weights, out) = (weights.to_str().unwrap(), folder.path().join("run"));
    let run = paint(&[&run[..], &["--weights", weights, "--out", out.to_str().unwrap()]].concat());
    assert!(run.status.success(), "{}", stderr(&run));
}

#[test]
fn a_transformer_of_another_image_size_runs_at_that_size_and_by_resampling_at_others() {
    let folder = tempfile::tempdir().unwrap();
    let (out, weights) =
        (folder.path().join("trained"), folder.path().join("trained/model.safetensors"));
    let network = ["train", "--dataset", "embedded", "--backbone", "vit_tiny_patch4_32"];
    let short = ["--image-size", "16", "--limit", "8", "--batch-size", "8", "--epochs", "1"];
    let more = ["--test-limit", "1", "--out", out.to_str().unwrap()];
    let long = ["--set", "schedule.warmup_epochs=3"];
    let output = paint(&[&network[..], &short, &more, &long].concat());
    assert!(stderr(&output).contains("epochs, which is 1, found 3"), "{}", stderr(&output));
    // The preset's own warm-up, which is longer, is made as short as the training.
    let output = paint(&[&network[..], &short, &more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let run = |method: &str, more: &[&str]| {
        let run = ["run", "--dataset", "embedded", "--method", method, "--limit", "2"];
        let to = folder.path().join("run");
        let files = ["--weights", weights.to_str().unwrap(), "--out", to.to_str().unwrap()];
        paint(&[&run[..], &files, more].concat())
    };
    // Its statistics lie beside it, where `keel` finds them.
    assert!(out.join("model.statistics.safetensors").exists());
    let output = run("keel", &["--overwrite"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run("source", &["--overwrite"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // Its position embedding is resampled to the larger grid of patches.
    let output = run("source", &["--overwrite", "--set", "model.input_size=[32,32]"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run("source", &["--overwrite", "--set", "model.input_size=[30,30]"]);
    assert!(stderr(&output).contains("multiples of 4"), "{}", stderr(&output));
}

#[test]
fn wrong_requests_are_told_with_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("trained");
    for (more, word) in [
        (&["--set", "augment.padding=3"][..], "padding"),
        (&["--set", "batch_size=0"], "batch_size"),
        (&["--set", "epochs=9223372036854775807"], "epochs"),
        (&["--set", "schedule.warmup_epochs=inf"], "warmup_epochs"),
        (&["--set", "drop_path=0.1"], "drop_path"),
        (&["--preset", "mlp"], "vit_finetune"),
        (&["--precision", "f8"], "bf16"),
    ] {
        let output = train(&out, more);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{more:?}: {}", stderr(&output));
    }
    assert!(!out.exists(), "nothing was written");
}

#[test]
fn images_that_are_trained_on_are_no_test_images() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("trained");
    let trained_on = [&["train"], &NETWORK[..], &["--limit", "20", "--batch-size", "10"]].concat();
    let more = ["--epochs", "1", "--set", "lr=0.02", "--out", out.to_str().unwrap()];
    let output = paint(&[&trained_on[..], &more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("20 of 1000 test images are trained on and left out"), "{told}");
}

#[test]
fn steps_are_timed_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("timed");
    let output = train(&out, &["--steps", "1", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["steps"].as_u64(), report["batch_size"].as_u64()), (Some(1), Some(16)));
    assert!(report["images_per_second"].as_f64().unwrap() > 0.0);
    assert!(!out.exists());
}
