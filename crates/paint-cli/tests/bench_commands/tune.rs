//! `paint tune`, and the commands that take what it chose.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use paint_data::dataset::embedded;

use crate::support::{batches, json, paint, stderr, weights};

/// A search of seconds.
fn search() -> Vec<&'static str> {
    let what = ["tune", "--method", "tent", "--search", "lr=1e-4..1e-1", "--candidates", "2"];
    let on = ["--weights", weights(), "--dataset", "embedded", "--corruptions", "saturate"];
    let runs = ["--limit", "8", "--batch-size", "4", "--seeds", "0"];
    [&what[..], &on, &runs].concat()
}

fn paint_in(folder: &Path, args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_paint")).args(args).current_dir(folder).output().unwrap()
}

#[test]
fn a_search_killed_in_the_middle_makes_the_same_choice() {
    let temp = tempfile::tempdir().unwrap();
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let output = paint(&search(), &whole).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["tent: lr=", "accuracy   ", "with one seed", "beside it  lr=", "cost       "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let mut child = paint(&search(), &parts).spawn().unwrap();
    // Each run of the one stage meets the corruption nine times: the first one is done, the second is not.
    while batches(&parts.join("runs")) < 9 * 3 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!parts.join("preset.toml").exists(), "it was killed too late");
    let output = paint(&search(), &parts).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains(": found"), "{}", stderr(&output));
    for file in ["preset.toml", "tune.json"] {
        let read = |out: &Path| fs::read(out.join(file)).unwrap();
        assert!(read(&whole) == read(&parts), "{file} differs");
    }
}

#[test]
fn other_commands_take_the_choice() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    fs::write(
        folder.join("preset.toml"),
        "method = 'tent'\nweights_sha256 = 'of others'\n[settings]\npreset = 'vit_cifar10'\nlr = 0.0125\n",
    )
    .unwrap();
    let run = ["run", "--dataset", "embedded", "--corrupt", "--weights", "embedded", "--dry-run"];
    let image = paint_data::Dataset::sample(&embedded().unwrap(), 0, 0).unwrap().image;
    fs::create_dir(folder.join("photos")).unwrap();
    image.write_png(File::create(folder.join("photos/0.png")).unwrap()).unwrap();
    let adapt = ["adapt", "--weights", "embedded", "--images", "photos", "--dry-run"];
    let bench =
        ["bench", "--protocol", "embedded", "--methods", "tent", "--limit", "4", "--dry-run"];
    for command in [&run[..], &adapt[..], &bench[..]] {
        let output = paint_in(folder, &[command, &["--preset", "preset.toml"]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(text.contains("lr = 0.0125"), "{command:?}: {text}");
        let warned = stderr(&output).contains("chosen for other weights");
        assert!(warned, "{command:?}: {}", stderr(&output));
    }
    let set = [&run[..], &["--preset", "preset.toml", "--set", "tent.lr=0.5"]].concat();
    let output = paint_in(folder, &set);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("lr = 0.5"), "{text}");
    fs::write(folder.join("preset.toml"), "method = 'tent'\n[settings]\nrate = 1\n").unwrap();
    let output = paint_in(folder, &[&run[..], &["--preset", "preset.toml"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("rate"), "{}", stderr(&output));
}

#[test]
fn a_plan_says_what_would_be_searched_and_a_wrong_search_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let output = paint(&[&search()[..], &["--dry-run"]].concat(), &out).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("search     lr from 0.0001 to 0.1"), "{said}{}", stderr(&output));
    assert!(
        said.contains("stage 1    2 candidates, 8 images per visit, 9 rounds, seeds [0]"),
        "{said}"
    );
    assert!(!out.exists());
    let planned =
        paint(&[&search()[..], &["--dry-run", "--json"]].concat(), &out).output().unwrap();
    let file = temp.path().join("plan.json");
    fs::write(&file, planned.stdout).unwrap();
    assert_eq!(json(&file)["candidates"].as_array().unwrap().len(), 2);
    let refused = |args: &[&str], why: &str| {
        let output = paint(args, &out).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
    };
    let tune = ["tune", "--dataset", "embedded", "--method"];
    refused(&[&tune[..], &["tent", "--corruptions", "fog"]].concat(), "got \"fog\"");
    refused(&[&tune[..], &["tent", "--set", "scenario.domains=['fog']"]].concat(), "got \"fog\"");
    refused(&[&tune[..], &["source"]].concat(), "no setting");
    refused(&[&tune[..], &["tent", "--search", "rate"]].concat(), "(lr)");
    refused(&[&tune[..], &["tent", "--set", "tent.rate=1"]].concat(), "rate");
    refused(&[&tune[..], &["tant"]].concat(), "tant");
    refused(&["tune", "--method", "tent"], "give --data");
}
