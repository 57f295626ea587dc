//! Tables and figures of the paper, and where methods look.

use std::fs;

use serde_json::Value;

use crate::support::{json, paint, stderr};

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
        assert!(told.contains("6 embedded CIFAR-10 images per visit"), "{told}");
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

/// Rows of the embedded model, whose accuracy on clean images says something.
const FROZEN_AND_TENT: [&str; 12] = [
    "bench",
    "--protocol",
    "embedded",
    "--methods",
    "source,tent",
    "--limit",
    "12",
    "--set",
    "scenario.domains=[\"fog\",\"contrast\"]",
    "--set",
    "scenario.batch_size=4",
    "--no-timing",
];

#[test]
fn forgetting_is_looked_at_without_disturbing_the_stream() {
    let temp = tempfile::tempdir().unwrap();
    let run = |name: &str, extra: &[&str]| -> Value {
        let out = temp.path().join(name);
        let args = [&FROZEN_AND_TENT[..], extra].concat();
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
fn a_prompt_learnt_from_clean_images_has_a_number_of_its_own_and_disturbs_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let run = |name: &str, extra: &[&str]| {
        let out = temp.path().join(name);
        let args =
            ["bench", "--reproduce", "antiforget", "--methods", "tent,paint", "--limit", "8"];
        let domains = ["--set", "scenario.domains=[\"fog\",\"contrast\"]"];
        let batches = ["--set", "scenario.batch_size=4", "--no-timing"];
        let args = [&args[..], &domains, &batches, extra].concat();
        let output = paint(&args, &out).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (json(&out.join("summary.json")), fs::read_to_string(out.join("results.md")).unwrap())
    };
    let (mut plain, mut learnt) = (run("plain", &[]), run("learnt", &["--set", "probe.learn=3"]));
    assert!(plain.0["rows"][1]["glances"][0].get("learnt").is_none());
    for row in 0..2 {
        for glance in learnt.0["rows"][row]["glances"].as_array_mut().unwrap() {
            let learnt = glance.as_object_mut().unwrap().remove("learnt");
            assert_eq!(learnt.is_some(), row == 1, "only PAINT has prompts");
        }
    }
    assert_eq!(plain.0["rows"].take(), learnt.0["rows"].take());
    assert!(
        !plain.1.contains("learnt") && learnt.1.contains("ours, learnt prompt"),
        "{}",
        learnt.1
    );
    let title = "## Clean accuracy after each domain, with a prompt learnt from clean images\n";
    assert!(learnt.1.contains(title), "{}", learnt.1);
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
    assert_eq!(printed[1]["predicted_clean"][0], "ship");
    // The image and two maps, and the same for the clean image.
    let image = paint_data::Image::open(&out.join("001.png")).unwrap();
    assert_eq!((image.width(), image.height()), (6 * 192 + 5 * 12, 192));
    let page = fs::read_to_string(out.join("cam.html")).unwrap();
    assert_eq!(page.matches("data:image/png").count(), 12);
}

#[test]
fn clean_images_that_are_given_are_drawn_beside_those_made_from_them() {
    let temp = tempfile::tempdir().unwrap();
    let data = paint_data::dataset::embedded().unwrap();
    let write = |folder: &str, count: usize, bright: u8| {
        let folder = temp.path().join(folder);
        fs::create_dir(&folder).unwrap();
        for i in 0..count {
            let image = paint_data::Dataset::sample(&data, 0, i).unwrap().image;
            let pixels = image.pixels().iter().map(|p| p.saturating_add(bright)).collect();
            let image = paint_data::Image::new(32, 32, pixels).unwrap();
            image
                .write_png(&mut fs::File::create(folder.join(format!("{i}.png"))).unwrap())
                .unwrap();
        }
        folder.to_str().unwrap().to_owned()
    };
    let (bright, clean, other) =
        (write("bright", 3, 60), write("clean", 3, 0), write("other", 2, 0));
    let draw = |name: &str, clean: &[&str]| {
        let args = ["cam", "--images", &bright, "--methods", "source", "--count", "2", "--json"];
        paint(&[&args[..], clean].concat(), &temp.path().join(name)).output().unwrap()
    };
    let alone = draw("alone", &[]);
    assert!(alone.status.success(), "{}", stderr(&alone));
    let printed: Value = serde_json::from_slice(&alone.stdout).unwrap();
    assert!(printed[1]["predicted_clean"].is_null());
    let paired = draw("paired", &["--clean-data", &clean]);
    assert!(paired.status.success(), "{}", stderr(&paired));
    let printed: Value = serde_json::from_slice(&paired.stdout).unwrap();
    assert_eq!(printed[1]["predicted_clean"], serde_json::json!(["ship"]));
    let refused = draw("refused", &["--clean-data", &other]);
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("--clean-data: expected the images"), "{}", stderr(&refused));
}
