//! `paint stats`, and `keel` with what it writes, as a user runs them.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use paint_data::Image;

fn paint(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_paint")).current_dir(folder).args(args).output().unwrap()
}

fn write_images(folder: &Path) {
    for class in ["a", "b"] {
        fs::create_dir_all(folder.join(class)).unwrap();
        for i in 0..3_usize {
            let pixel =
                |at: usize| [(at * 7 + i * 40) as u8, (at / 32 * 8) as u8, (at % 32 * 8) as u8];
            let image = Image::new(32, 32, (0..1024).flat_map(pixel).collect()).unwrap();
            image
                .write_png(File::create(folder.join(class).join(format!("{i}.png"))).unwrap())
                .unwrap();
        }
    }
}

#[test]
fn statistics_of_a_folder_serve_keel_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_images(&folder.path().join("clean"));
    let stats = |args: &[&str]| {
        paint(
            folder.path(),
            &[&["stats", "--weights", "embedded", "--images", "clean"], args].concat(),
        )
    };
    let refused = stats(&[]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let written = stats(&["--out", "s.safetensors", "--json"]);
    assert!(written.status.success(), "{written:?}");
    assert!(String::from_utf8_lossy(&written.stdout).contains("\"images\": 6"), "{written:?}");
    let run = |statistics: &str, out: &str| {
        let setting = format!("method.statistics={statistics}");
        let settings =
            ["--set", setting.as_str(), "--limit", "4", "--batch-size", "4", "--out", out];
        let run = ["run", "--dataset", "embedded", "--weights", "embedded", "--method", "keel"];
        paint(folder.path(), &[&run[..], &settings[..]].concat())
    };
    let done = run("s.safetensors", "out");
    assert!(done.status.success(), "{done:?}");
    fs::write(folder.path().join("no.safetensors"), "not one").unwrap();
    for (file, word) in
        [("no.safetensors", "no.safetensors"), ("missing.safetensors", "missing.safetensors")]
    {
        let refused = run(file, "other");
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && message.contains(word), "{message}");
    }
}
