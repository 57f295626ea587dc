//! From a file of weights to a model, and from any image to the model's size.

pub mod embedded;
mod fitted;
pub mod network;

use std::path::{Path, PathBuf};

use paint_data::dataset::CIFAR10_CLASSES;
use paint_nn::backbone::Backbone;
use paint_nn::backbone::vit::VitConfig;
use paint_nn::checkpoint::{
    self, Checkpoint, CropMode, Interpolation, ModelConfig, PreprocessFlags, Traits,
    read_model_config, read_preprocess,
};
use paint_tensor::Device;

pub use fitted::{Fitted, ImageFit, image_steps};

use crate::config::Model;
use crate::{Error, Result};
use network::{About, Network};

/// Pixels of the longest side of a network's input.
const LONGEST: f32 = 4096.0;

/// Weights, and what is known of them.
struct Opened {
    sha256: String,
    beside: ModelConfig,
    preprocess: checkpoint::Preprocess,
    arrays: Checkpoint,
}

/// Reads the weights of `config` and builds their model on `device`; writes the fingerprint of the file, or refuses a
/// file that has another one, and the preprocessing into `config`.
pub fn open(config: &mut Model, device: &Device) -> Result<Box<dyn Backbone>> {
    let weights = &config.weights;
    let Opened { sha256, beside, preprocess, arrays } = if weights == Path::new(embedded::NAME) {
        embedded::open(&flags(config)?)?
    } else {
        Opened {
            sha256: checkpoint::sha256(weights)?,
            beside: read_model_config(weights)?,
            preprocess: read_preprocess(weights, &flags(config)?)?,
            arrays: checkpoint::to_timm(checkpoint::read(weights)?)?.1,
        }
    };
    let (sha256, arrays) = match &config.text_features {
        None => (sha256, arrays),
        Some(path) => {
            let arrays = checkpoint::with_text_features(arrays, &text_features(path)?)?;
            (format!("{sha256}+{}", checkpoint::sha256(path)?), arrays)
        }
    };
    expect("weights", config.sha256.as_deref(), Some(&sha256), weights)?;
    let statistics = statistics_beside(weights).map(checkpoint::sha256).transpose()?;
    let expected = config.statistics_sha256.as_deref();
    expect("statistics", expected, statistics.as_deref(), &statistics_path(weights))?;
    config.statistics_sha256 = statistics;
    let about = About {
        path: weights,
        backbone: config.backbone.as_deref(),
        num_heads: config.num_heads,
        traits: Traits {
            layer_norm_eps: config.layer_norm_eps,
            activation: config.activation,
            global_pool: config.global_pool,
        },
        beside: &beside,
        preprocess: &preprocess,
    };
    let Network { row, model } = network::build(arrays, &about, device)?;
    let used = &model.spec().preprocess;
    config.sha256 = Some(sha256);
    config.backbone = row.map(|row| row.name.to_owned());
    config.mean = Some(used.mean);
    config.std = Some(used.std);
    config.input_size = Some(used.input_size);
    config.crop_pct = Some(used.crop_pct);
    config.interpolation = Some(used.interpolation.name().into());
    config.crop_mode = Some(used.crop_mode).filter(|mode| *mode != CropMode::Center);
    // What every published transformer has goes without saying.
    let unusual = |vit: &&VitConfig| vit.num_heads * 64 != vit.embed_dim;
    config.num_heads = model.vit_config().filter(unusual).map(|vit| vit.num_heads);
    if let Some(vit) = model.vit_config() {
        let traits = vit.variant.unusual();
        config.layer_norm_eps = traits.layer_norm_eps;
        config.activation = traits.activation;
        config.global_pool = traits.global_pool;
    }
    Ok(model)
}

/// Refuses a file whose fingerprint is not the expected one, if one is expected.
fn expect(what: &str, expected: Option<&str>, found: Option<&str>, path: &Path) -> Result<()> {
    match expected.filter(|expected| Some(*expected) != found) {
        None => Ok(()),
        Some(expected) => Err(Error::Checkpoint {
            expected: format!("{what} with SHA-256 {expected}"),
            found: found.unwrap_or("no such file").into(),
            path: path.to_owned(),
        }),
    }
}

/// The one matrix of a file.
fn text_features(path: &Path) -> Result<checkpoint::Array> {
    let arrays = checkpoint::read(path)?;
    let mut matrices = arrays.into_iter().map(|(_, array)| array).filter(|a| a.shape.len() == 2);
    match (matrices.next(), matrices.next()) {
        (Some(matrix), None) => Ok(matrix),
        (first, _) => Err(Error::Checkpoint {
            expected: "a file with one matrix of text features, a row per class".into(),
            found: if first.is_some() { "more than one matrix" } else { "none" }.into(),
            path: path.to_owned(),
        }),
    }
}

/// The file of source statistics that `paint stats` writes beside weights: `model.safetensors` has
/// `model.statistics.safetensors`.
pub fn statistics_path(weights: &Path) -> PathBuf {
    weights.with_extension("statistics.safetensors")
}

/// That file, if it is there; the statistics of embedded weights are embedded with them.
pub(crate) fn statistics_beside(weights: &Path) -> Option<PathBuf> {
    let is_file = |path: &PathBuf| weights != Path::new(embedded::NAME) && path.is_file();
    Some(statistics_path(weights)).filter(is_file)
}

/// What the files beside weights call their classes, in order; nothing if they have no names.
pub fn class_names(weights: &Path) -> Result<Vec<String>> {
    if weights == Path::new(embedded::NAME) {
        return Ok(CIFAR10_CLASSES.map(str::to_owned).to_vec());
    }
    Ok(read_model_config(weights)?.label_names.unwrap_or_default())
}

fn flags(config: &Model) -> Result<PreprocessFlags> {
    let check = |key: &str, given: &[f32], fits: fn(&f32) -> bool, expected: &str| {
        if given.iter().all(fits) {
            return Ok(());
        }
        Err(Error::config(format!("model.{key}: expected {expected}, got {given:?}")))
    };
    let channels = |x: &Option<[f32; 3]>| x.map_or_else(Vec::new, Vec::from);
    let size =
        config.input_size.map_or_else(Vec::new, |size| size.map(|side| side as f32).to_vec());
    check("input_size", &size, |x| (1.0..=LONGEST).contains(x), "height and width of 1 to 4096")?;
    let eps = config.layer_norm_eps.as_slice();
    check("layer_norm_eps", eps, |x| x.is_finite() && *x > 0.0, "a number above 0")?;
    let scale = "three numbers in [0, 1], as the images are (not 0 to 255)";
    check("mean", &channels(&config.mean), |x| (0.0..=1.0).contains(x), scale)?;
    check("std", &channels(&config.std), |x| x.is_finite() && *x > 0.0, "three numbers above 0")?;
    let crop_pct = config.crop_pct.as_slice();
    check("crop_pct", crop_pct, |x| *x > 0.0 && *x <= 1.0, "a number in (0, 1]")?;
    let interpolation = config.interpolation.as_deref().map(|name| {
        Interpolation::from_name(name).ok_or_else(|| {
            let known = Interpolation::ALL.map(Interpolation::name).join(", ");
            Error::config(format!("model.interpolation: expected one of {known}, got {name:?}"))
        })
    });
    Ok(PreprocessFlags {
        mean: config.mean,
        std: config.std,
        input_size: config.input_size,
        crop_pct: config.crop_pct,
        crop_mode: config.crop_mode,
        interpolation: interpolation.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normalisation_that_is_none_is_refused_by_its_key() {
        let with = |key: &str, value: &str| {
            let text = format!("weights = 'w'\n{key} = {value}");
            flags(&toml::from_str(&text).unwrap()).map(|_| ()).map_err(|error| error.to_string())
        };
        for (key, value) in [
            ("mean", "[127.5, 127.5, 127.5]"),
            ("mean", "[0.5, nan, 0.5]"),
            ("std", "[-0.5, 0.5, 0.5]"),
            ("std", "[0.0, 0.5, 0.5]"),
            ("std", "[inf, 0.5, 0.5]"),
            ("crop_pct", "-1.0"),
            ("input_size", "[100000, 32]"),
            ("input_size", "[0, 0]"),
            ("layer_norm_eps", "nan"),
            ("crop_pct", "nan"),
        ] {
            let message = with(key, value).unwrap_err();
            assert!(message.contains(&format!("model.{key}: expected")), "{message}");
        }
        assert_eq!(with("mean", "[0.0, 0.5, 1.0]"), Ok(()));
    }
}
