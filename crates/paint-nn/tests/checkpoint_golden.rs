//! Every format and naming convention against files from the libraries that own them (`fixtures/checkpoints`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use paint_nn::checkpoint::{
    self, Architecture, Checkpoint, Convention, CropMode, Dtype, Error, Format, HeadsFrom,
    Interpolation, ModelConfig, PreprocessFlags,
};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/checkpoints").join(name)
}

fn read(name: &str) -> Checkpoint {
    checkpoint::read(fixture(name)).expect(name)
}

/// Equal names, shapes and bits, in any order.
fn assert_same_arrays(found: &Checkpoint, expected: &Checkpoint, what: &str) {
    let names = |checkpoint: &Checkpoint| {
        let mut names: Vec<String> = checkpoint.iter().map(|(name, _)| name.to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(found), names(expected), "{what}");
    for (name, array) in expected.iter() {
        let other = found.get(name).expect(name);
        assert_eq!(other.shape, array.shape, "{what}: {name}");
        assert_eq!(other.data, array.data, "{what}: {name}");
    }
}

#[test]
fn every_container_gives_the_tensors_that_torch_saved() {
    let expected = read("tensors.safetensors");
    assert_eq!((expected.format, expected.len()), (Format::SafeTensors, 20));
    for (name, format) in [
        ("torch_zip.pth", Format::TorchZip),
        ("torch_protocol4.pth", Format::TorchZip),
        ("torch_bare.pt", Format::TorchZip),
        ("torch_deflated.pth", Format::TorchZip),
        ("torch_zip64.pth", Format::TorchZip),
        ("torch_legacy.th", Format::TorchLegacy),
        ("numpy.npz", Format::Npz),
        ("numpy_compressed.npz", Format::Npz),
    ] {
        let found = read(name);
        assert_eq!(found.format, format, "{name}");
        assert_same_arrays(&found, &expected, name);
    }
    let single = read("array.npy");
    assert_eq!(single.format, Format::Npy);
    assert_eq!(single.get("array").unwrap().data, expected.get("plain").unwrap().data);
}

#[test]
fn element_types_are_those_of_the_file() {
    for name in ["torch_zip.pth", "torch_legacy.th", "numpy.npz"] {
        let found = read(name);
        for (array, dtype) in [
            ("plain", Dtype::F32),
            ("half", Dtype::F16),
            ("bfloat", Dtype::Bf16),
            ("double", Dtype::F64),
            ("int64", Dtype::I64),
            ("int32", Dtype::I32),
            ("int16", Dtype::I16),
            ("int8", Dtype::I8),
            ("uint8", Dtype::U8),
            ("bool", Dtype::Bool),
        ] {
            assert_eq!(found.get(array).unwrap().dtype, dtype, "{name}: {array}");
        }
    }
}

#[test]
fn what_lies_beside_the_weights_is_told_and_not_interpreted() {
    for name in ["torch_zip.pth", "torch_legacy.th", "torch_protocol4.pth"] {
        let found = read(name);
        let metadata: Vec<(&str, &str)> =
            found.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected = [
            ("best_accuracy", "91.5"),
            ("done", "True"),
            ("epoch", "3"),
            ("name", "tiny"),
            ("nothing", "None"),
        ];
        assert_eq!(metadata, expected, "{name}");
        let mut skipped: Vec<&str> = found.skipped.iter().map(|(key, _)| key.as_str()).collect();
        skipped.sort_unstable();
        assert_eq!(skipped, ["args", "dtype", "error", "folder", "history", "optimizer"], "{name}");
        let args = found.skipped.iter().find(|(key, _)| key == "args").unwrap();
        assert_eq!(args.1, "an object of argparse.Namespace, not interpreted", "{name}");
    }
    assert_eq!(read("numpy.npz").skipped, [("note".to_owned(), "<U7".to_owned())]);
}

#[test]
fn one_vit_under_every_convention_gives_equal_arrays() {
    let expected = read("timm/model.safetensors");
    for (name, convention) in [
        ("timm/model.safetensors", Convention::Timm),
        ("timm_wrapped.pth", Convention::Timm),
        ("huggingface/model.safetensors", Convention::HuggingFace),
        ("huggingface_modules.pth", Convention::HuggingFace),
        ("torchvision.pth", Convention::Torchvision),
        ("google.npz", Convention::Google),
        ("big_vision.npz", Convention::Google),
    ] {
        let (found, weights) = checkpoint::to_timm(read(name)).unwrap();
        assert_eq!(found, convention, "{name}");
        assert_same_arrays(&weights, &expected, name);
        let config = ModelConfig { num_heads: Some(3), ..ModelConfig::default() };
        let Architecture::Vit(sizes) = Architecture::detect(&weights, &config).unwrap() else {
            panic!("{name}: not a ViT")
        };
        assert_eq!((sizes.embed_dim, sizes.depth, sizes.num_heads), (12, 2, 3), "{name}");
        assert_eq!((sizes.patch_size, sizes.in_chans, sizes.num_tokens), ([4, 4], 3, 5), "{name}");
        assert_eq!((sizes.mlp_hidden, sizes.num_classes), (24, Some(5)), "{name}");
        let from =
            if convention == Convention::Google { HeadsFrom::Weights } else { HeadsFrom::Config };
        assert_eq!(sizes.num_heads_from, from, "{name}");
    }
}

#[test]
fn names_that_no_convention_knows_are_kept_without_their_wrapper() {
    let mut wrapped = Checkpoint::new(Format::TorchZip);
    for (name, array) in read("tensors.safetensors") {
        wrapped.insert(format!("module.{name}"), array).unwrap();
    }
    let (convention, bare) = checkpoint::to_timm(wrapped).unwrap();
    assert_eq!(convention, Convention::Other);
    assert_same_arrays(&bare, &read("tensors.safetensors"), "module.");
}

#[test]
fn a_missing_key_projection_is_refused_by_name() {
    let mut weights = read("huggingface/model.safetensors");
    weights.remove("vit.encoder.layer.1.attention.attention.key.weight").unwrap();
    let error = checkpoint::to_timm(weights).unwrap_err().to_string();
    assert_eq!(error, "Hugging Face names: missing \"key of blocks.1.attn.qkv.weight\"");
}

#[test]
fn a_vit_whose_arrays_contradict_each_other_is_refused_by_name() {
    let config = ModelConfig { num_heads: Some(3), ..ModelConfig::default() };
    let broken = |name: &str, shape: [usize; 2]| {
        let mut weights = read("timm/model.safetensors");
        let mut array = weights.remove(name).unwrap();
        array.shape = shape.to_vec();
        weights.insert(name.to_owned(), array).unwrap();
        Architecture::detect(&weights, &config).unwrap_err().to_string()
    };
    let error = broken("blocks.1.attn.qkv.weight", [12, 36]);
    assert_eq!(
        error,
        "architecture: array \"blocks.1.attn.qkv.weight\": rows: expected 36, found 12"
    );
    let error = broken("head.weight", [12, 5]);
    assert_eq!(error, "architecture: array \"head.weight\": input width: expected 12, found 5");

    let mut weights = read("timm/model.safetensors");
    weights.remove("blocks.0.norm1.weight").unwrap();
    let error = Architecture::detect(&weights, &config).unwrap_err().to_string();
    assert!(error.contains("numbered from 0 without gaps"), "{error}");
}

#[test]
fn without_a_config_a_narrow_vit_asks_for_its_heads() {
    let error =
        Architecture::detect(&read("timm/model.safetensors"), &ModelConfig::default()).unwrap_err();
    assert!(error.to_string().contains("give num_heads in config.json"), "{error}");
}

#[test]
fn preprocessing_comes_from_the_files_beside_the_weights() {
    let flags = PreprocessFlags::default();
    let timm = checkpoint::read_preprocess(fixture("timm/model.safetensors"), &flags).unwrap();
    assert_eq!((timm.mean, timm.std), ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6]));
    assert_eq!((timm.input_size, timm.crop_pct, timm.crop_mode), ([8, 8], 0.9, CropMode::Squash));
    assert_eq!(timm.interpolation, Interpolation::Bilinear);

    let weights = fixture("huggingface/model.safetensors");
    let hugging = checkpoint::read_preprocess(&weights, &flags).unwrap();
    assert_eq!((hugging.mean, hugging.std), ([0.5; 3], [0.5; 3]));
    assert_eq!(
        (hugging.input_size, hugging.crop_pct, hugging.crop_mode),
        ([8, 8], 1.0, CropMode::Squash)
    );
    assert_eq!(hugging.interpolation, Interpolation::Bicubic);
    let config = checkpoint::read_model_config(&weights).unwrap();
    assert_eq!((config.num_heads, config.layer_norm_eps), (Some(3), Some(1e-6)));
    assert_eq!((config.files.len(), config.label_names), (2, None));
}

#[test]
fn flags_win_over_files_and_complete_what_is_missing() {
    let flags = PreprocessFlags { mean: Some([0.0; 3]), ..PreprocessFlags::default() };
    let found = checkpoint::read_preprocess(fixture("timm/model.safetensors"), &flags).unwrap();
    assert_eq!((found.mean, found.std), ([0.0; 3], [0.4, 0.5, 0.6]));

    let error = checkpoint::read_preprocess(fixture("google.npz"), &flags).unwrap_err();
    assert!(
        matches!(&error, Error::NoPreprocessing { flags, .. } if flags == "--set 'model.std=[R,G,B]' --set 'model.input_size=[H,W]'")
    );
    let message = error.to_string();
    for part in ["config.json", "preprocessor_config.json", "google.npz"] {
        assert!(message.contains(part), "{message}");
    }
    let flags = PreprocessFlags { std: Some([1.0; 3]), input_size: Some([8, 12]), ..flags };
    let found = checkpoint::read_preprocess(fixture("google.npz"), &flags).unwrap();
    assert_eq!(
        (found.input_size, found.crop_pct, found.crop_mode),
        ([8, 12], 1.0, CropMode::Center)
    );
}

#[test]
fn what_is_written_is_read_back() {
    let folder = std::env::temp_dir().join(format!("paint-checkpoint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("out.safetensors");
    let original = read("tensors.safetensors");
    let metadata = BTreeMap::from([
        ("format".to_owned(), "pt".to_owned()),
        ("ü\"".to_owned(), "\n".to_owned()),
    ]);
    for (dtype, tolerance) in
        [(Dtype::F32, 0.0), (Dtype::F16, 1.0 / 2048.0), (Dtype::Bf16, 1.0 / 256.0)]
    {
        let arrays = original
            .iter()
            .filter(|(name, _)| *name != "int64")
            .map(|(name, a)| (name, &a.shape[..], &a.data[..]));
        checkpoint::write_safetensors(&path, arrays, dtype, &metadata).unwrap();
        let back = checkpoint::read(&path).unwrap();
        assert_eq!(back.metadata, metadata);
        assert_eq!(back.len(), original.len() - 1);
        for (name, array) in back.iter() {
            assert_eq!(array.dtype, dtype);
            for (x, y) in array.data.iter().zip(&original.get(name).unwrap().data) {
                // Half a unit in the last place of the type written.
                assert!((x - y).abs() <= y.abs() * tolerance, "{name}: {x} {y}");
            }
        }
    }
    let order: Vec<String> =
        checkpoint::read(&path).unwrap().into_iter().map(|(name, _)| name).collect();
    let written: Vec<&str> =
        original.iter().map(|(name, _)| name).filter(|name| *name != "int64").collect();
    assert_eq!(order, written);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
    let folder = std::env::temp_dir().join(format!("paint-atomic-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("out.safetensors");
    let none = BTreeMap::new();
    let write = |arrays: &[(&str, &[usize], &[f32])], dtype| {
        checkpoint::write_safetensors(&path, arrays.iter().copied(), dtype, &none)
            .map_err(|error| error.to_string())
    };
    write(&[("a", &[2], &[1.0, 2.0])], Dtype::F32).unwrap();
    let before = std::fs::read(&path).unwrap();
    for (arrays, dtype, cause) in [
        (
            &[("a", &[3][..], &[1.0, 2.0][..])][..],
            Dtype::F32,
            "array \"a\": data: expected [3], found 2 elements",
        ),
        (&[("a", &[1], &[1.0]), ("a", &[1], &[1.0])], Dtype::F32, "the name \"a\" appears twice"),
        (&[("a", &[1], &[1e6])], Dtype::F16, "at most 65504"),
        (&[("a", &[1], &[1.0])], Dtype::I64, "expected F32, F16 or BF16, found I64"),
        (&[("__metadata__", &[1], &[1.0])], Dtype::F32, "appears twice"),
    ] {
        let error = write(arrays, dtype).unwrap_err();
        assert!(error.contains(cause) && error.contains("out.safetensors"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    // The rename fails because a folder is in the way; the temporary file must go.
    let blocked = folder.join("folder");
    std::fs::create_dir_all(blocked.join("inside")).unwrap();
    let arrays: [(&str, &[usize], &[f32]); 1] = [("a", &[1], &[1.0])];
    assert!(checkpoint::write_safetensors(&blocked, arrays, Dtype::F32, &none).is_err());
    let mut left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["folder", "out.safetensors"]);
    std::fs::remove_dir_all(folder).unwrap();
}
