//! `--dry-run`: everything that would count, and nothing done.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{paint, told};

const RUN: [&str; 10] = [
    "run",
    "--method",
    "tent",
    "--dataset",
    "embedded",
    "--corrupt",
    "--weights",
    "embedded",
    "--limit",
    "4",
];

/// What a command prints that starts in an empty folder; the folder must stay empty.
fn printed(args: &[&str], folder: &Path) -> String {
    let output = paint(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", told(&output));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "{args:?} left something");
    String::from_utf8(output.stdout).unwrap()
}

fn line<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key} in {text}"))
}

#[test]
fn a_run_is_printed_with_the_origin_of_every_value_and_the_print_gives_it_again() {
    let temp = tempfile::tempdir().unwrap();
    let empty = tempfile::tempdir().unwrap();
    let args = [&RUN[..], &["--set", "tent.lr=0.5", "--dry-run"]].concat();
    let text = printed(&args, empty.path());
    assert!(text.starts_with("# 60 images in 15 batches\n"), "{text}");
    assert!(line(&text, "lr = 0.5").ends_with("# given"), "{text}");
    assert!(line(&text, "optimizer").ends_with("# preset vit_cifar10"), "{text}");
    assert!(line(&text, "backbone").ends_with("# from the weights"), "{text}");
    assert!(line(&text, "out = \"out/tent\"").ends_with("# default"), "{text}");
    let document = temp.path().join("run.toml");
    fs::write(&document, &text).unwrap();
    let again = ["run", "--config", document.to_str().unwrap(), "--dry-run", "--json"];
    let again: Value = serde_json::from_str(&printed(&again, empty.path())).unwrap();
    assert_eq!(again["config"]["method"]["lr"], 0.5);
    assert_eq!(again["origins"]["method.optimizer"], "given");
    let values: toml::Table = text.parse().unwrap();
    assert_eq!(serde_json::to_value(values).unwrap(), again["config"]);
}

#[test]
fn a_benchmark_is_printed_as_a_protocol_with_its_rows_and_runs() {
    let temp = tempfile::tempdir().unwrap();
    let empty = tempfile::tempdir().unwrap();
    let args = ["bench", "--protocol", "embedded", "--methods", "source,tent", "--seeds", "0..1"];
    let text = printed(&[&args[..], &["--dry-run"]].concat(), empty.path());
    assert!(
        text.contains("# 4 runs in out/bench-embedded; nothing was run or written\n"),
        "{text}"
    );
    assert!(line(&text, "# row tent: ").contains("optimizer = \"momentum\""), "{text}");
    let hash = line(&text, "# protocol embedded ").rsplit(' ').next().unwrap().to_owned();
    let document = temp.path().join("protocol.toml");
    fs::write(&document, &text).unwrap();
    let file = ["bench", "--protocol", document.to_str().unwrap(), "--methods", "source,tent"];
    let again = printed(&[&file[..], &["--dry-run", "--json"]].concat(), empty.path());
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["hash"], hash.as_str());
    assert_eq!(again["runs"].as_array().unwrap().len(), 4);
}

#[test]
fn adaptation_and_training_are_printed_too() {
    let empty = tempfile::tempdir().unwrap();
    let images =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../paint-data/assets/cifar10_test_1000");
    let adapt = ["adapt", "--weights", "embedded", "--images", images.to_str().unwrap()];
    let text = printed(&[&adapt[..], &["--method", "keel", "--dry-run"]].concat(), empty.path());
    assert!(text.starts_with("# 1 images in batches of 50\n# what is learnt is lost"), "{text}");
    assert!(line(&text, "strength").ends_with("# preset vit_cifar10"), "{text}");
    let train = ["train", "--dataset", "embedded", "--backbone", "vit_tiny_patch4_32"];
    let flags = ["--epochs", "3", "--set", "lr=0.5", "--dry-run"];
    let text = printed(&[&train[..], &flags].concat(), empty.path());
    assert!(text.starts_with("# vit_tiny_patch4_32 from scratch, seed 0\n"), "{text}");
    assert!(line(&text, "lr = 0.5").ends_with("# changed, 0.001 in preset vit"), "{text}");
    assert!(line(&text, "clip").ends_with("# preset vit"), "{text}");
    // Shortened to the training.
    assert!(line(&text, "warmup_epochs = 3.0").contains("changed, 10.0"), "{text}");
}
