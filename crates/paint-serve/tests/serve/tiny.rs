//! A network that costs nothing, as files: weights, what lies beside them, and the statistics that `keel` needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paint_methods::SourceStatistics;
use paint_nn::backbone::vit::{Vit, VitConfig};
use paint_nn::backbone::{Backbone as _, BuildOptions, Weights};
use paint_nn::checkpoint::{Dtype, write_safetensors};
use paint_rng::Seed;
use paint_run::config::{Method, Model};
use paint_run::deployment::Config;
use paint_tensor::{Device, Tensor};
use serde_json::json;

use crate::support::{SIDE, pixels};

/// A drawn ViT whose predictions range from unsure to confident.
fn vit() -> Vit {
    let config = VitConfig {
        image_size: [SIDE, SIDE],
        patch_size: 8,
        embed_dim: 16,
        depth: 4,
        num_heads: 2,
        mlp_ratio: 2.0,
        num_classes: 10,
    };
    let options = BuildOptions::new(&Device::cpu());
    let mut vit = Vit::build("tiny", config, Weights::Random(Seed(3)), &options).unwrap();
    for (name, factor) in [("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)] {
        let id = vit.params().id(name).unwrap();
        let value = vit.params()[id].scale(factor).unwrap();
        vit.params_mut().set(id, &value).unwrap();
    }
    vit
}

/// Writes it into a folder.
pub(crate) fn weights(folder: &Path) -> PathBuf {
    let path = folder.join("tiny.safetensors");
    let vit = vit();
    let arrays: Vec<(String, Vec<usize>, Vec<f32>)> = vit
        .params()
        .iter()
        .map(|param| {
            let value = param.tensor();
            (param.name().to_owned(), value.shape().to_vec(), value.to_vec().unwrap())
        })
        .collect();
    let rows = arrays.iter().map(|(name, shape, data)| (name.as_str(), &shape[..], &data[..]));
    write_safetensors(&path, rows, Dtype::F32, &BTreeMap::new()).unwrap();
    let about = json!({
        "num_classes": 10,
        "model_args": { "num_heads": 2 },
        "pretrained_cfg": {
            "crop_pct": 1.0,
            "input_size": [3, SIDE, SIDE],
            "interpolation": "bilinear",
            "label_names": paint_data::dataset::CIFAR10_CLASSES,
            "mean": [0.5, 0.5, 0.5],
            "std": [0.5, 0.5, 0.5],
        },
    });
    std::fs::write(folder.join("config.json"), about.to_string()).unwrap();
    let clean = pixels(500, 40).iter().map(|byte| f32::from(*byte) / 255.0).collect();
    let clean = Tensor::from_vec(clean, [40, 3, SIDE, SIDE], &Device::cpu()).unwrap();
    let statistics = SourceStatistics::collect(&vit, &clean).unwrap();
    statistics.save(paint_run::model::statistics_path(&path)).unwrap();
    path
}

/// The tiny network and a method without a wrapper.
pub(crate) fn config(method: &str, folder: &Path) -> Config {
    Config::new(Model::new(weights(folder)), Method::named(method))
}
