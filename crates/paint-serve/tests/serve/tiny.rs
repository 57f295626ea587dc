//! A network that costs nothing, as files: weights, what lies beside them, and the statistics that `keel` needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paint_data::{Dataset as _, dataset};
use paint_methods::SourceStatistics;
use paint_nn::backbone::Backbone as _;
use paint_nn::backbone::vit::{Vit, VitConfig};
use paint_nn::checkpoint::{Dtype, write_safetensors};
use paint_tensor::{Device, Tensor};
use serde_json::json;

#[path = "../../../paint-methods/src/tiny_vit.rs"]
mod tiny_vit;

pub(crate) const SIDE: usize = 32;

/// A drawn ViT whose predictions range from unsure to confident.
fn vit() -> Vit {
    let (image_size, patch_size, num_classes) = ([SIDE, SIDE], 8, 10);
    let config = VitConfig { image_size, patch_size, num_classes, ..tiny_vit::CONFIG };
    let larger = [("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
    tiny_vit::build(config, 3, &larger, &Device::cpu())
}

/// Pixels `[count, 32, 32, 3]` of the embedded images from `first` on.
pub(crate) fn pixels(first: usize, count: usize) -> Vec<u8> {
    let images = dataset::embedded().unwrap();
    (first..first + count)
        .flat_map(|index| images.sample(0, index).unwrap().image.into_pixels())
        .collect()
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
        "model_args": { "num_heads": tiny_vit::CONFIG.num_heads },
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
