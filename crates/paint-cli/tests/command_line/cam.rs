//! `paint cam`: what it adapts to and which images it takes.

use std::fs::{self, File};
use std::path::Path;

use paint_data::Image;

use crate::{paint, told};

/// The pixels of one panel of a drawing: 0 is the image, then one for each method, each followed by that of the clean
/// image where it is known.
fn panel(drawing: &Path, index: usize) -> Vec<u8> {
    const SIDE: usize = 192;
    const GAP: usize = 12;
    let image = Image::open(drawing).unwrap();
    let row = image.width() * 3;
    let start = index * (SIDE + GAP) * 3;
    let lines = image.pixels().chunks_exact(row);
    lines.flat_map(|line| &line[start..start + SIDE * 3]).copied().collect()
}

fn cam(out: &Path, flags: &[&str]) -> std::process::Output {
    paint(&["cam", "--count", "1", "--out", out.to_str().unwrap()]).args(flags).output().unwrap()
}

#[test]
fn no_images_to_adapt_to_leaves_every_method_at_the_source_model() {
    let temp = tempfile::tempdir().unwrap();
    for (adapt, same) in [("0", true), ("100", false)] {
        let out = temp.path().join(adapt);
        let output =
            cam(&out, &["--methods", "source,tent", "--adapt", adapt, "--set", "tent.lr=0.1"]);
        assert!(output.status.success(), "{}", told(&output));
        let drawing = out.join("000.png");
        assert_eq!(panel(&drawing, 2) == panel(&drawing, 4), same, "--adapt {adapt}");
        assert_eq!(panel(&drawing, 3) == panel(&drawing, 5), same, "--adapt {adapt}, clean");
    }
}

/// Two images in subfolders that are no classes of the embedded model.
fn holiday(folder: &Path) -> String {
    for (place, value) in [("monday/a.png", 60), ("tuesday/b.png", 200)] {
        let path = folder.join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let pixels = (0..32 * 32 * 3).map(|i| (value + i % 50) as u8).collect();
        Image::new(32, 32, pixels).unwrap().write_png(File::create(path).unwrap()).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn a_folder_of_any_names_is_drawn_and_corrupted_where_that_is_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    let images = holiday(&temp.path().join("images"));
    let flags = ["--images", &images, "--methods", "source", "--adapt", "2"];
    let (plain, noisy) = (temp.path().join("plain"), temp.path().join("noisy"));
    let output = cam(&plain, &flags);
    assert!(output.status.success(), "{}", told(&output));
    assert!(told(&output).contains("labels are ignored: "), "{}", told(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("unknown"));
    let output = cam(&noisy, &[&flags[..], &["--corruption", "gaussian_noise"]].concat());
    assert!(output.status.success(), "{}", told(&output));
    let drawing = |out: &Path| panel(&out.join("000.png"), 0);
    assert!(drawing(&plain) != drawing(&noisy), "--corruption changes the images");
}

#[test]
fn a_file_in_the_place_of_the_folder_is_found_before_anything_is_adapted() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("file");
    fs::write(&out, "").unwrap();
    // Weights that do not exist would be noticed next.
    let output = cam(&out, &["--weights", "nothing"]);
    assert!(told(&output).contains("expected a folder, found a file"), "{}", told(&output));
}
