//! `paint corrupt`, `paint data verify` and `paint list`, as a user runs them.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Output},
};

use paint_data::{Image, dataset};

fn paint(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paint")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn gradient(shift: usize) -> Image {
    let pixel = |i: usize| [(i % 40 * 6) as u8, (i / 40 * 8) as u8, (shift * 50) as u8];
    Image::new(40, 30, (0..1200).flat_map(pixel).collect()).unwrap()
}

/// Two classes, one image as PNG and one as JPEG.
fn write_folder(root: &Path) {
    for (name, class) in [("one.png", "a"), ("two.jpg", "b")] {
        fs::create_dir_all(root.join(class)).unwrap();
        let file = File::create(root.join(class).join(name)).unwrap();
        if name.ends_with("png") {
            gradient(0).write_png(file)
        } else {
            gradient(1).write_jpeg(file, 95)
        }
        .unwrap();
    }
}

/// Every file below a folder with its bytes.
fn contents(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((
                    text(path.strip_prefix(root).unwrap()).to_owned(),
                    fs::read(&path).unwrap(),
                ));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_folder_becomes_the_imagenet_c_layout_and_a_stopped_run_goes_on() {
    let temp = tempfile::tempdir().unwrap();
    let (input, out) = (temp.path().join("in"), temp.path().join("out"));
    write_folder(&input);
    let arguments = [
        "corrupt",
        text(&input),
        "--out",
        text(&out),
        "--corruption",
        "contrast,shot_noise",
        "--severity",
        "2,5",
    ];
    assert_eq!(stdout(&paint(&arguments)), "8 files written, 0 kept\n");
    let first = contents(&out);
    let names: Vec<&str> = first.iter().map(|file| file.0.as_str()).collect();
    assert_eq!(names.len(), 9);
    assert_eq!(
        names[..4],
        [
            "contrast/2/a/one.JPEG",
            "contrast/2/b/two.jpg",
            "contrast/5/a/one.JPEG",
            "contrast/5/b/two.jpg"
        ]
    );

    fs::remove_file(out.join("shot_noise/5/a/one.JPEG")).unwrap();
    assert_eq!(stdout(&paint(&arguments)), "1 files written, 7 kept\n");
    assert_eq!(contents(&out), first);

    let other_seed = paint(&[&arguments[..], &["--seed", "1"]].concat());
    assert_eq!(other_seed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other_seed.stderr).contains("other settings (seed)"));

    // An image that was replaced under its name, and one that came in.
    let image = input.join("a/one.png");
    let own = fs::read(&image).unwrap();
    gradient(9).write_png(File::create(&image).unwrap()).unwrap();
    let replaced = paint(&arguments);
    assert!(String::from_utf8_lossy(&replaced.stderr).contains("other settings (images)"));
    fs::write(&image, own).unwrap();
    assert!(paint(&arguments).status.success());
    fs::copy(&image, input.join("a/0.png")).unwrap();
    let added = paint(&arguments);
    assert!(String::from_utf8_lossy(&added.stderr).contains("other settings (images)"));
}

#[test]
fn an_output_in_the_folder_of_its_input_is_refused_and_spoils_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let input = temp.path().join("in");
    write_folder(&input);
    let before = contents(&input);
    let (inside, around) = (input.join("new/corrupted"), input.join("a/../../in"));
    for out in [&input, &inside, &around] {
        let output = paint(&["corrupt", text(&input), "--out", text(out)]);
        assert_eq!(output.status.code(), Some(2), "{}", out.display());
        assert!(String::from_utf8_lossy(&output.stderr).contains("outside the input"));
    }
    assert_eq!(contents(&input), before);
    let missing = paint(&["corrupt", "nowhere", "--out", text(&temp.path().join("none"))]);
    assert!(!missing.status.success() && !temp.path().join("none").exists());
    // A name that only begins like the input's is another folder.
    let beside = temp.path().join("in-C");
    let few = ["--corruption", "all", "--severity", "1"];
    let arguments = [&["corrupt", text(&input), "--out", text(&beside)], &few[..]].concat();
    assert_eq!(stdout(&paint(&arguments)), "38 files written, 0 kept\n");
}

#[test]
fn an_array_becomes_the_cifar_10_c_layout_that_the_dataset_reads() {
    let temp = tempfile::tempdir().unwrap();
    let (input, out) = (temp.path().join("images.npy"), temp.path().join("out"));
    let images: Vec<Image> = (0..3).map(gradient).collect();
    let write = |path: &Path, shape: &[usize], data: &[u8]| {
        paint_data::write_atomically(path, |file| {
            paint_data::NpyWriter::new(file, shape)?.write(data)
        })
        .unwrap();
    };
    let pixels: Vec<u8> = images.iter().flat_map(Image::pixels).copied().collect();
    write(&input, &[3, 30, 40, 3], &pixels);
    write(&temp.path().join("labels.npy"), &[3], &[4, 0, 9]);
    let arguments =
        ["corrupt", text(&input), "--out", text(&out), "--corruption", "contrast", "--seed", "3"];
    fs::create_dir(&out).unwrap();
    let half_done = out.join(".contrast.npy.7-0.tmp");
    fs::write(&half_done, b"left by a killed run").unwrap();
    assert_eq!(stdout(&paint(&arguments)), "2 files written, 0 kept\n");
    assert!(!half_done.exists());
    let data =
        (dataset::entry("cifar10-c").unwrap().open)(&out, &dataset::Options::default()).unwrap();
    assert_eq!((data.domains().len(), data.len(0), data.label(4, 2)), (5, 3, Some(9)));
    let contrast = paint_data::corruption::by_name("contrast").unwrap();
    let mut rng = contrast.stream(paint_rng::Seed(3), 5, 1);
    let expected =
        contrast.apply(&images[1], 5, paint_data::corruption::Table::Cifar, &mut rng).unwrap();
    assert_eq!(data.sample(4, 1).unwrap().image, expected);
    assert_eq!(stdout(&paint(&arguments)), "0 files written, 2 kept\n");
    // One's own need not be all that was published.
    let verify = ["data", "verify", text(&out), "--dataset", "cifar10-c"];
    assert_eq!(stdout(&paint(&verify)), "cifar10-c: 15 images in 5 domains, 10 classes: sound\n");
    write(&temp.path().join("labels.npy"), &[3], &[4, 0, 8]);
    let relabelled = paint(&arguments);
    assert!(String::from_utf8_lossy(&relabelled.stderr).contains("other settings (images)"));
    // A note without anything beside it is of a run that failed.
    fs::remove_file(out.join("labels.npy")).unwrap();
    fs::remove_file(out.join("contrast.npy")).unwrap();
    assert_eq!(stdout(&paint(&arguments)), "2 files written, 0 kept\n");
}

#[test]
fn a_sheet_shows_every_corruption_and_severity_in_colour() {
    let temp = tempfile::tempdir().unwrap();
    let (input, sheet) = (temp.path().join("in"), temp.path().join("sheet.png"));
    write_folder(&input);
    let out = paint(&[
        "corrupt",
        text(&input),
        "--sheet",
        text(&sheet),
        "--corruption",
        "contrast,brightness",
    ]);
    assert!(stdout(&out).contains("sheet.png"));
    let sheet = Image::open(&sheet).unwrap();
    // Names of ten letters, six columns and two rows of 96 with gaps of 4, a line of text above.
    assert_eq!((sheet.width(), sheet.height()), (10 * 12 + 8 + 6 * 100, 14 + 8 + 2 * 100));
}

#[test]
fn verify_counts_a_sound_folder_and_names_a_broken_file() {
    let temp = tempfile::tempdir().unwrap();
    write_folder(temp.path());
    let verify = ["data", "verify", text(temp.path()), "--dataset", "folder"];
    assert_eq!(stdout(&paint(&verify)), "folder: 2 images in 1 domains, 2 classes: sound\n");
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&paint(&[&verify[..], &["--json"]].concat()))).unwrap();
    assert_eq!(json["images"], 2);
    fs::write(temp.path().join("a/broken.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let broken = paint(&verify);
    assert_eq!(broken.status.code(), Some(1));
    let told = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(told.contains("broken.png") && told.lines().count() == 1, "{told}");
}

#[test]
fn wrong_usage_ends_with_status_2_and_says_what_is_known() {
    let temp = tempfile::tempdir().unwrap();
    write_folder(temp.path());
    let input = text(temp.path());
    let cases: [(&[&str], &str); 6] = [
        (&["corrupt", input], "--out"),
        (&["corrupt", input, "--out", input, "--corruption", "rain"], "contrast"),
        (&["corrupt", input, "--out", input, "--severity", "6"], "6"),
        (
            &["corrupt", input, "--out", input, "--format", "cifar-10-c", "--severity", "5"],
            "five severities",
        ),
        (&["data", "verify", input, "--dataset", "imagenet-z"], "imagenet-c"),
        (&["list", "colours"], "corruptions"),
    ];
    for (arguments, named) in cases {
        let output = paint(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), told.contains(named)),
            (Some(2), true),
            "{arguments:?}: {told}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn lists_are_loops_over_the_tables_also_as_json() {
    for (topic, name) in
        [("datasets", "cifar10-c"), ("corruptions", "contrast"), ("scenarios", "gradual")]
    {
        assert!(
            stdout(&paint(&["list", topic])).lines().any(|line| line.starts_with(name)),
            "{topic}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&stdout(&paint(&["list", topic, "--json"]))).unwrap();
        assert!(json.as_array().unwrap().iter().any(|row| row["name"] == name));
    }
}
