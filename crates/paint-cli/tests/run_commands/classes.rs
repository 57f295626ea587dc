//! Folders named as classes, and what a run notices when it is continued.

use std::fs;
use std::path::Path;
use std::process::Output;

use paint_data::dataset::CIFAR10_CLASSES;
use serde_json::{Value, json};

use crate::support::{paint, stderr, text, trained_weights as weights, write_arrays, write_folder};

fn source(dataset: &str, data: &str, out: &Path, extra: &[&str]) -> Output {
    let mut command = paint();
    command.args(["run", "--method", "source", "--json", "--dataset", dataset, "--data", data]);
    command.args(["--out", &text(out)]).args(extra).output().unwrap()
}

fn accuracy(output: &Output) -> f64 {
    assert!(output.status.success(), "{}", stderr(output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    summary["mean_accuracy"].as_f64().unwrap()
}

#[test]
fn folders_named_as_classes_of_the_model_are_those_classes() {
    let temp = tempfile::tempdir().unwrap();
    let place = |name: &str| temp.path().join(name);
    let data = write_arrays(temp.path(), 20);
    // Without birds, the third class: alphabetical numbers would be wrong from there on.
    let named = write_folder(&place("named"), 20, |label| CIFAR10_CLASSES[label].to_owned());
    assert!(!place("named/bird").exists() && place("named/truck").exists());
    let by_number = accuracy(&source("npy", &data, &place("a"), &["--weights", &weights()]));
    assert!(by_number > 80.0, "{by_number}");
    for (out, weights) in [("b", weights().as_str()), ("c", "embedded")] {
        let by_name = accuracy(&source("folder", &named, &place(out), &["--weights", weights]));
        assert_eq!(by_name, by_number);
    }

    let odd = write_folder(&place("odd"), 20, |label| format!("kind {label}"));
    let output = source("folder", &odd, &place("d"), &["--weights", "embedded"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("\"kind 0\"") && message.contains("airplane, automobile"),
        "{message}"
    );

    // Weights without names of their own: the user gives them, or there must be a folder for each class.
    let nameless = place("nameless");
    fs::create_dir(&nameless).unwrap();
    fs::copy(weights(), nameless.join("model.safetensors")).unwrap();
    let config = Path::new(&weights()).with_file_name("config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(config).unwrap()).unwrap();
    config["pretrained_cfg"].as_object_mut().unwrap().remove("label_names");
    fs::write(nameless.join("config.json"), config.to_string()).unwrap();
    let nameless = text(&nameless.join("model.safetensors"));
    let few = write_folder(&place("few"), 4, |label| CIFAR10_CLASSES[label].to_owned());
    let output = source("folder", &few, &place("e"), &["--weights", &nameless]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("data.options.classes"), "{message}");
    let classes = format!("data.options.classes={}", json!(CIFAR10_CLASSES));
    let given = ["--weights", &nameless, "--set", &classes];
    assert_eq!(accuracy(&source("folder", &named, &place("f"), &given)), by_number);
    for (out, flags, told) in [
        (
            "g",
            ["--set", "data.options.classes=[\"cat\",\"ship\",\"airplane\"]"].as_slice(),
            "expected 10",
        ),
        (
            "h",
            &["--set", "probe={clean=2,data={name=\"folder\",path=\"FEW\"}}"],
            "data.options.classes",
        ),
    ] {
        let flags: Vec<String> = flags.iter().map(|flag| flag.replace("FEW", &few)).collect();
        let mut all = vec!["--weights", nameless.as_str()];
        all.extend(flags.iter().map(String::as_str));
        let dataset = if out == "g" { ("folder", &few) } else { ("npy", &data) };
        let output = source(dataset.0, dataset.1, &place(out), &all);
        let message = stderr(&output);
        assert!(!output.status.success() && message.contains(told), "{out}: {message}");
    }
}

#[test]
fn folders_of_days_with_folders_of_classes_are_domains_to_verify_and_run_alike() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    for day in ["monday", "tuesday"] {
        write_folder(&data.join(day), 6, |label| CIFAR10_CLASSES[label].to_owned());
    }
    fs::write(data.join("monday/moving.gif"), "GIF89a").unwrap();
    let data = text(&data);
    let verify = |extra: &[&str]| {
        let mut command = paint();
        command.args(["data", "verify", &data, "--dataset", "folder"]).args(extra).output().unwrap()
    };
    let domains = ["--set", "data.options.domains=folders"];
    let sound = verify(&domains);
    let printed = String::from_utf8_lossy(&sound.stdout).into_owned();
    assert!(printed.contains("12 images in 2 domains") && printed.contains("sound"), "{printed}");
    assert!(stderr(&sound).contains("moving.gif (GIF is not read)"), "{}", stderr(&sound));
    let run = source(
        "folder",
        &data,
        &temp.path().join("out"),
        &[&["--weights", "embedded"], &domains[..]].concat(),
    );
    assert!(accuracy(&run) > 80.0 && stderr(&run).contains("moving.gif"), "{}", stderr(&run));
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    let names = summary["domains"].as_array().unwrap().iter().map(|domain| domain["name"].as_str());
    assert_eq!(names.flatten().collect::<Vec<_>>(), ["monday", "tuesday"], "{summary}");

    // Without it both say what may be meant.
    let plain = stderr(&verify(&[]));
    assert!(plain.contains("monday, tuesday") && plain.contains(domains[1]), "{plain}");
    let refused = source("folder", &data, &temp.path().join("b"), &["--weights", "embedded"]);
    let message = stderr(&refused);
    assert!(!refused.status.success() && message.contains(domains[1]), "{message}");
}

#[test]
fn a_run_goes_on_with_its_own_images_and_preprocessing_only() {
    let temp = tempfile::tempdir().unwrap();
    let (model, out) = (temp.path().join("model"), temp.path().join("out"));
    fs::create_dir(&model).unwrap();
    let beside = Path::new(&weights()).with_file_name("config.json");
    fs::copy(weights(), model.join("model.safetensors")).unwrap();
    fs::copy(&beside, model.join("config.json")).unwrap();
    let weights = text(&model.join("model.safetensors"));
    let data = write_arrays(temp.path(), 6);
    let resume = || source("npy", &data, &out, &["--weights", &weights, "--resume"]);
    let first = accuracy(&resume());
    assert_eq!(accuracy(&resume()), first);

    let own = fs::read_to_string(&beside).unwrap();
    for (place, key, value, told) in [
        ("pretrained_cfg", "mean", json!([0.25, 0.5, 0.5]), "model.mean = [0.25, 0.5, 0.5]"),
        ("pretrained_cfg", "crop_mode", json!("squash"), "model.crop_mode = \"squash\""),
        ("model_args", "num_heads", json!(6), "model.num_heads = 6"),
    ] {
        let mut other: Value = serde_json::from_str(&own).unwrap();
        other[place][key] = value;
        fs::write(model.join("config.json"), other.to_string()).unwrap();
        let message = stderr(&resume());
        assert!(message.contains(told), "{message}");
    }

    fs::write(model.join("config.json"), own).unwrap();
    assert_eq!(accuracy(&resume()), first);
    // One of the images in the middle.
    let mut bytes = fs::read(&data).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&data, bytes).unwrap();
    let message = stderr(&resume());
    assert!(message.contains("other images") && message.contains(&data), "{message}");
}
