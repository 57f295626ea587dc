//! `paint explain`, as a user reads it.

use serde_json::Value;

use crate::{paint, told};

fn explained(name: &str) -> String {
    let output = paint(&["explain", name]).output().unwrap();
    assert!(output.status.success(), "{name}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_method_shows_paper_needs_keys_and_presets_with_their_sources() {
    let text = explained("eata");
    for told in [
        "method eata\n",
        "https://arxiv.org/abs/2204.02610",
        "unlabelled source images",
        "Keys (--set eata.KEY=VALUE)",
        "  e0 = 0.4  [0 to 1]",
        "  optimizer  [adam, momentum or nesterov]",
        "  cnn_imagenet  ",
        "Next: paint run --method eata",
    ] {
        assert!(text.contains(told), "{told:?} in {text}");
    }
    let paint = explained("paint");
    assert!(paint.contains("  paper_adam (default)"), "{paint}");
    assert!(paint.contains("  eta = 0.2  [-1 to 1]"), "{paint}");
}

#[test]
fn other_names_are_explained_in_their_own_terms() {
    assert!(explained("resnet50").contains("25.6 million, with 1000 classes"));
    assert!(explained("vit_finetune").contains("  epochs = 10  [1 to 1000000]"));
    let gradual = explained("gradual");
    assert!(gradual.contains("  path  [up_and_down or cotta]"), "{gradual}");
    assert!(!gradual.contains("  delta"), "{gradual}");
    let both = explained("cifar10-c");
    assert!(
        both.contains("dataset cifar10-c\n") && both.contains("protocol cifar10-c\n"),
        "{both}"
    );
}

#[test]
fn an_explanation_is_data_too_and_an_unknown_name_is_refused_with_a_hint() {
    let output = paint(&["explain", "tent", "--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found[0]["kind"], "method");
    assert!(found[0]["keys"].as_array().unwrap().iter().any(|key| key["key"] == "lr"), "{found}");
    let output = paint(&["explain", "tend"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("'tent'"), "{}", told(&output));
}
