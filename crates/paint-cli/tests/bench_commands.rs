//! `paint bench` and `paint cam`, as a user runs them, on the embedded model and images.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn paint(args: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
    command.args(args).args(["--out", out.to_str().unwrap()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Three rows over two domains of a few images, in batches that make several checkpoints.
const GRID: [&str; 16] = [
    "bench",
    "--protocol",
    "embedded",
    "--methods",
    "source,tent,paint",
    "--limit",
    "12",
    "--set",
    "scenario.domains=[\"fog\",\"contrast\"]",
    "--set",
    "scenario.batch_size=4",
    "--no-timing",
    "--checkpoint-every",
    "1",
    "--threads",
    "2",
];

/// The files that must not depend on how often a grid was interrupted.
const SAME: [&str; 7] = [
    "results.jsonl",
    "summary.json",
    "results.csv",
    "results.md",
    "results.tex",
    "protocol.toml",
    "report.html",
];

fn batches(out: &Path) -> usize {
    let Ok(cells) = fs::read_dir(out.join("cells")) else { return 0 };
    let log = |cell: fs::DirEntry| fs::read_to_string(cell.path().join("events.jsonl"));
    let logs = cells.filter_map(|cell| log(cell.ok()?).ok());
    logs.map(|log| log.matches("\"event\":\"batch_done\"").count()).sum()
}

#[test]
fn a_grid_killed_twice_leaves_the_same_files_to_the_bit() {
    let temp = tempfile::tempdir().unwrap();
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let output = paint(&GRID, &whole).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for stop in [4, 14] {
        let mut child = paint(&GRID, &parts).spawn().unwrap();
        while batches(&parts) < stop && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!parts.join("summary.json").exists(), "it was killed too late");
    }
    let output = paint(&GRID, &parts).output().unwrap();
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
    assert!(stderr(&output).contains("paint has no row here"), "{}", stderr(&output));
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
    let mut args: Vec<&str> = GRID.into_iter().collect();
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
    for args in [&GRID[..], &single, &training] {
        let output = paint(args, folder.path()).output().unwrap();
        let message = stderr(&output);
        assert!(!output.status.success() && message.contains("another run works in"), "{message}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    drop(held);
    assert!(paint(&GRID, folder.path()).output().unwrap().status.success());
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
    let cases: [(i32, &[&str], &str); 2] = [
        (1, &["report", "../../results/cifar10-c-2000", "src"], "no summary.json in src"),
        (2, &["cam", "--images", "src", "--out", "src"], "--out src is where the images are"),
    ];
    for (status, args, message) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_paint")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_target_of_the_paper_runs_from_nothing_and_stands_beside_its_numbers() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let args = ["bench", "--reproduce", "matching", "--limit", "6", "--set"];
    let domains = "scenario.domains=[\"fog\",\"shot_noise\"]";
    let output = paint(&[&args[..], &[domains]].concat(), &out).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(out.join("results.md")).unwrap();
    assert!(text.contains("| PAINT-Oracle |") && text.contains("| 60.55 |"), "{text}");
    assert!(text.contains("not of one protocol") && text.contains("data.name"), "{text}");
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["rows"][1]["prompts"], 2.0);
    assert_eq!(summary["rows"][1]["matching_per_batch"], 100.0);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for told in [text, page, String::from_utf8_lossy(&output.stdout).into_owned()] {
        assert!(told.contains("not imagenet-c numbers"), "{told}");
        assert!(told.contains("6 embedded CIFAR-10 images a visit"), "{told}");
    }
}

#[test]
fn clean_images_as_visits_of_their_own_make_a_curve() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let args = ["bench", "--reproduce", "antiforget-interleaved", "--limit", "4", "--set"];
    let rest = ["scenario.domains=[\"fog\",\"contrast\"]", "--methods", "source"];
    let output = paint(&[&args[..], &rest].concat(), &out).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    let glances = summary["rows"][0]["glances"].as_array().unwrap();
    assert_eq!(glances.len(), 2);
    assert_eq!(glances[0]["clean"], glances[1]["clean"], "a frozen model forgets nothing");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("as visits of their own"));
    let text = fs::read_to_string(out.join("results.md")).unwrap();
    assert!(text.contains("after each domain\n\n| row | fog | contrast |"), "{text}");
}

#[test]
fn forgetting_is_looked_at_without_disturbing_the_stream() {
    let temp = tempfile::tempdir().unwrap();
    let run = |name: &str, extra: &[&str]| -> Value {
        let out = temp.path().join(name);
        let args: Vec<&str> = GRID.iter().chain(extra).copied().collect();
        let output = paint(&args, &out).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap()
    };
    let plain = run("plain", &[]);
    let probed = run("probed", &["--set", "probe.clean=8", "--set", "probe.previous=4"]);
    for (a, b) in plain["rows"].as_array().unwrap().iter().zip(probed["rows"].as_array().unwrap()) {
        assert_eq!(a["accuracy"], b["accuracy"]);
        let glances = b["glances"].as_array().unwrap();
        assert_eq!(glances.len(), 2);
        assert!(glances.iter().all(|g| g["clean"].as_f64().unwrap() >= 50.0), "{glances:?}");
    }
    let source = probed["rows"][0]["glances"].as_array().unwrap();
    assert_eq!(source[0]["clean"], source[1]["clean"], "a frozen model forgets nothing");
    assert_ne!(plain["hash"], probed["hash"]);
}

#[test]
fn maps_are_drawn_for_every_method_and_image() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("cam");
    let args = ["cam", "--methods", "source,paint", "--count", "2", "--adapt", "6", "--json"];
    let output = paint(&args, &out).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Test image 0 is a cat and image 1 a ship.
    assert_eq!((&printed[0]["truth"], &printed[1]["truth"]), (&"cat".into(), &"ship".into()));
    assert_eq!(printed[1]["predicted"].as_array().unwrap().len(), 2);
    let image = paint_data::Image::open(&out.join("001.png")).unwrap();
    assert_eq!((image.width(), image.height()), (3 * 192 + 2 * 12, 192));
    let page = fs::read_to_string(out.join("cam.html")).unwrap();
    assert_eq!(page.matches("data:image/png").count(), 6);
}

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
    let timed: Vec<&str> = GRID.into_iter().filter(|&arg| arg != "--no-timing").collect();
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

#[test]
fn weights_that_name_no_network_are_compared_too() {
    let temp = tempfile::tempdir().unwrap();
    let assets =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/vit_tiny_patch4_32_cifar10");
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
