//! `paint inspect` says what the loader would say, and `paint run` says the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use paint_nn::checkpoint::{self, Dtype};
use serde_json::Value;

use crate::{paint, told};

type Arrays = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The arrays of the embedded model, without its `config.json`.
fn vit() -> Arrays {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../paint-run/assets");
    let file =
        checkpoint::read(assets.join("vit_tiny_patch4_32_cifar10/model.safetensors")).unwrap();
    let array = |(name, array): (String, checkpoint::Array)| (name, (array.shape, array.data));
    file.into_iter().map(array).collect()
}

/// Zeros of these shapes.
fn zeros(shapes: &[(&str, &[usize])]) -> Arrays {
    let array = |&(name, shape): &(&str, &[usize])| {
        (name.to_owned(), (shape.to_vec(), vec![0.0; shape.iter().product()]))
    };
    shapes.iter().map(array).collect()
}

/// A ResNet-20 for CIFAR with the names of its publisher, which are torchvision's but for the classifier.
fn resnet20() -> Arrays {
    let mut arrays = Arrays::new();
    let mut add = |name: String, shape: &[usize]| {
        arrays.insert(name, (shape.to_vec(), vec![0.5; shape.iter().product()]));
    };
    let norm = |name: &str, channels: usize, add: &mut dyn FnMut(String, &[usize])| {
        for part in ["weight", "bias", "running_mean", "running_var"] {
            add(format!("{name}.{part}"), &[channels]);
        }
    };
    add("conv1.weight".into(), &[16, 3, 3, 3]);
    norm("bn1", 16, &mut add);
    let mut inputs = 16;
    for (stage, outputs) in [(1, 16), (2, 32), (3, 64)] {
        for block in 0..3 {
            let name = |layer: &str| format!("layer{stage}.{block}.{layer}");
            add(name("conv1.weight"), &[outputs, inputs, 3, 3]);
            norm(&name("bn1"), outputs, &mut add);
            add(name("conv2.weight"), &[outputs, outputs, 3, 3]);
            norm(&name("bn2"), outputs, &mut add);
            inputs = outputs;
        }
    }
    add("linear.weight".into(), &[10, 64]);
    add("linear.bias".into(), &[10]);
    arrays
}

fn write(folder: &Path, name: &str, arrays: &Arrays) -> PathBuf {
    let path = folder.join(name);
    let list = arrays.iter().map(|(name, (shape, data))| (name.as_str(), &shape[..], &data[..]));
    checkpoint::write_safetensors(&path, list, Dtype::F32, &BTreeMap::new()).unwrap();
    path
}

fn inspect(path: &Path) -> (Output, Value) {
    let output = paint(&["inspect", path.to_str().unwrap(), "--json"]).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, report)
}

/// `paint run` with the preprocessing that lies nowhere beside the weights.
fn run(path: &Path, out: &Path) -> Output {
    let sizes = ["model.mean=[0.5,0.5,0.5]", "model.std=[0.5,0.5,0.5]", "model.input_size=[32,32]"];
    let sizes = sizes.iter().flat_map(|size| ["--set", size]);
    let mut command =
        paint(&["run", "--method", "source", "--dataset", "embedded", "--limit", "1"]);
    command.args(["--weights", path.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    command.args(sizes).output().unwrap()
}

#[test]
fn networks_that_are_not_built_here_are_named_by_inspect_and_by_run() {
    let temp = tempfile::tempdir().unwrap();
    let layer_scale = {
        let mut arrays = vit();
        for block in 0..12 {
            arrays.insert(format!("blocks.{block}.ls1.gamma"), (vec![192], vec![0.1; 192]));
        }
        arrays
    };
    let clip = {
        let mut arrays = vit();
        arrays.remove("patch_embed.proj.bias");
        arrays.insert("norm_pre.weight".into(), (vec![192], vec![1.0; 192]));
        arrays
    };
    let heads = {
        let mut arrays = vit();
        arrays.insert("blocks.0.attn.q_norm.weight".into(), (vec![64], vec![1.0; 64]));
        arrays
    };
    let swin_v2 = zeros(&[
        ("patch_embed.proj.weight", &[96, 3, 4, 4]),
        ("layers.0.blocks.0.attn.logit_scale", &[3, 1, 1]),
        ("layers.0.blocks.0.norm1.weight", &[96]),
        ("head.fc.weight", &[10, 768]),
    ]);
    let headless = {
        let mut arrays = vit();
        arrays.retain(|name, _| !name.starts_with("head."));
        arrays
    };
    for (name, arrays, words) in [
        ("half a layer scale", layer_scale, ["missing", "blocks.0.ls2.gamma"].as_slice()),
        ("half a norm", clip, &["missing", "norm_pre.bias"]),
        ("norms of heads", heads, &["norms of queries and keys"]),
        ("swin_v2", swin_v2, &["a Swin Transformer V2", "paint list backbones"]),
        ("headless", headless, &["they lack a classifier"]),
    ] {
        let path = write(temp.path(), name, &arrays);
        let (output, report) = inspect(&path);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", told(&output));
        let problems = report["problems"].to_string();
        let ran = run(&path, &temp.path().join("out"));
        assert_eq!(ran.status.code(), Some(1), "{name}: {}", told(&ran));
        for word in words {
            assert!(problems.contains(word), "{name}: {problems}");
            assert!(told(&ran).contains(word), "{name}: {}", told(&ran));
        }
    }
}

#[test]
fn a_residual_network_is_named_by_its_arrays_alone() {
    let temp = tempfile::tempdir().unwrap();
    let path = write(temp.path(), "model.safetensors", &resnet20());
    let (output, report) = inspect(&path);
    assert_eq!(report["backbone"], "cifar_resnet20", "{report}");
    // The preprocessing is still unknown, and no other problem.
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["problems"].as_array().unwrap().len(), 1, "{report}");
    let out = temp.path().join("out");
    let ran = run(&path, &out);
    assert!(ran.status.success(), "{}", told(&ran));
    let config = fs::read_to_string(out.join("config.toml")).unwrap();
    assert!(config.contains("backbone = \"cifar_resnet20\""), "{config}");
}

#[test]
fn a_swin_is_read_off_its_arrays_and_what_its_sizes_imply_is_left_out() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/families");
    let file = checkpoint::read(fixtures.join("torchvision_swin.safetensors")).unwrap();
    let param = |(name, array): (String, checkpoint::Array)| {
        Some((name.strip_prefix("param.")?.to_owned(), (array.shape, array.data)))
    };
    let temp = tempfile::tempdir().unwrap();
    let arrays = file.into_iter().filter_map(param).collect();
    let path = write(temp.path(), "model.safetensors", &arrays);
    let (output, report) = inspect(&path);
    let found = &report["architecture"];
    assert_eq!(found["family"], "swin", "{}", told(&output));
    assert_eq!(found["num_heads"], serde_json::json!([2, 4]));
    assert_eq!(found["window_size"], 4);
    let text = paint(&["inspect", path.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("Swin Transformer, blocks [2, 2]"), "{text}");
}

#[test]
fn numbers_that_are_none_are_a_problem_of_the_weights() {
    let temp = tempfile::tempdir().unwrap();
    let mut arrays = vit();
    let (_, data) = arrays.get_mut("blocks.3.attn.proj.weight").unwrap();
    (data[5], data[9]) = (f32::NAN, f32::INFINITY);
    let path = write(temp.path(), "model.safetensors", &arrays);
    let (output, report) = inspect(&path);
    assert_eq!(output.status.code(), Some(1));
    let words = "NaN or infinity in 2 of the 36864 numbers of \\\"blocks.3.attn.proj.weight\\\"";
    assert!(report["problems"].to_string().contains(words), "{report}");
    let ran = run(&path, &temp.path().join("out"));
    assert!(told(&ran).contains("NaN or infinity in 2"), "{}", told(&ran));
}
