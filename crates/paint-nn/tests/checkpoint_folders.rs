//! Weights as a folder, spread over files with an index, wrapped, or in a format that is refused with the way out.

#![expect(clippy::unwrap_used, reason = "what a test writes can be read")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use paint_nn::checkpoint::{self, Convention, Dtype};

const VALUES: [f32; 4] = [1.0, -2.5, 0.5, 3.0];

/// Writes arrays of four numbers.
fn write(path: &Path, names: &[&str], dtype: Dtype) {
    let arrays = names.iter().map(|name| (*name, &[4_usize][..], &VALUES[..]));
    checkpoint::write_safetensors(path, arrays, dtype, &BTreeMap::new()).unwrap();
}

/// A folder with two files and an index of this content.
fn sharded(map: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("one.safetensors"), &["a", "b"], Dtype::F32);
    write(&folder.path().join("two.safetensors"), &["c"], Dtype::Bf16);
    fs::write(folder.path().join("model.safetensors.index.json"), map).unwrap();
    folder
}

const MAP: &str = r#"{"metadata": {"total_size": 40},
    "weight_map": {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"}}"#;

#[test]
fn a_folder_and_an_index_give_the_arrays_of_all_files() {
    let folder = sharded(MAP);
    let index = folder.path().join("model.safetensors.index.json");
    assert_eq!(checkpoint::locate(folder.path()).unwrap(), index);
    for path in [folder.path(), &index] {
        let arrays = checkpoint::read(path).unwrap();
        assert_eq!(arrays.len(), 3);
        assert_eq!(arrays.get("c").unwrap().data, VALUES);
    }
    assert_eq!(checkpoint::sha256(folder.path()).unwrap(), checkpoint::sha256(&index).unwrap());
    let before = checkpoint::sha256(&index).unwrap();
    write(&folder.path().join("two.safetensors"), &["c"], Dtype::F16);
    assert_ne!(checkpoint::sha256(&index).unwrap(), before, "the files count, not the index alone");
}

#[test]
fn a_folder_is_read_with_the_configuration_inside_it() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("model.safetensors"), &["a"], Dtype::F16);
    let config = r#"{"vision_config": {"num_attention_heads": 7, "layer_norm_eps": 1e-5, "hidden_act": "quick_gelu"}}"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    assert_eq!(checkpoint::read(folder.path()).unwrap().get("a").unwrap().data, VALUES);
    let beside = checkpoint::read_model_config(folder.path()).unwrap();
    assert_eq!((beside.num_heads, beside.layer_norm_eps), (Some(7), Some(1e-5)));
    assert_eq!(beside.activation, Some(checkpoint::Activation::QuickGelu));
    let empty = tempfile::tempdir().unwrap();
    let error = checkpoint::read(empty.path()).unwrap_err().to_string();
    assert!(
        error.contains("folder without weights") && error.contains("model.safetensors"),
        "{error}"
    );
}

#[test]
fn an_index_that_points_elsewhere_or_lies_is_refused_by_name() {
    for (map, words) in [
        ("[]", "no index of weights"),
        ("{", "no index of weights"),
        (r#"{"weight_map": 3}"#, "no index of weights"),
        (r#"{"weight_map": {"a": "../one.safetensors"}}"#, "beside it"),
        (r#"{"weight_map": {"a": "/etc/passwd"}}"#, "beside it"),
        (r#"{"weight_map": {"a": ""}}"#, "beside it"),
        (r#"{"weight_map": {"a": "."}}"#, "beside it"),
        (r#"{"weight_map": {"a": "model.safetensors.index.json"}}"#, "beside it"),
        (r#"{"weight_map": {"a": "three.safetensors"}}"#, "three.safetensors"),
        (
            r#"{"weight_map": {"d": "one.safetensors"}}"#,
            "which the index places in one.safetensors",
        ),
    ] {
        let folder = sharded(map);
        let error = checkpoint::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(words), "{map}: {error}");
    }
    let folder = sharded(MAP);
    write(&folder.path().join("two.safetensors"), &["c", "a"], Dtype::F32);
    let error = checkpoint::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("two.safetensors") && error.contains("\"a\""), "{error}");
    let many: Vec<String> = (0..1001).map(|i| format!(r#""{i}": "{i}.bin""#)).collect();
    let folder = sharded(&format!(r#"{{"weight_map": {{{}}}}}"#, many.join(",")));
    let error = checkpoint::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("at most 1000 files"), "{error}");
}

#[test]
fn a_damaged_file_of_an_index_is_named() {
    let folder = sharded(MAP);
    let path = folder.path().join("two.safetensors");
    let bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = checkpoint::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("two.safetensors"), "{length}: {error}");
    }
}

#[test]
fn other_frameworks_are_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.h5");
    fs::write(&path, b"\x89HDF\r\n\x1a\n\0\0\0\0").unwrap();
    let error = checkpoint::read(&path).unwrap_err().to_string();
    assert!(error.contains("HDF5") && error.contains("safetensors.torch.save_file"), "{error}");
}

#[test]
fn averaged_weights_under_a_prefix_are_unwrapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path, &["ema.module.cls_token", "ema.module.patch_embed.proj.weight"], Dtype::F32);
    let (convention, arrays) = checkpoint::to_timm(checkpoint::read(&path).unwrap()).unwrap();
    assert_eq!(convention, Convention::Timm);
    assert!(arrays.get("cls_token").is_some());
}
