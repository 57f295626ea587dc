//! `paint adapt`: what it reads, what it prints and what it keeps.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use paint_data::Image;
use paint_nn::state::file::{self, Kind};
use paint_tensor::Device;
use serde_json::Value;

use crate::support::{image, mosaic, paint, stderr, text, trained_weights, weights, write_arrays};

/// Adapts to `images` in their order and in batches of `batch_size`, with nothing around the method.
pub(crate) fn adapt(images: &[&str], batch_size: usize) -> Command {
    let mut command = deployed(images, batch_size);
    command.args(PLAIN);
    command
}

/// The same with the embedded model, where predictions matter, or the time that it takes to be stopped.
pub(crate) fn adapt_trained(images: &[&str], batch_size: usize) -> Command {
    let mut command = deployed_from(&trained_weights(), "paint", images, batch_size);
    command.args(PLAIN);
    command
}

const PLAIN: [&str; 3] = ["--in-order", "--no-stream", "--no-guard"];

/// The same as it is deployed.
pub(crate) fn deployed(images: &[&str], batch_size: usize) -> Command {
    deployed_with("paint", images, batch_size)
}

/// The same with another method.
pub(crate) fn deployed_with(method: &str, images: &[&str], batch_size: usize) -> Command {
    deployed_from(&weights(), method, images, batch_size)
}

/// The same with other weights.
pub(crate) fn deployed_from(
    weights: &str,
    method: &str,
    images: &[&str],
    batch_size: usize,
) -> Command {
    let mut command = paint();
    command.args(["adapt", "--weights", weights, "--method", method]);
    command.args(["--batch-size", &batch_size.to_string()]).args(images);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// An array of so many images, in a folder of its own.
pub(crate) fn array(folder: &Path, count: usize) -> String {
    let folder = folder.join(format!("{count} images"));
    fs::create_dir_all(&folder).unwrap();
    write_arrays(&folder, count)
}

pub(crate) fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn objects(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["event"] == kind).collect()
}

/// The class of every file in a CSV output.
fn classes(output: &Output) -> BTreeMap<String, String> {
    let csv = stdout(output);
    let rows = csv.lines().skip(1).map(|row| row.rsplit_once(',').unwrap().0);
    rows.map(|row| row.split_once(',').unwrap())
        .map(|(file, class)| (file.rsplit('/').next().unwrap().to_owned(), class.to_owned()))
        .collect()
}

/// The first embedded images as PNG files with numbers for names, larger than the model's input.
fn write_photos(folder: &Path, count: usize) {
    fs::create_dir_all(folder).unwrap();
    let mosaic = mosaic();
    for i in 0..count {
        let image = image(&mosaic, i).resize(40, 36, paint_data::image::Filter::Bilinear).unwrap();
        image.write_png(File::create(folder.join(format!("{i}.png"))).unwrap()).unwrap();
    }
}

#[test]
fn a_folder_without_labels_is_predicted_and_the_state_continues() {
    let temp = tempfile::tempdir().unwrap();
    let (folder, state) = (temp.path().join("photos"), temp.path().join("state.safetensors"));
    write_photos(&folder, 6);
    fs::rename(folder.join("0.png"), folder.join("0, x.png")).unwrap();
    let adapt = |extra: &[&str]| {
        adapt_trained(&["--images", &text(&folder)], 50).args(extra).output().unwrap()
    };
    let kept = ["--state", &text(&state)];
    let first = adapt(&kept);
    let csv = stdout(&first);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (7, "file,class_index,class_name,confidence"));
    // Test image 0 is a cat and image 1 a ship.
    assert!(lines[1].starts_with("\"0, x.png\",3,cat,") && lines[2].starts_with("1.png,8,ship,"));
    for told in ["adapted to 6 images in 1 batch,", "prompts: 1 allocated", "state: "] {
        assert!(stderr(&first).contains(told), "{}", stderr(&first));
    }

    let saved = fs::read(&state).unwrap();
    let second = adapt(&kept);
    for told in ["has adapted to 6 images before", "are predicted again"] {
        assert!(stderr(&second).contains(told), "{}", stderr(&second));
    }
    fs::write(&state, &saved).unwrap();
    assert_eq!(second.stdout, adapt(&kept).stdout);
    assert_ne!(second.stdout, first.stdout);

    let other = adapt(&[&kept[..], &["--set", "method.eta=0.9"]].concat());
    assert_eq!(other.status.code(), Some(1));
    let told = "state of another adaptation: expected method.eta = 0.9, found 0.2";
    assert!(stderr(&other).contains(told), "{}", stderr(&other));
    for at in (0..saved.len()).step_by(saved.len() / 12) {
        let mut bytes = saved.clone();
        bytes[at] ^= 16;
        fs::write(&state, bytes).unwrap();
        let damaged = adapt(&kept);
        assert_eq!((damaged.status.code(), damaged.stdout.len()), (Some(1), 0), "byte {at}");
        assert!(stderr(&damaged).contains("state.safetensors"), "{}", stderr(&damaged));
    }
    let odd = adapt(&["--set", "data.name=folder"]);
    assert_eq!(odd.status.code(), Some(2), "{}", stderr(&odd));
}

#[test]
fn json_has_an_object_for_every_image_batch_and_save_and_a_summary() {
    let temp = tempfile::tempdir().unwrap();
    let (images, state) = (array(temp.path(), 10), text(&temp.path().join("state")));
    let mut command = adapt_trained(&["--images", &images, "--json", "--state", &state], 4);
    let objects = objects(&command.args(["--checkpoint-every", "2"]).output().unwrap());
    let kinds: Vec<&str> = objects.iter().map(|o| o["event"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("started", "summary"));
    let counts = ["prediction", "batch_done", "saved"].map(|kind| of_kind(&objects, kind).len());
    assert_eq!(counts, [10, 3, 2], "{kinds:?}");
    let first = of_kind(&objects, "prediction")[0];
    assert_eq!(
        (&first["file"], &first["class_index"], &first["class_name"]),
        (&"0".into(), &3.into(), &"cat".into())
    );
    let summary = &objects[objects.len() - 1];
    for (key, value) in [("images", 10), ("batches", 3), ("skipped", 0), ("images_seen", 10)] {
        assert_eq!(summary[key], value, "{key}: {summary}");
    }
    assert_eq!((&summary["end"], &summary["state"]), (&"finished".into(), &state.into()));
}

#[test]
fn as_many_prompts_are_counted_as_the_memory_holds() {
    let temp = tempfile::tempdir().unwrap();
    let (images, state) = (array(temp.path(), 12), temp.path().join("state"));
    // The memory is asked at every forward pass, and no batch is like another: the last pass of a batch makes prompts
    // too.
    let mut command = adapt(&["--images", &images, "--json", "--state", &text(&state)], 4);
    command.args(["--set", "method.preset=reference", "--set", "method.eta=1.0"]);
    let objects = objects(&command.output().unwrap());
    let kept = file::read(&state, Kind::Adaptation, &Device::cpu()).unwrap().state;
    let held = kept.tensors.keys().filter(|name| name.ends_with("/key")).count();
    assert!(held > 3, "{held}");
    assert_eq!(objects[objects.len() - 1]["prompts"]["allocated"], held);
}

#[test]
fn a_model_without_names_leaves_the_column_empty() {
    let temp = tempfile::tempdir().unwrap();
    let weights = Path::new(&trained_weights()).to_owned();
    fs::copy(&weights, temp.path().join("model.safetensors")).unwrap();
    let config = fs::read_to_string(weights.with_file_name("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["pretrained_cfg"].as_object_mut().unwrap().remove("label_names");
    fs::write(temp.path().join("config.json"), config.to_string()).unwrap();
    let mut command = paint();
    command.args(["adapt", "--method", "source", "--images", &array(temp.path(), 1)]);
    command.args(["--weights", &text(&temp.path().join("model.safetensors"))]);
    let csv = stdout(&command.output().unwrap());
    assert!(csv.lines().nth(1).unwrap().starts_with("0,3,,"), "{csv}");
}

#[test]
fn a_damaged_image_is_named_counted_and_skipped_unless_that_is_forbidden() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("photos");
    write_photos(&folder, 6);
    fs::write(folder.join("3.png"), "no image").unwrap();
    let run =
        |extra: &[&str]| adapt(&["--images", &text(&folder)], 2).args(extra).output().unwrap();
    let output = run(&[]);
    assert_eq!(stdout(&output).lines().count(), 6);
    let told = stderr(&output);
    assert!(told.contains("3.png") && told.contains("skipped 1 image that"), "{told}");
    let objects = objects(&run(&["--json"]));
    assert_eq!(of_kind(&objects, "skipped")[0]["file"], "3.png");
    assert_eq!(objects[objects.len() - 1]["skipped"], 1);

    let state = temp.path().join("state");
    let strict = run(&["--strict", "--state", &text(&state)]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(stderr(&strict).contains("3.png"), "{}", stderr(&strict));
    assert!(state.exists(), "what the first batch taught is kept");

    for name in 0..6 {
        fs::write(folder.join(format!("{name}.png")), "no image").unwrap();
    }
    let nothing = run(&[]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("none of the 6 images"), "{}", stderr(&nothing));
}

#[test]
fn files_a_list_standard_input_and_a_folder_are_read_alike() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("photos");
    write_photos(&folder, 5);
    let files: Vec<String> = (0..5).map(|i| text(&folder.join(format!("{i}.png")))).collect();
    let expected = classes(&adapt(&["--images", &text(&folder)], 2).output().unwrap());
    assert_eq!(expected.len(), 5);

    let named: Vec<&str> =
        ["--images"].into_iter().chain(files.iter().map(String::as_str)).collect();
    assert_eq!(classes(&adapt(&named, 2).output().unwrap()), expected);
    let list = temp.path().join("list.txt");
    fs::write(&list, files.join("\n")).unwrap();
    assert_eq!(classes(&adapt(&["--list", &text(&list)], 2).output().unwrap()), expected);

    let mut child = adapt(&["--list", "-"], 2).stdin(Stdio::piped()).spawn().unwrap();
    let mut names = child.stdin.take().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(names, "{}\n{}", files[0], files[1]).unwrap();
    // A batch is predicted as soon as it is named.
    let first: Vec<String> = rows.by_ref().take(3).map(Result::unwrap).collect();
    assert!(first[2].starts_with(&files[1]), "{first:?}");
    writeln!(names, "{}", files[2..].join("\n")).unwrap();
    drop(names);
    assert_eq!(rows.count(), 3);
    assert!(child.wait().unwrap().success());

    let one = adapt_trained(&["--images", &files[1]], 2).output().unwrap();
    assert!(stdout(&one).lines().nth(1).unwrap().contains(",8,ship,"));
    let missing = adapt(&["--images", &files[0], "nowhere.png"], 2).output().unwrap();
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));
    assert!(stderr(&missing).contains("nowhere.png"), "{}", stderr(&missing));
}

#[test]
fn a_line_that_is_no_name_is_told_by_its_number() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("photos");
    write_photos(&folder, 3);
    let files: Vec<String> = (0..3).map(|i| text(&folder.join(format!("{i}.png")))).collect();
    let lines = [files[0].as_bytes(), b"\na\0b.png\ncaf\xe9.png\n", files[1].as_bytes()].concat();
    let list = temp.path().join("list.txt");
    fs::write(&list, &lines).unwrap();
    let output = adapt(&["--list", &text(&list)], 2).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let told = stderr(&output);
    assert!(told.contains("list.txt") && told.contains("line 2: expected"), "{told}");

    let piped = |lines: &[u8], extra: &[&str]| {
        let mut command = adapt(&["--list", "-"], 2);
        let mut child = command.args(extra).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines).unwrap();
        child.wait_with_output().unwrap()
    };
    let skipping = piped(&lines, &[]);
    assert_eq!(stdout(&skipping).lines().count(), 3);
    let told = stderr(&skipping);
    for line in ["standard input, line 2: expected", "standard input, line 3: expected"] {
        assert!(told.contains(line), "{told}");
    }
    assert!(told.contains("skipped 2 images that"), "{told}");
    let counted = objects(&piped(&lines, &["--json"]));
    assert_eq!(counted[counted.len() - 1]["skipped"], 2);
    let strict = piped(&lines, &["--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    assert_eq!(strict.stdout.split(|byte| *byte == b'\n').count(), 3, "the head and the first");
    assert!(stderr(&strict).contains("line 2: expected"), "{}", stderr(&strict));
    let nothing = piped(b"a\0b\n", &[]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("none of the 1 images"), "{}", stderr(&nothing));
}

#[test]
fn a_photograph_is_turned_upright_unless_its_tag_is_ignored() {
    let temp = tempfile::tempdir().unwrap();
    let upright = image(&mosaic(), 1);
    let turned: Vec<u8> = upright.pixels().chunks_exact(3).rev().flatten().copied().collect();
    let turned = Image::new(upright.width(), upright.height(), turned).unwrap();
    let write = |name: &str, image: &Image, tag: Option<u8>| {
        let mut png = Vec::new();
        image.write_png(&mut png).unwrap();
        if let Some(tag) = tag {
            // After the signature and the header: a directory of one entry, the orientation.
            let mut chunk = b"eXIfMM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
            chunk.extend([tag, 0, 0, 0, 0, 0, 0]);
            let crc = crc32(&chunk);
            let length = (chunk.len() as u32 - 4).to_be_bytes();
            png.splice(33..33, [&length[..], &chunk, &crc.to_be_bytes()].concat());
        }
        fs::write(temp.path().join(name), png).unwrap();
        text(&temp.path().join(name))
    };
    let run = |file: &str, extra: &[&str]| {
        let mut command = adapt(&["--json", "--images", file], 1);
        let objects = objects(&command.args(extra).output().unwrap());
        of_kind(&objects, "prediction")[0]["confidence"].as_f64().unwrap()
    };
    let (plain, half) = (write("a.png", &upright, None), write("b.png", &turned, Some(3)));
    let stored = write("c.png", &turned, None);
    let expected = run(&plain, &[]);
    assert_eq!(run(&half, &[]), expected);
    assert_ne!(run(&half, &["--ignore-exif"]), expected);
    assert_eq!(run(&half, &["--ignore-exif"]), run(&stored, &[]));
}

/// The checksum of a PNG chunk.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
#[cfg(unix)]
fn escape_sequences_in_names_reach_neither_terminal_nor_table() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("photos");
    write_photos(&folder, 2);
    let name = "\u{1b}]0;owned\u{7}\u{9b}2J\n.png";
    fs::rename(folder.join("0.png"), folder.join(name)).unwrap();
    fs::write(folder.join("\u{1b}[31m.png"), "no image").unwrap();
    let run =
        |extra: &[&str]| adapt(&["--images", &text(&folder)], 4).args(extra).output().unwrap();
    for extra in [&[][..], &["--json"]] {
        let output = run(extra);
        let shown = [output.stdout.clone(), output.stderr.clone()].concat();
        let shown = String::from_utf8(shown).unwrap();
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
        assert!(stderr(&output).contains(r"\u{1b}[31m.png"), "{}", stderr(&output));
    }
    assert_eq!(stdout(&run(&[])).lines().count(), 3);
    let objects = objects(&run(&["--json"]));
    assert!(of_kind(&objects, "prediction").iter().any(|object| object["file"] == name));
}
