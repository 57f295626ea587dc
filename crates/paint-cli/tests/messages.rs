//! What is said when something is missing, misspelt or not there, as a user reads it.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn paint() -> Command {
    Command::new(env!("CARGO_BIN_EXE_paint"))
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_missing_or_wrong_in_a_file_is_told_with_its_name() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("my run.toml");
    let out = format!("out = \"{}\"\n", text(&temp.path().join("out")));
    let data = "data.name = \"embedded\"\nmodel.weights = \"embedded\"\n";
    for (document, message) in [
        (String::new(), "give --method, --dataset, --weights, or method.name"),
        (data.to_owned(), "give --method, or method.name in the file"),
        (format!("{data}[methd]\nname = \"source\""), "`methd`"),
        (format!("{out}{data}sede = 1\nmethod.name = \"source\""), "`sede`"),
        (format!("{out}{data}[method]\nname = \"tent\"\nlrr = 1"), "lrr"),
    ] {
        fs::write(&file, &document).unwrap();
        let output = paint().args(["run", "--config", &text(&file)]).output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{document}: {told}");
        assert!(told.contains("my run.toml: ") && told.contains(message), "{document}: {told}");
    }
    let output = paint().arg("run").output().unwrap();
    let told = "paint: configuration: give --method, --dataset, --weights\n";
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), told));
}

#[test]
fn a_cause_is_told_once_and_a_file_is_no_folder() {
    let temp = tempfile::tempdir().unwrap();
    let run = |weights: &str, out: &Path| {
        let mut command = paint();
        command.args(["run", "--method", "source", "--dataset", "embedded", "--limit", "1"]);
        command.args(["--weights", weights, "--out", &text(out)]).output().unwrap()
    };
    let file = temp.path().join("file");
    let told = stderr(&run(&text(&file), &temp.path().join("out")));
    assert_eq!(told.matches("os error 2").count(), 1, "{told}");
    fs::write(&file, "").unwrap();
    let told = stderr(&run("embedded", &file));
    assert!(told.contains("expected a folder, found a file"), "{told}");
    let out = temp.path().join("out");
    assert!(run("embedded", &out).status.success());
    let told = stderr(&paint().args(["report", &text(&out)]).output().unwrap());
    assert!(told.contains("of `paint bench`, found one of `paint run`"), "{told}");
}

#[test]
fn what_cannot_be_is_told_by_the_flag_that_asks_for_it() {
    let temp = tempfile::tempdir().unwrap();
    let out = text(&temp.path().join("out"));
    let run = ["run", "--method", "paint", "--dataset", "embedded", "--weights", "embedded"];
    let cases: [(&[&str], &str); 7] = [
        (&["--corrupt", "--set", "scenario.domains=[\"fog:3\"]"], "pixelate, jpeg_compression"),
        (&["--corrupt", "--set", "scenario.severity=6"], "severity"),
        (&["--precision", "bf16"], "device \"cpu\": the CPU computes in f32"),
        (&["--source-images", "5"], "give --source-dataset"),
        (&["--data", "somewhere"], "none: they are inside the program"),
        (
            &["--set", "method.prompt_length=99999999999"],
            "prompt_length: expected 0 to 1024, got 99999999999",
        ),
        (&["--set", "scenario.domains=[\"rain\"]"], "expected one of clean, got \"rain\""),
    ];
    for (flags, message) in cases {
        let output = paint().args(run).args(["--out", &out]).args(flags).output().unwrap();
        let told = stderr(&output);
        assert!(!output.status.success() && told.contains(message), "{flags:?}: {told}");
        assert!(told.lines().count() == 1 && told.len() < 400, "{told}");
    }
    let output = paint().args(["bench", "step", "--backbone", "resnet50"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("needs a transformer"), "{}", stderr(&output));
}
