//! `paint run`, `paint adapt` and `paint demo`, as a user runs them, on the embedded model and images.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod adapt;
mod classes;
mod deployed;
#[cfg(unix)]
mod signals;
mod state;
mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use paint_nn::state::file::{self, Kind};
use serde_json::Value;
use support::{
    image, mosaic, paint, stderr, text, trained_weights, weights, write_arrays, write_folder,
};

/// PAINT over three corruptions of 16 images in batches of 4: twelve batches, a checkpoint after each. The embedded
/// model: one that costs nothing is done before it can be killed.
fn run_command(data: &str, out: &Path) -> Command {
    let mut command = paint();
    command.args([
        "run",
        "--dataset",
        "npy",
        "--corrupt",
        "--method",
        "paint",
        "--batch-size",
        "4",
    ]);
    command.args(["--weights", &trained_weights(), "--data", data, "--out", &text(out)]);
    command.args(["--set", "scenario.domains=[\"fog\",\"contrast\",\"shot_noise\"]"]);
    command.args(["--set", "method.preset=paper_adam", "--set", "checkpoint_every=1", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn without_timing(out: &Path) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("timing");
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let text = fs::read_to_string(out.join("summary.json")).unwrap();
    let mut value = serde_json::from_str(&text).unwrap();
    strip(&mut value);
    value
}

/// The arrays and counters of a finished run.
fn state(out: &Path) -> (BTreeMap<String, Vec<u32>>, BTreeMap<String, u64>) {
    let path = out.join("state.safetensors");
    let state = file::read(&path, Kind::Run, &paint_tensor::Device::cpu()).unwrap().state;
    let bits = |data: Vec<f32>| data.into_iter().map(f32::to_bits).collect();
    let tensors = state.tensors.into_iter();
    (tensors.map(|(name, x)| (name, bits(x.to_vec().unwrap()))).collect(), state.counters)
}

fn batches_logged(out: &Path) -> usize {
    fs::read_to_string(out.join("events.jsonl"))
        .map_or(0, |log| log.matches("\"event\":\"batch_done\"").count())
}

/// Starts or continues a run and kills it once `batches` are in its log.
fn run_and_kill(data: &str, out: &Path, batches: usize) {
    let mut child = run_command(data, out).arg("--resume").spawn().unwrap();
    while batches_logged(out) < batches && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_run_killed_again_and_again_or_stopped_by_a_full_disk_ends_with_the_same_bits() {
    let temp = tempfile::tempdir().unwrap();
    let data = write_arrays(temp.path(), 16);
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let output = run_command(&data, &whole).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["domains"].as_array().unwrap().len(), 3);
    assert!(printed["mean_accuracy"].as_f64().unwrap() > 10.0);

    for batches in [1, 4, 7] {
        run_and_kill(&data, &parts, batches);
        assert!(!parts.join("summary.json").exists(), "it was killed too late");
    }
    if cfg!(target_os = "linux") {
        stop_by_full_disk(&data, &parts);
    }
    let output = run_command(&data, &parts).arg("--resume").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(without_timing(&parts), without_timing(&whole));
    assert!(state(&parts) == state(&whole), "the states differ");
    assert_eq!(batches_logged(&parts), 12);
    assert_eq!(files(&parts), files(&whole), "nothing of the interrupted runs stays behind");

    let again = run_command(&data, &parts).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("--resume"), "{}", stderr(&again));
    let other = run_command(&data, &parts).args(["--resume", "--set", "method.eta=0.4"]).output();
    let other = other.unwrap();
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("method.eta = 0.4"), "{}", stderr(&other));
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Continues under a limit on the size of files, which fails a write in the middle as a full disk does.
fn stop_by_full_disk(data: &str, out: &Path) {
    let path = out.join("state.safetensors");
    let (before, files_before) = (fs::read(&path).unwrap(), files(out));
    let inner = run_command(data, out);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$@\"", "sh"]);
    limited.arg(inner.get_program()).args(inner.get_args()).arg("--resume");
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("state.safetensors"), "{}", stderr(&output));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(files(out) <= files_before, "no partial file stays behind");
}

#[test]
fn what_is_asked_for_wrongly_ends_with_status_2_and_what_fails_with_1() {
    let temp = tempfile::tempdir().unwrap();
    let data = write_arrays(temp.path(), 8);
    let out = temp.path().join("out");
    let cases = [
        ("--set", "scenario.limt=3", 2, "limt"),
        ("--set", "method.etta=3", 2, "etta"),
        ("--set", "method.name=pant", 2, "known are"),
        ("--set", "scenario.name=forever", 2, "continual"),
        ("--set", "device=tpu", 2, "tpu"),
        ("--set", "scenario.limit=0", 2, "at least one image"),
        ("--set", "model.weights=nowhere.safetensors", 2, "give one of them"),
        ("--set", "model.text_features=nowhere.npz", 1, "nowhere.npz"),
        ("--set", "data.path=nowhere.npy", 1, "nowhere.npy"),
    ];
    for (flag, value, status, message) in cases {
        let output = run_command(&data, &out).args([flag, value]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{value}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{value}: {}", stderr(&output));
    }
    let mut command = paint();
    command.args(["run", "--method", "source", "--dataset", "embedded", "--out", &text(&out)]);
    let output = command.args(["--weights", "nowhere.safetensors"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("nowhere.safetensors"), "{}", stderr(&output));
    assert!(!out.exists(), "nothing is written before everything is understood");
}

#[test]
fn the_demo_runs_from_nothing_and_leaves_a_page_and_a_summary() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("demo");
    let output =
        paint().args(["demo", "--images", "4", "--json", "--out", &text(&out)]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let saved: Value =
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(printed, saved);
    let methods = printed["methods"].as_array().unwrap();
    let names: Vec<&str> = methods.iter().map(|m| m["method"].as_str().unwrap()).collect();
    assert_eq!(names, ["source", "paint", "keel"]);
    for method in methods {
        assert_eq!(method["domains"].as_array().unwrap().len(), 15);
        assert_eq!(method["overall"]["samples"], 14 * 4 + 20);
        assert!(method["mean_accuracy"].as_f64().unwrap() > 30.0, "{method}");
    }
    assert!(methods[1]["matching"]["prompts_allocated"].as_u64().unwrap() >= 1);
    let page = fs::read_to_string(out.join("demo.html")).unwrap();
    assert!(page.contains("gaussian_noise") && page.contains("Prompts of paint"));
    assert!(stderr(&output).contains("allocated") && stderr(&output).contains("demo.html"));
}

#[test]
fn source_images_reach_the_methods_that_need_them() {
    let temp = tempfile::tempdir().unwrap();
    let data = write_arrays(temp.path(), 8);
    let source = write_folder(&temp.path().join("source"), 12, |label| label.to_string());
    let run = |method: &str, extra: &[&str]| {
        let mut command = paint();
        command.args(["run", "--dataset", "npy", "--corrupt", "--batch-size", "4", "--overwrite"]);
        command.args(["--weights", &weights(), "--data", &data, "--method", method]);
        command.args(["--out", &text(&temp.path().join("out")), "--json"]);
        command.args(["--set", "scenario.domains=[\"fog\"]"]).args(extra).output().unwrap()
    };
    let folder = ["--source-dataset", "folder", "--source-data", &source];
    for (method, extra) in [
        ("eata", vec![]),
        ("rmt", vec!["--set", "method.warmup_images=8", "--set", "method.source_batch=4"]),
        ("santa", vec!["--source-images", "5"]),
        // One that does not look does not read either.
        ("tent", vec!["--set", "source.path=nowhere"]),
    ] {
        let output = run(method, &[&folder, extra.as_slice()].concat());
        assert!(output.status.success(), "{method}: {}", stderr(&output));
    }
    let resolved = fs::read_to_string(temp.path().join("out/config.toml")).unwrap();
    assert!(resolved.contains("[source]"), "{resolved}");
    assert!(resolved.contains("preset = \"vit_cifar10\""), "by its network: {resolved}");

    for (method, need) in [("eata", "unlabelled"), ("rmt", "labelled"), ("santa", "labelled")] {
        let output = run(method, &[]);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{method}: {message}");
        assert!(message.contains(need) && message.contains("--source-data"), "{message}");
    }
    let far = write_folder(&temp.path().join("far"), 3, |label| (label + 20).to_string());
    let plain = temp.path().join("plain");
    fs::create_dir(&plain).unwrap();
    image(&mosaic(), 0).write_png(File::create(plain.join("0.png")).unwrap()).unwrap();
    for (setting, message) in [
        ("source.path=nowhere", "nowhere".to_owned()),
        (
            "source.images=13",
            format!(
                "expected at least 13 images (source.images), found 12 to draw 13 from: {source}"
            ),
        ),
        ("source.images=0", "found 12 to draw 0 from".into()),
        (&format!("source.path={far}"), format!("of image 0: {far}")),
        (&format!("source.path={}", text(&plain)), "given images without labels".into()),
    ] {
        let output = run("rmt", &[&folder, ["--set", setting].as_slice()].concat());
        assert!(
            !output.status.success() && stderr(&output).contains(&message),
            "{setting}: {}",
            stderr(&output)
        );
    }
}
