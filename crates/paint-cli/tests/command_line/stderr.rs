//! Messages on stderr.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Stdio;

use paint_data::Image;
use serde_json::Value;

use crate::{paint, told};

/// One method over a few images of one corruption.
fn bench(out: &Path) -> Vec<String> {
    let words = "bench --protocol embedded --methods source --limit 2 --no-timing --set";
    let rest = ["scenario.domains=[\"fog\"]", "--out", out.to_str().unwrap()];
    words.split(' ').chain(rest).map(str::to_owned).collect()
}

fn words(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

#[test]
fn a_command_goes_on_when_nobody_reads_its_stderr() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut command = paint(&words(&bench(&out)));
    let status = command.stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    let summary = fs::read_to_string(out.join("summary.json")).unwrap();
    assert!(summary.contains("\"failures\": []"), "{summary}");
}

#[test]
fn quiet_leaves_warnings_and_errors_only() {
    let temp = tempfile::tempdir().unwrap();
    let run = |flags: &[&str]| {
        let bench = bench(&temp.path().join("out"));
        let output = paint(&words(&bench)).args(flags).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        told(&output)
    };
    assert!(run(&[]).contains("written: "));
    assert_eq!(run(&["-q"]), "");
    let idle = run(&["--quiet", "--set", "paint.eta=0.3"]);
    assert!(idle.starts_with("warning: --set paint.eta=0.3 changes nothing"), "{idle}");
    assert_eq!(idle.lines().count(), 1, "{idle}");
    let output = paint(&["-q", "list", "nothing"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("nothing"));
}

#[test]
fn names_from_files_cannot_steer_the_terminal() {
    let temp = tempfile::tempdir().unwrap();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../paint-run/assets/vit_tiny_patch4_32_cifar10");
    let folder = temp.path().join("m\u{1b}[2Jodel");
    fs::create_dir(&folder).unwrap();
    let weights = folder.join("model.safetensors");
    fs::copy(assets.join("model.safetensors"), &weights).unwrap();
    let config = fs::read_to_string(assets.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    for name in config["pretrained_cfg"]["label_names"].as_array_mut().unwrap() {
        *name = format!("\u{1b}]0;{}\u{9b}", name.as_str().unwrap()).into();
    }
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let photos = temp.path().join("photos");
    fs::create_dir(&photos).unwrap();
    let image = Image::new(32, 32, vec![90; 32 * 32 * 3]).unwrap();
    image.write_png(File::create(photos.join("0.png")).unwrap()).unwrap();
    let weights = weights.to_str().unwrap();
    let out = temp.path().join("o\u{7}ut");
    let cam = ["cam", "--methods", "source", "--adapt", "0", "--count", "1", "--weights", weights];
    let mut command = paint(&cam);
    command.args(["--images", photos.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let missing = paint(&["inspect", &format!("{weights}\u{1b}[31m")]).output().unwrap();
    for bytes in [output.stdout, output.stderr, missing.stderr] {
        let text = String::from_utf8(bytes).unwrap();
        let obeyed: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert!(obeyed.is_empty() && text.contains("\\u{"), "{text:?}");
    }
}
