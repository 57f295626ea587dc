//! One rule for exit codes: 0 success, 1 the work failed, 2 the request is wrong.

use std::fs;

use crate::{paint, told};

/// The arguments after `paint`, separated by spaces; `TMP` stands for an empty folder, `FILE` for a text file in it.
const CASES: &[(i32, &str)] = &[
    (0, "--version"),
    (0, "--help"),
    (0, "list methods"),
    (0, "explain paint"),
    (0, "inspect ASSETS/vit_tiny_patch4_32_cifar10/model.safetensors"),
    (0, "run --method source --dataset embedded --weights embedded --limit 1 --out TMP/run"),
    // A file is missing or is something else.
    (1, "inspect TMP/nothing"),
    (1, "inspect FILE"),
    (1, "data verify TMP/nothing --dataset cifar10"),
    (1, "corrupt TMP/nothing --out TMP/corrupt"),
    (1, "report TMP/nothing"),
    (1, "report ASSETS"),
    (1, "cam --images TMP/nothing --out TMP/cam"),
    (1, "run --method source --dataset npy --data TMP/nothing --weights embedded --out TMP/run"),
    (1, "run --method source --dataset embedded --weights TMP/nothing --out TMP/run"),
    (1, "run --config TMP/nothing"),
    (1, "bench --protocol embedded --methods source --weights TMP/nothing --out TMP/bench"),
    (1, "train --dataset npy --data TMP/nothing --backbone cifar_resnet20 --out TMP/train"),
    (1, "train --dataset embedded --weights TMP/nothing --backbone cifar_resnet20 --out TMP/train"),
    // A name or a key does not exist, or a value is out of range.
    (2, "explode"),
    (2, "list nothing"),
    (2, "explain nothing"),
    (2, "run"),
    (2, "report TMP --metric precision"),
    (2, "run --method sauce --dataset embedded --weights embedded --out TMP/run"),
    (2, "run --method source --dataset embedded --weights embedded --out TMP/run --set sede=1"),
    (2, "run --method source --dataset embedded --weights embedded --out TMP/run --device tpu"),
    (2, "run --method source --dataset embedded --data x --weights embedded --out TMP/run"),
    (2, "bench"),
    (2, "bench --protocol nothing --methods source"),
    (2, "bench --protocol embedded --methods sauce --out TMP/bench"),
    (2, "bench step --backbone resnet50"),
    (2, "bench step --weights w.safetensors --dump d.safetensors"),
    (2, "cam --methods sauce --out TMP/cam"),
    (2, "corrupt ASSETS --out TMP/corrupt --corruption rain"),
    (2, "data verify TMP --dataset nothing"),
    (2, "demo --images 0"),
    (2, "train --dataset embedded --data x --backbone cifar_resnet20 --out TMP/train"),
    (2, "train --dataset embedded --backbone nothing --out TMP/train"),
    (2, "train --dataset embedded --backbone cifar_resnet20 --set lr=-1 --out TMP/train"),
];

#[test]
fn every_command_follows_the_rule() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("tmp");
    fs::create_dir(&folder).unwrap();
    let file = temp.path().join("file.txt");
    fs::write(&file, "no weights").unwrap();
    let assets = concat!(env!("CARGO_MANIFEST_DIR"), "/../paint-run/assets");
    for (status, line) in CASES {
        let place = |word: &str| {
            word.replace("TMP", folder.to_str().unwrap())
                .replace("FILE", file.to_str().unwrap())
                .replace("ASSETS", assets)
        };
        let words: Vec<String> = line.split(' ').map(place).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = paint(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(*status), "{line}: {}", told(&output));
        assert!(*status == 0 || !output.stderr.is_empty(), "{line}: a failure without a word");
    }
}
