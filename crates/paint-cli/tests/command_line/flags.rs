//! Flags and scripts that every command shares.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{paint, told};

const RUN: [&str; 8] =
    ["run", "--method", "paint", "--dataset", "embedded", "--weights", "embedded", "--overwrite"];

/// The resolved configuration of a short run with these flags.
fn config(out: &Path, flags: &[&str]) -> String {
    let mut command = paint(&RUN);
    command.args(["--limit", "2", "--out", out.to_str().unwrap()]).args(flags);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    fs::read_to_string(out.join("config.toml")).unwrap()
}

#[test]
fn one_setting_has_the_same_name_in_every_command() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("run");
    let by_method = config(&out, &["--set", "paint.eta=0.45"]);
    assert!(by_method.contains("eta = 0.45"), "{by_method}");
    assert_eq!(by_method, config(&out, &["--set", "method.eta=0.45"]));

    let bench = |flags: &[&str]| {
        let out = temp.path().join("bench");
        let mut command =
            paint(&["bench", "--protocol", "embedded", "--limit", "2", "--overwrite"]);
        command.args(["--seeds", "0", "--no-timing", "--json"]);
        command.args(["--set", "scenario.domains=[\"fog\"]"]);
        command.args(["--out", out.to_str().unwrap()]).args(flags).output().unwrap()
    };
    let alone = bench(&["--methods", "paint", "--set", "method.eta=0.45"]);
    assert!(alone.status.success(), "{}", told(&alone));
    let named = bench(&["--methods", "paint", "--set", "paint.eta=0.45"]);
    let rows = |text: &[u8]| {
        let results: serde_json::Value = serde_json::from_slice(text).unwrap();
        results["rows"].clone()
    };
    assert_eq!(rows(&alone.stdout), rows(&named.stdout));
    let two = bench(&["--methods", "paint,tent", "--set", "method.eta=0.45"]);
    assert_eq!(two.status.code(), Some(2));
    assert!(told(&two).contains("write METHOD.eta=0.45"), "{}", told(&two));
    // The section of source images, not a setting of the method `source`, which has none.
    let section = bench(&["--methods", "source", "--set", "source.images=100"]);
    assert!(section.status.success(), "{}", told(&section));
}

#[test]
fn a_setting_of_a_method_that_does_not_run_is_reported() {
    let temp = tempfile::tempdir().unwrap();
    let mut command =
        paint(&["run", "--method", "source", "--dataset", "embedded", "--limit", "1"]);
    command.args(["--weights", "embedded", "--set", "paint.eta=0.4"]);
    let output =
        command.args(["--out", temp.path().join("out").to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert!(
        told(&output).contains("warning: --set paint.eta=0.4 changes nothing"),
        "{}",
        told(&output)
    );
}

#[test]
fn weights_of_a_flag_and_others_of_a_key_are_refused_with_both_names() {
    let other = ["--set", "model.weights=other.safetensors"];
    for command in [&RUN[..], &["adapt", "--weights", "embedded", "--images", "."]] {
        let output = paint(command).args(other).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        let why = r#"as "embedded" by a flag and as "other.safetensors" by --set"#;
        assert!(told(&output).contains(why), "{}", told(&output));
    }
    let temp = tempfile::tempdir().unwrap();
    config(&temp.path().join("run"), &["--set", "model.weights=embedded"]);
}

#[test]
fn a_value_of_another_type_is_told_by_its_key_in_every_command() {
    let bench = ["bench", "--protocol", "embedded", "--methods", "source"];
    for (command, setting, told_of) in [
        (&RUN[..], "stream.buffer=many", "stream.buffer: expected a non-negative whole number"),
        (&RUN[..], "paint.eta=much", "settings of paint: eta: expected a number, found \"much\""),
        (&bench[..], "scenario.limit=all", "scenario.limit: expected a non-negative whole number"),
    ] {
        let output = paint(command).args(["--set", setting]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(told(&output).contains(told_of), "{}", told(&output));
        assert!(!told(&output).contains("usize"), "{}", told(&output));
    }
}

#[test]
fn completion_scripts_know_commands_flags_and_names() {
    for shell in ["bash", "zsh", "fish"] {
        let output = paint(&["completions", shell]).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["adapt", "batch-size", "checkpoint-every", "tf32"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
        // Where the shell itself is there, it reads the script.
        if let Ok(mut child) = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn() {
            child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            assert!(child.wait().unwrap().success(), "{shell} does not read its script");
        }
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("man1");
    let output = paint(&["man", "--out", out.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    for page in ["paint", "paint-run", "paint-bench", "paint-bench-step", "paint-data-verify"] {
        let text = fs::read_to_string(out.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH SYNOPSIS") && text.contains("Examples:"), "{page}: {text}");
    }
    let text = fs::read_to_string(out.join("paint.1")).unwrap();
    assert!(text.contains("Exit status"), "{text}");
}
