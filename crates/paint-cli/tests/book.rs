//! Every command of the book is run, chapter by chapter, each in a folder of its own with a model and some photographs.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use paint_data::dataset::{CIFAR10_CLASSES, embedded};
use paint_data::{Dataset as _, Sample};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of a chapter that begin with ```` ```language ````, in order.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_end() == fence {
            blocks.push(
                lines
                    .by_ref()
                    .take_while(|line| *line != "```")
                    .fold(String::new(), |block, line| block + line + "\n"),
            );
        }
    }
    blocks
}

/// What the chapters take for granted: weights with their description, photographs, and some that lie in folders by
/// class.
fn furnish(folder: &Path) {
    let assets = root().join("crates/paint-run/assets/vit_tiny_patch4_32_cifar10");
    for name in ["model.safetensors", "config.json"] {
        fs::copy(assets.join(name), folder.join(name)).unwrap();
    }
    let images = embedded().unwrap();
    let write = |path: PathBuf, index: usize| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let Sample { image, .. } = images.sample(0, index).unwrap();
        image.write_png(File::create(path).unwrap()).unwrap();
    };
    for index in 0..40 {
        let name = format!("{index:03}.png");
        write(folder.join("photos").join(&name), index);
        write(folder.join("more_photos").join(&name), 40 + index);
        let class = CIFAR10_CLASSES[images.label(0, index).unwrap()];
        write(folder.join("labelled").join(class).join(&name), index);
    }
}

/// Runs the commands of a chapter as one script that ends with the first failure.
fn run(name: &str) {
    let text = fs::read_to_string(root().join("docs/src").join(name)).unwrap();
    let script = blocks(&text, "sh").concat();
    assert!(!script.is_empty(), "{name} has no commands");
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path());
    let program = Path::new(env!("CARGO_BIN_EXE_paint")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euc", &script]).env("PATH", path).current_dir(folder.path());
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}:\n{script}\n{said}");
}

/// The chapters with commands; `install.md` to `serving.md` in the order of the book.
const CHAPTERS: [&str; 8] = [
    "install.md",
    "first-adaptation.md",
    "is-it-helping.md",
    "choosing-a-method.md",
    "tuning.md",
    "benchmarks.md",
    "many-machines.md",
    "serving.md",
];

#[test]
fn the_commands_of_every_chapter_run() {
    CHAPTERS.iter().for_each(|name| run(name));
}

#[test]
fn no_chapter_is_left_out_of_the_contents_or_of_these_tests() {
    let source = root().join("docs/src");
    let contents = fs::read_to_string(source.join("SUMMARY.md")).unwrap();
    for entry in fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "SUMMARY.md" || path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        assert!(contents.contains(&format!("({name})")), "{name} is not in SUMMARY.md");
        let text = fs::read_to_string(source.join(name)).unwrap();
        let has_commands = !blocks(&text, "sh").is_empty();
        assert_eq!(has_commands, CHAPTERS.contains(&name), "{name}");
        let fences = text.lines().filter_map(|line| line.strip_prefix("```"));
        let known = ["", "sh", "sh,no-run", "python", "python,torch", "text"];
        fences.for_each(|fence| assert!(known.contains(&fence), "{name}: who runs {fence:?}?"));
    }
}
