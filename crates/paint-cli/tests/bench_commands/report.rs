//! `paint report`: what is made of results later.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{grid, paint, stderr};

#[test]
fn the_readme_says_what_the_results_folder_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
    let text = fs::read_to_string(root.join("results/README.md")).unwrap();
    let told = text.lines().find(|line| line.ends_with("--readme README.md")).unwrap();
    let told = told.split_whitespace().skip(1).chain(["--check"]);
    let output = command.current_dir(&root).args(told).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn the_tables_in_the_results_folder_are_those_of_their_summaries() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
    let temp = tempfile::tempdir().unwrap();
    let (csv, latex) = (temp.path().join("csv"), temp.path().join("tex"));
    let folders = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = folders.filter(|path| path.join("summary.json").exists()).collect();
    assert!(folders.len() >= 7);
    for folder in folders {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
        command.arg("report").arg(&folder).arg("--csv").arg(&csv).arg("--latex").arg(&latex);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let made = [output.stdout, fs::read(&csv).unwrap(), fs::read(&latex).unwrap()];
        for (file, made) in ["results.md", "results.csv", "results.tex"].into_iter().zip(made) {
            let kept = fs::read(folder.join(file)).unwrap();
            assert!(kept == made, "stale, see results/README.md: {file} in {}", folder.display());
        }
    }
}

#[test]
fn the_picture_of_the_readme_is_that_of_its_result() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (temp, shown) = (tempfile::tempdir().unwrap(), "results/cifar10-c-2000");
    let made = temp.path().join("accuracy.svg");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
    let output = command.current_dir(&root).args(["report", shown, "--svg"]).arg(&made).output();
    assert!(output.as_ref().unwrap().status.success(), "{}", stderr(&output.unwrap()));
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let kept = format!("{shown}/accuracy.svg");
    assert!(read(&root.join("README.md")).contains(&kept));
    assert!(read(&root.join(kept)) == read(&made), "stale: paint report {shown} --svg FILE");
}

#[test]
fn a_page_made_later_has_the_times_that_were_measured() {
    let folder = tempfile::tempdir().unwrap();
    let timed: Vec<&str> = grid().into_iter().filter(|&arg| arg != "--no-timing").collect();
    assert!(paint(&timed, folder.path()).output().unwrap().status.success());
    let page = folder.path().join("later.html");
    let mut report = Command::new(env!("CARGO_BIN_EXE_paint"));
    let status = report.arg("report").arg(folder.path()).arg("--html").arg(&page).output().unwrap();
    assert!(status.status.success(), "{}", stderr(&status));
    let times = |path: &Path| fs::read_to_string(path).unwrap().matches("ms / image").count();
    assert!(times(&page) > 0);
    assert_eq!(times(&page), times(&folder.path().join("report.html")));
}

#[test]
fn results_of_two_protocols_stand_side_by_side_with_a_warning() {
    let temp = tempfile::tempdir().unwrap();
    let folders = ["a", "b"].map(|name| temp.path().join(name));
    for (out, limit) in folders.iter().zip(["4", "5"]) {
        let args = ["bench", "--protocol", "embedded", "--methods", "source", "--limit", limit];
        let domains = ["--set", "scenario.domains=[\"fog\"]"];
        let output = paint(&[&args[..], &domains].concat(), out).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
    let page = temp.path().join("page.html");
    let output = command.arg("report").args(&folders).arg("--html").arg(&page).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("| source (a) |") && text.contains("| source (b) |"), "{text}");
    for told in [text, stderr(&output), fs::read_to_string(page).unwrap()] {
        assert!(told.contains("scenario.limit: 5 in place of 4"), "{told}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
    let output = command.arg("report").args(&folders).arg("--json").output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["warnings"][0].as_str().unwrap().contains("5 in place of 4"), "{json}");

    // The results of one command are not another's to overwrite.
    let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
    command.args(["run", "--method", "source", "--dataset", "embedded", "--weights", "embedded"]);
    let output = command.args(["--overwrite", "--out"]).arg(&folders[0]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cells of `paint bench`"), "{}", stderr(&output));
}
