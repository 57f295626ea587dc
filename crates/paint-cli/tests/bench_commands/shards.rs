//! A grid in parts, as the machines of a cluster run it.

use std::fs;
use std::path::Path;

use crate::support::{SAME, batches, grid, paint, stderr};

/// Writes the plan of [`grid`] for a folder.
fn planned(plan: &str, out: &Path) {
    let output = paint(&[&grid()[..], &["--plan", plan]].concat(), out).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!out.exists(), "a plan runs nothing");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("3 runs, 72 images, times unknown"), "{said}");
}

#[test]
fn shards_in_processes_of_their_own_leave_the_files_of_one_command() {
    let temp = tempfile::tempdir().unwrap();
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let plan = temp.path().join("plan.jsonl");
    let plan = plan.to_str().unwrap();
    planned(plan, &parts);
    let shard = |part: &'static str| ["bench", "--plan", plan, "--shard", part];
    let mut both: Vec<_> =
        ["0/2", "1/2"].map(|part| paint(&shard(part), &parts).spawn().unwrap()).into();
    // One is killed in the middle and started again, as a scheduler does.
    while batches(&parts) < 3 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let mut killed = both.remove(0);
    killed.kill().unwrap();
    killed.wait().unwrap();
    both.push(paint(&shard("0/2"), &parts).spawn().unwrap());
    for child in both {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert!(!parts.join("summary.json").exists(), "shards collect nothing");
    for out in [&whole, &parts] {
        let output = paint(&grid(), out).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let found = stderr(&output).matches(": found").count();
        assert_eq!(found, if out == &parts { 3 } else { 0 }, "{}", stderr(&output));
    }
    for file in SAME {
        let read = |out: &Path| fs::read(out.join(file)).unwrap();
        assert!(read(&whole) == read(&parts), "{file} differs");
    }
}

#[test]
fn a_grid_for_a_device_that_is_elsewhere_can_be_planned_and_collected_but_not_run() {
    let temp = tempfile::tempdir().unwrap();
    let (out, plan) = (temp.path().join("out"), temp.path().join("plan.jsonl"));
    let cells = |args: &[&str]| -> Vec<String> {
        let args = [args, &["--plan", plan.to_str().unwrap()]].concat();
        let output = paint(&args, &out).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = fs::read_to_string(&plan).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.map(|line: serde_json::Value| line["cell"].as_str().unwrap().into()).collect()
    };
    // No machine has so many GPUs.
    let there = [&grid()[..], &["--device", "cuda:99"]].concat();
    let (here_cells, there_cells) = (cells(&grid()), cells(&there));
    let refused = paint(&there, &out).output().unwrap();
    let message = stderr(&refused);
    assert!(refused.status.code() == Some(2) && message.contains("cuda:99"), "{message}");
    assert!(!out.exists(), "nothing was begun");
    // The folders that such a machine would have left.
    let run = paint(&grid(), &out).output().unwrap();
    assert!(run.status.success(), "{}", stderr(&run));
    for (here, there) in here_cells.iter().zip(&there_cells) {
        let folder = out.join("cells").join(there);
        fs::rename(out.join("cells").join(here), &folder).unwrap();
        let result = fs::read_to_string(folder.join("result.json")).unwrap();
        fs::write(folder.join("result.json"), result.replace(here, there)).unwrap();
    }
    let collected = paint(&there, &out).output().unwrap();
    assert!(collected.status.success(), "{}", stderr(&collected));
    assert_eq!(stderr(&collected).matches(": found").count(), 3, "{}", stderr(&collected));
}

#[test]
fn one_cell_is_run_by_its_hash_and_images_of_another_machine_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let (out, plan) = (temp.path().join("out"), temp.path().join("plan.jsonl"));
    planned(plan.to_str().unwrap(), &out);
    let text = fs::read_to_string(&plan).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let hash = first["cell"].as_str().unwrap();
    let cell = ["bench", "--plan", plan.to_str().unwrap(), "--cell", hash];
    // As a folder with other images would have.
    fs::write(&plan, text.replace(first["glimpse"].as_str().unwrap(), "000000000000")).unwrap();
    let output = paint(&cell, &out).output().unwrap();
    let message = stderr(&output);
    assert!(output.status.code() == Some(1) && message.contains("images of the plan"), "{message}");
    fs::write(&plan, text).unwrap();
    let output = paint(&cell, &out).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(out.join("cells").join(hash).join("result.json").is_file());
    assert_eq!(fs::read_dir(out.join("cells")).unwrap().count(), 1);
}

#[test]
fn wrong_parts_of_a_plan_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let (out, plan) = (temp.path().join("out"), temp.path().join("plan.jsonl"));
    planned(plan.to_str().unwrap(), &out);
    let plan = plan.to_str().unwrap();
    for (args, message) in [
        (&["bench", "--shard", "0/2"][..], "--plan"),
        (&["bench", "--plan", plan, "--shard", "2/2"], "from 0 to N-1"),
        (&["bench", "--plan", plan, "--shard", "0"], "expected I/N"),
        (&["bench", "--plan", plan, "--cell", "abc"], "has no run \"abc\""),
        (&["bench", "--plan", plan, "--cell", "abc", "--protocol", "embedded"], "--protocol"),
    ] {
        let output = paint(args, &out).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(message), "{args:?}: {said}");
    }
}
