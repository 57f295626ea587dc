//! `paint adapt` as it is deployed: a random order, a guard, streams as they come, states with a history.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufWriter;
use std::path::Path;
use std::process::Output;

use paint_data::NpyWriter;
use serde_json::Value;

use crate::adapt::{array, deployed, deployed_from, deployed_with};
use crate::support::{paint, stderr, text, trained_weights, weights};

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn names(output: &Output) -> Vec<String> {
    let name = |row: &str| row.split(',').next().unwrap().to_owned();
    stdout(output).lines().skip(1).map(name).collect()
}

/// An array of so many black images.
fn black(folder: &Path, count: usize) -> String {
    let path = folder.join("black.npy");
    let mut file = BufWriter::new(fs::File::create(&path).unwrap());
    let mut array = NpyWriter::new(&mut file, &[count, 32, 32, 3]).unwrap();
    array.write(&vec![0; count * 32 * 32 * 3]).unwrap();
    array.finish().unwrap();
    text(&path)
}

#[test]
fn images_come_in_a_random_order_that_the_seed_repeats_unless_their_own_is_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    let images = array(temp.path(), 20);
    let source = |extra: &[&str]| {
        let mut command = deployed_with("source", &["--images", &images], 50);
        command.args(extra).output().unwrap()
    };
    let preset = source(&["--set", "method.preset=paper_adam"]);
    assert_eq!(preset.status.code(), Some(2), "a preset that source does not have");
    let (first, own) = (source(&[]), source(&["--in-order"]));
    assert!(stderr(&first).contains("random order (seed 0)"), "{}", stderr(&first));
    assert!(!stderr(&own).contains("random order"), "{}", stderr(&own));
    let ordered: Vec<String> = (0..20).map(|i: usize| i.to_string()).collect();
    assert_eq!(names(&own), ordered);
    assert_ne!(names(&first), ordered);
    assert_eq!(names(&first), names(&source(&[])));
    assert_ne!(names(&first), names(&source(&["--seed", "1"])));
    let set = |names: Vec<String>| names.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(set(names(&first)), set(ordered));
}

#[test]
fn where_adaptation_does_not_help_it_is_said_and_an_exit_code_tells_on_request() {
    let temp = tempfile::tempdir().unwrap();
    let dark = black(temp.path(), 100);
    let run = |extra: &[&str]| deployed(&["--images", &dark], 50).args(extra).output().unwrap();
    let plain = run(&[]);
    let told = "adaptation did not help here; the frozen model's answers were kept";
    assert!(plain.status.success() && stderr(&plain).contains(told), "{}", stderr(&plain));
    // The second batch is no step: after fifty images of one class the stream waits for others.
    for told in ["the guard acted 1 time:", "1 x skipped the step: nearly all images look like"] {
        assert!(stderr(&plain).contains(told), "{}", stderr(&plain));
    }
    let failed = run(&["--fail-on-harm", "--json"]);
    assert_eq!(failed.status.code(), Some(3), "{}", stderr(&failed));
    let lines = String::from_utf8(failed.stdout).unwrap();
    let objects: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = &objects[objects.len() - 1];
    assert_eq!(summary["guard"]["kept_frozen"], true, "{summary}");
    let batch = objects.iter().find(|object| object["event"] == "batch_done").unwrap();
    assert_eq!(batch["guard"]["action"], "skipped the step", "{batch}");
    let unguarded = run(&["--no-guard"]);
    assert!(!stderr(&unguarded).contains(told), "{}", stderr(&unguarded));
    assert_eq!(run(&["--no-guard", "--fail-on-harm"]).status.code(), Some(2));
    assert_eq!(run(&["--no-guard", "--set", "guard.differ=0.1"]).status.code(), Some(2));
    assert_eq!(run(&["--set", "guard.differ=2"]).status.code(), Some(2));
}

#[test]
fn a_killed_guarded_stream_of_single_images_goes_on_with_the_same_bits() {
    let temp = tempfile::tempdir().unwrap();
    let images = array(temp.path(), 40);
    let run = |state: &Path, extra: &[&str]| {
        let mut command = deployed_from(
            &trained_weights(),
            "paint",
            &["--images", &images, "--state", &text(state)],
            1,
        );
        command.args(["--set", "stream.buffer=10", "--set", "guard.every=1"]);
        command.args(["--checkpoint-every", "7"]).args(extra).output().unwrap()
    };
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let expected = stdout(&run(&whole, &[]));
    // What a process that was killed after 14 images has left.
    let shown =
        |output: &Output| stdout(output).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_paint"));
    child.args(["adapt", "--weights", &trained_weights(), "--method", "paint"]);
    child.args(["--batch-size", "1", "--images", &images, "--state", &text(&parts)]);
    child.args(["--set", "stream.buffer=10", "--set", "guard.every=1", "--checkpoint-every", "7"]);
    child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = child.spawn().unwrap();
    let mut rows = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(rows.by_ref().take(16).count(), 16);
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = shown(&run(&parts, &[]));
    assert!(!rest.is_empty() && rest.len() < 40, "{}", rest.len());
    assert!(expected.ends_with(&(rest.join("\n") + "\n")));
    assert!(fs::read(&whole).unwrap() == fs::read(&parts).unwrap(), "the states differ");
}

#[test]
fn a_state_has_a_history_can_be_rolled_back_predicts_without_learning_and_gives_its_weights() {
    let temp = tempfile::tempdir().unwrap();
    let (images, state) = (array(temp.path(), 100), temp.path().join("state"));
    let adapt = |extra: &[&str]| {
        let mut command = deployed(&["--images", &images, "--state", &text(&state)], 25);
        command.args(extra).output().unwrap()
    };
    // Under guard this network would learn nothing.
    let bare = ["--no-guard", "--no-stream"];
    stdout(&adapt(&[&bare[..], &["--keep", "2", "--checkpoint-every", "1"]].concat()));
    let command = |words: &[&str]| paint().arg("state").args(words).output().unwrap();
    let list = command(&["list", &text(&state), "--json"]);
    let versions: Vec<Value> = serde_json::from_str(&stdout(&list)).unwrap();
    let batches: Vec<u64> = versions.iter().map(|v| v["batches"].as_u64().unwrap()).collect();
    assert_eq!(batches, [4, 4, 3], "the present one, and the two newest copies");
    let shown = stdout(&command(&["show", &text(&state)]));
    assert!(shown.contains("method.name = \"paint\"") && shown.contains("100 images"), "{shown}");

    // A state predicts without learning, twice the same, and stays as it is.
    let before = fs::read(&state).unwrap();
    let (first, second) = (adapt(&["--no-adapt"]), adapt(&["--no-adapt"]));
    assert_eq!(stdout(&first), stdout(&second));
    assert!(fs::read(&state).unwrap() == before, "something was saved");

    let out = temp.path().join("adapted/model.safetensors");
    let export = command(&["export", &text(&state), "--weights", &weights(), "--out", &text(&out)]);
    assert!(export.status.success(), "{}", stderr(&export));
    let inspect = paint().args(["inspect", &text(&out)]).output().unwrap();
    assert!(stdout(&inspect).contains("names           timm"), "{}", stdout(&inspect));
    let read = |path: &str| paint_nn::checkpoint::read(path).unwrap();
    let (adapted, plain) = (read(&text(&out)), read(&weights()));
    let changed =
        plain.iter().filter(|(name, array)| adapted.get(name).unwrap().data != array.data);
    let changed: Vec<&str> = changed.map(|(name, _)| name).collect();
    assert!(!changed.is_empty() && changed.len() < plain.len(), "{changed:?}");

    let back = command(&["rollback", &text(&state)]);
    assert!(stdout(&back).contains("3 batches"), "{}", stdout(&back));
    assert_eq!(command(&["rollback", &text(&state), "--to", "1"]).status.code(), Some(1));
    let again = command(&["rollback", &text(&state)]);
    assert!(stderr(&again).contains("fewer than 3 batches"), "{}", stderr(&again));
    assert_eq!(stdout(&command(&["list", &text(&state)])).lines().count(), 3);
    // A state that was saved under guard and stream is read without them, and the other way round.
    stdout(&adapt(&["--from-start"]));
    stdout(&adapt(&[&bare[..], &["--from-start"]].concat()));
}
