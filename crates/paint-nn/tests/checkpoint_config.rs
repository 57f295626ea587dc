//! What the configuration files beside weights say, and what they must not say.

use std::path::PathBuf;

use paint_nn::checkpoint::{
    CropMode, Error, Interpolation, ModelConfig, Preprocess, read, read_model_config,
};

/// A folder for one test, with these files beside the weights.
struct Folder(PathBuf);

impl Folder {
    fn with(test: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("paint-config-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(path.join(name), text).expect("a temporary file");
        }
        Self(path)
    }

    fn read(&self) -> Result<ModelConfig, Error> {
        read_model_config(self.0.join("model.safetensors"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn preprocess_of(test: &str, file: &str, text: &str) -> Option<Preprocess> {
    Folder::with(test, &[(file, text)]).read().expect(text).preprocess
}

#[test]
fn older_timm_files_have_the_fields_at_the_top() {
    let text =
        r#"{"input_size": [3, 24, 32], "mean": [0, 0.5, 1], "std": [1, 2, 3], "num_heads": 6}"#;
    let expected = Preprocess {
        mean: [0.0, 0.5, 1.0],
        std: [1.0, 2.0, 3.0],
        input_size: [24, 32],
        // timm's own defaults.
        crop_pct: 0.875,
        crop_mode: CropMode::Center,
        interpolation: Interpolation::Bicubic,
    };
    assert_eq!(preprocess_of("flat", "config.json", text), Some(expected));
}

#[test]
fn hugging_face_sizes_crops_and_switches_are_understood() {
    let file = "preprocessor_config.json";
    let stats = r#""image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]"#;
    let found = |rest: &str| preprocess_of("hf", file, &format!("{{{stats}, {rest}}}")).unwrap();
    let square = found(r#""size": 224, "resample": 0"#);
    assert_eq!(
        (square.input_size, square.crop_pct, square.crop_mode),
        ([224, 224], 1.0, CropMode::Squash)
    );
    assert_eq!((square.mean, square.interpolation), ([0.1, 0.2, 0.3], Interpolation::Nearest));
    let cropped = found(
        r#""size": {"shortest_edge": 256}, "do_center_crop": true, "crop_size": {"height": 224, "width": 224}, "resample": 1"#,
    );
    assert_eq!(
        (cropped.input_size, cropped.crop_pct, cropped.crop_mode),
        ([224, 224], 0.875, CropMode::Center)
    );
    assert_eq!(cropped.interpolation, Interpolation::Lanczos);
    let uncropped = found(r#""size": 224, "do_center_crop": false, "crop_size": 112"#);
    assert_eq!(
        (uncropped.input_size, uncropped.interpolation),
        ([224, 224], Interpolation::Bilinear)
    );
    let oblong = found(r#""size": {"height": 8, "width": 12}, "do_normalize": false"#);
    assert_eq!((oblong.input_size, oblong.mean, oblong.std), ([8, 12], [0.0; 3], [1.0; 3]));
    let fraction = found(r#""size": {"shortest_edge": 224}, "crop_pct": 0.5"#);
    assert_eq!((fraction.input_size, fraction.crop_pct), ([224, 224], 0.5));
}

#[test]
fn a_processor_without_statistics_gives_no_preprocessing() {
    assert_eq!(preprocess_of("bare", "preprocessor_config.json", r#"{"size": 224}"#), None);
    assert_eq!(
        preprocess_of("half", "config.json", r#"{"mean": [0, 0, 0], "input_size": [3, 8, 8]}"#),
        None
    );
    assert_eq!(preprocess_of("none", "unrelated.json", "{}"), None);
}

#[test]
fn labels_come_from_either_publisher() {
    let labels =
        |text: &str| Folder::with("labels", &[("config.json", text)]).read().unwrap().label_names;
    assert_eq!(labels(r#"{"label_names": ["cat", "dog"]}"#).unwrap(), ["cat", "dog"]);
    assert_eq!(labels(r#"{"id2label": {"1": "dog", "0": "cat"}}"#).unwrap(), ["cat", "dog"]);
    assert_eq!(labels(r#"{"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}"#), None);
    assert_eq!(labels(r#"{"id2label": {"1": "dog", "2": "cat"}}"#), None);
}

#[test]
fn nonsense_is_refused_with_file_and_field() {
    let stats = r#""mean": [0, 0, 0], "std": [1, 1, 1], "input_size": [3, 8, 8]"#;
    let processor = r#""image_mean": [0, 0, 0], "image_std": [1, 1, 1], "size": 8"#;
    for (file, text, field) in [
        ("config.json", "not json".to_owned(), "(whole file)"),
        ("config.json", "[1]".to_owned(), "(whole file)"),
        ("config.json", "[".repeat(100_000), "(whole file)"),
        ("config.json", stats.replace("[1, 1, 1]", "[1, 0, 1]"), "std"),
        ("config.json", stats.replace("[1, 1, 1]", "[1, -1, 1]"), "std"),
        ("config.json", stats.replace("[0, 0, 0]", "[0, 0]"), "mean"),
        ("config.json", stats.replace("[0, 0, 0]", "[0, 0, 1e300]"), "mean"),
        ("config.json", stats.replace("[3, 8, 8]", "[1, 8, 8]"), "input_size"),
        ("config.json", stats.replace("[3, 8, 8]", "[3, 0, 8]"), "input_size"),
        (
            "config.json",
            format!(r#""pretrained_cfg": {{{stats}, "crop_pct": 0}}"#),
            "pretrained_cfg.crop_pct",
        ),
        ("config.json", format!(r#"{stats}, "interpolation": "random""#), "interpolation"),
        ("config.json", format!(r#"{stats}, "crop_mode": "border""#), "crop_mode"),
        ("config.json", r#""num_attention_heads": -3"#.to_owned(), "num_attention_heads"),
        ("config.json", r#""layer_norm_eps": 1"#.to_owned(), "layer_norm_eps"),
        ("preprocessor_config.json", format!(r#"{processor}, "resample": 9"#), "resample"),
        ("preprocessor_config.json", format!(r#"{processor}, "do_rescale": false"#), "do_rescale"),
        (
            "preprocessor_config.json",
            format!(r#"{processor}, "rescale_factor": 0.00784"#),
            "rescale_factor",
        ),
        ("preprocessor_config.json", processor.replace(": 8", ": {}"), "size"),
    ] {
        let text = if field == "(whole file)" { text } else { format!("{{{text}}}") };
        let error = Folder::with("nonsense", &[(file, &text)]).read().expect_err(&text).to_string();
        assert!(
            error.starts_with(&format!("{field:?}: expected")) && error.ends_with(file),
            "{error}"
        );
    }
}

#[test]
fn what_is_no_file_is_refused_by_name() {
    let folder = Folder::with("folder", &[]);
    let error = read(&folder.0).unwrap_err().to_string();
    assert!(
        error.contains("folder without weights") && error.contains("paint-config-folder"),
        "{error}"
    );
    let error = read(folder.0.join("absent.pth")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read") && error.ends_with("absent.pth"), "{error}");
}
