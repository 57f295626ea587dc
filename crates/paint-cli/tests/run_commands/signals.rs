//! SIGINT, SIGTERM and SIGHUP: what is done is saved, and the command can be continued.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::adapt::{adapt_trained, array};
use crate::support::{paint, stderr, text, write_arrays};
use crate::{batches_logged, run_command, state, without_timing};

fn send(signal: &str, child: &Child) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
}

#[test]
fn an_adaptation_that_a_signal_stops_keeps_its_batches_and_continues_to_the_same_bits() {
    let temp = tempfile::tempdir().unwrap();
    // Enough batches that a slow machine delivers the signal before the last.
    let images = array(temp.path(), 48);
    let run = |state: &Path| {
        let mut command = adapt_trained(&["--images", &images, "--state", &text(state)], 4);
        command.args(["--checkpoint-every", "0"]);
        command
    };
    let whole = temp.path().join("whole");
    assert!(run(&whole).output().unwrap().status.success());
    for (signal, status) in [("-HUP", 129), ("-INT", 130), ("-TERM", 143)] {
        let parts = temp.path().join(signal);
        let mut child = run(&parts).spawn().unwrap();
        let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(rows.by_ref().take(2).count(), 2);
        send(signal, &child);
        let printed = 2 + rows.count();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains("continues with the next image"), "{}", stderr(&output));
        assert!(printed < 49 && (printed - 1).is_multiple_of(4), "{printed} lines");
        let rest = run(&parts).output().unwrap();
        let rows = String::from_utf8(rest.stdout).unwrap().lines().count();
        assert_eq!(rows - 1, 49 - printed, "every image is predicted once");
        assert!(fs::read(&parts).unwrap() == fs::read(&whole).unwrap(), "the states differ");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let (images, state) = (array(temp.path(), 1000), temp.path().join("state"));
    let mut command = adapt_trained(&["--images", &images, "--state", &text(&state)], 1000);
    let mut child = command.spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(rows.next().is_some(), "the head");
    // Signals that come faster than they are noticed count once.
    while child.try_wait().unwrap().is_none() {
        send("-INT", &child);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!state.exists() && rows.next().is_none(), "it did not wait for its batch");
}

#[test]
fn one_that_waits_for_names_is_stopped_too_and_one_that_ignores_a_signal_is_not() {
    let temp = tempfile::tempdir().unwrap();
    let photo = temp.path().join("0.png");
    let image = paint_data::Image::new(32, 32, vec![99; 3072]).unwrap();
    image.write_png(fs::File::create(&photo).unwrap()).unwrap();
    let state = temp.path().join("state");
    let inner = adapt_trained(&["--list", "-", "--state", &text(&state)], 1);
    let mut shell = Command::new("sh");
    // As `nohup` does.
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(inner.get_program());
    shell.args(inner.get_args()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = shell.stderr(Stdio::piped()).spawn().unwrap();
    let mut names = child.stdin.take().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(names, "{}", text(&photo)).unwrap();
    assert_eq!(rows.by_ref().take(2).count(), 2);
    send("-HUP", &child);
    writeln!(names, "{}", text(&photo)).unwrap();
    assert_eq!(rows.by_ref().take(1).count(), 1);
    send("-TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(state.exists());
}

#[test]
fn a_run_and_a_benchmark_that_a_signal_stops_continue_to_the_same_bits() {
    let temp = tempfile::tempdir().unwrap();
    let data = write_arrays(temp.path(), 48);
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let few = ["--set", "scenario.domains=[\"fog\",\"contrast\"]"];
    let run = |out: &Path, extra: &[&str]| {
        let mut command = run_command(&data, out);
        command.args(few).args(extra);
        command
    };
    assert!(run(&whole, &[]).output().unwrap().status.success());
    let seldom = ["--resume", "--set", "checkpoint_every=0"];
    let child = run(&parts, &seldom).spawn().unwrap();
    while batches_logged(&parts) < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    send("-TERM", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
    assert!(stderr(&output).contains("continue with --resume"), "{}", stderr(&output));
    assert!(!parts.join("summary.json").exists());
    let rest = run(&parts, &seldom).output().unwrap();
    assert!(stderr(&rest).contains("continues at batch"), "{}", stderr(&rest));
    assert_eq!(without_timing(&parts), without_timing(&whole));
    assert!(state(&parts) == state(&whole), "the states differ");

    let out = temp.path().join("bench");
    let bench = || {
        let mut command = paint();
        command.args(["bench", "--protocol", "embedded", "--methods", "source,tent"]);
        command.args(["--limit", "100", "--seeds", "0", "--set", "scenario.batch_size=4"]);
        command.args(["--set", "scenario.domains=[\"fog\",\"contrast\"]"]);
        command.args(["--out", &text(&out)]).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let child = bench().spawn().unwrap();
    while !out.join("cells").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    send("-INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("the same command continues"), "{}", stderr(&output));
    let rest = bench().output().unwrap();
    assert!(rest.status.success() && out.join("report.html").exists(), "{}", stderr(&rest));
}

#[test]
fn a_training_that_a_signal_stops_can_be_continued() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("trained");
    let train = || {
        let mut command = paint();
        command.args(["train", "--dataset", "embedded", "--backbone", "cifar_resnet20"]);
        command.args([
            "--limit",
            "48",
            "--test-limit",
            "50",
            "--batch-size",
            "16",
            "--epochs",
            "20",
        ]);
        command.args(["--set", "lr=0.02", "--checkpoint-every", "3", "--out", &text(&out)]);
        command.arg("--resume").stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let child = train().spawn().unwrap();
    while !out.join("checkpoint.safetensors").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    send("-TERM", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
    assert!(stderr(&output).contains("continue with --resume"), "{}", stderr(&output));
    assert!(!out.join("model.safetensors").exists());
    let rest = train().output().unwrap();
    assert!(rest.status.success() && out.join("model.safetensors").exists(), "{}", stderr(&rest));
}
