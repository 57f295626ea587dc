//! Grids: interrupted, broken, asked for wrongly, run again.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{SAME, batches, grid, paint, stderr};

#[test]
fn a_grid_killed_twice_leaves_the_same_files_to_the_bit() {
    let temp = tempfile::tempdir().unwrap();
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let output = paint(&grid(), &whole).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for stop in [4, 14] {
        let mut child = paint(&grid(), &parts).spawn().unwrap();
        while batches(&parts) < stop && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!parts.join("summary.json").exists(), "it was killed too late");
    }
    let output = paint(&grid(), &parts).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("source seed 0: found"), "{}", stderr(&output));
    for file in SAME {
        let read = |out: &Path| fs::read(out.join(file)).unwrap();
        assert!(read(&whole) == read(&parts), "{file} differs");
    }
}

#[test]
fn the_protocol_beside_results_gives_them_again() {
    let temp = tempfile::tempdir().unwrap();
    let (first, again) = (temp.path().join("first"), temp.path().join("again"));
    let domains = "scenario.domains=[\"fog\"]";
    let args = ["bench", "--protocol", "embedded", "--methods", "source", "--limit", "4", "--set"];
    let idle = ["--set", "paint.eta=0.3"];
    let output = paint(&[&args[..], &[domains], &idle].concat(), &first).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("paint does not run here"), "{}", stderr(&output));
    let told = fs::read_to_string(first.join("results.md")).unwrap();
    assert!(told.contains("--set 'scenario.domains=[\"fog\"]' --set paint.eta=0.3"), "{told}");
    let protocol = first.join("protocol.toml");
    let args = ["bench", "--protocol", protocol.to_str().unwrap(), "--methods", "source"];
    let output = paint(&args, &again).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |out: &Path| -> Value {
        serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap()
    };
    let (first, again) = (read(&first), read(&again));
    assert_eq!((&first["hash"], &first["rows"]), (&again["hash"], &again["rows"]));
    assert_eq!(again["command"], "paint bench --protocol protocol.toml --methods source");
}

#[test]
fn a_broken_row_is_told_and_the_others_are_there() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let mut args = grid();
    args[4] = "source";
    args.extend(["--sweep", "tent.lr=1e300", "--jobs", "2", "--json"]);
    let output = paint(&args, &out).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("tent lr=1e300 seed 0: failed"), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["rows"][0]["label"], "source");
    assert_eq!(printed["failures"][0]["label"], "tent lr=1e300");
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("failed"));
}

#[test]
fn a_folder_that_another_run_works_in_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let held = paint_files::claim(folder.path()).unwrap();
    let single = ["run", "--method", "source", "--dataset", "embedded", "--weights", "embedded"];
    let training = ["train", "--dataset", "embedded", "--backbone", "vit_tiny_patch4_32"];
    for args in [&grid()[..], &single, &training] {
        let output = paint(args, folder.path()).output().unwrap();
        let message = stderr(&output);
        assert!(!output.status.success() && message.contains("another run works in"), "{message}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    drop(held);
    assert!(paint(&grid(), folder.path()).output().unwrap().status.success());
}

#[test]
fn what_is_asked_for_wrongly_ends_with_status_2() {
    let temp = tempfile::tempdir().unwrap();
    let one = ["bench", "--protocol", "embedded", "--methods", "source"];
    let cases: [(&[&str], &str); 10] = [
        (&["bench"], "--protocol"),
        (&["bench", "--protocol", "cifar11"], "cifar10-c-gradual"),
        (&["bench", "--protocol", "embedded", "--methods", "pant"], "known are"),
        (&["bench", "--protocol", "cifar10-c", "--methods", "source"], "--data"),
        (&["bench", "--reproduce", "table9"], "antiforget"),
        (&[&one[..], &["--seeds", "x"]].concat(), "--seeds"),
        (&[&one[..], &["--seeds", "0..99999999999"]].concat(), "at most 10000"),
        (&[&one[..], &["--seeds", "3,5,3"]].concat(), "got 3 twice"),
        (&[&one[..], &["--set", "paint.etaa=1"]].concat(), "etaa"),
        (&[&one[..], &["--threads", "100000"]].concat(), "cores"),
    ];
    for (args, message) in cases {
        let output = paint(args, &temp.path().join("out")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
    assert!(!temp.path().join("out").exists());
}

#[test]
fn a_folder_without_results_and_maps_over_the_images_are_refused() {
    let none = "no summary.json of `paint bench` in src";
    let cases: [(i32, &[&str], &str); 2] = [
        (1, &["report", "../../results/cifar10-c-2000", "src"], none),
        (2, &["cam", "--images", "src", "--out", "src"], "--out src is where the images are"),
    ];
    for (status, args, message) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_paint")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn weights_that_name_no_network_are_compared_too() {
    let temp = tempfile::tempdir().unwrap();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../paint-run/assets/vit_tiny_patch4_32_cifar10");
    let weights = temp.path().join("model.safetensors");
    fs::copy(assets.join("model.safetensors"), &weights).unwrap();
    let config = fs::read_to_string(assets.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["architecture"] = "ViTForImageClassification".into();
    fs::write(temp.path().join("config.json"), config.to_string()).unwrap();
    let args = ["bench", "--protocol", "embedded", "--methods", "source", "--limit", "4", "--json"];
    let domains = ["--set", "scenario.domains=[\"brightness\"]"];
    let mut command = paint(&[&args[..], &domains].concat(), &temp.path().join("out"));
    let output = command.arg("--weights").arg(&weights).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["rows"][0]["accuracy"]["mean"], 100.0);
}
