//! The trained model as others read it: `model.safetensors` with timm's names and `config.json` beside it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use paint_nn::backbone::Backbone;
use paint_nn::backbone::vit::VitConfig;
use paint_nn::checkpoint::Dtype;
use paint_tensor::Tensor;
use serde_json::{Value, json};

use crate::checkpoint::write;
use crate::error::Result;
use crate::event::Epoch;
use crate::identity::Identity;

/// The file of weights.
pub const WEIGHTS: &str = "model.safetensors";
pub(crate) const CONFIG: &str = "config.json";
/// Statistics of tokens on clean images, which the caller may add.
pub(crate) const STATISTICS: &str = "model.statistics.safetensors";

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbers {
    /// 32 bits.
    #[default]
    Full,
    /// 16 bits (IEEE half).
    Half,
}

/// Writes both files into `folder`.
pub(crate) fn export(
    folder: &Path,
    model: &dyn Backbone,
    numbers: Numbers,
    about: &About<'_>,
) -> Result<()> {
    let mut tensors: Vec<(String, Tensor)> = model
        .params()
        .iter()
        .map(|param| (param.name().to_owned(), param.tensor().detach()))
        .collect();
    tensors.extend(model.running_statistics());
    let dtype = match numbers {
        Numbers::Full => Dtype::F32,
        Numbers::Half => Dtype::F16,
    };
    // What PyTorch's tools look for.
    let mut metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    metadata.extend(model.vit_config().map(|vit| vit.variant.metadata()).unwrap_or_default());
    write(&folder.join(WEIGHTS), &tensors, dtype, &metadata)?;
    let text = format!("{:#}\n", config(model, about));
    let path = folder.join(CONFIG);
    Ok(paint_data::write_atomically(&path, |out| out.write_all(text.as_bytes()))?)
}

/// What is told about a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) identity: &'a Identity,
    /// The last epoch.
    pub(crate) last: Option<&'a Epoch>,
    pub(crate) label_names: &'a [String],
}

fn config(model: &dyn Backbone, about: &About<'_>) -> Value {
    let spec = model.spec();
    let [height, width] = spec.image_size;
    let mut pretrained = json!({
        "input_size": [3, height, width],
        "mean": spec.preprocess.mean,
        "std": spec.preprocess.std,
        // Images of another size are stretched linearly while a batch is made.
        "interpolation": "bilinear",
        "crop_pct": 1.0,
    });
    if !about.label_names.is_empty() {
        pretrained["label_names"] = json!(about.label_names);
    }
    let mut config = json!({
        "architecture": spec.name,
        "num_classes": spec.num_classes,
        "pretrained_cfg": pretrained,
        "training": { "identity": about.identity, "last_epoch": about.last },
    });
    if let Some(vit) = model.vit_config() {
        config["model_args"] = model_args(vit);
    }
    config
}

/// The arguments that make this network of any plain ViT of timm, such as `vit_tiny_patch16_224`: all its sizes,
/// because not each of our names is one of timm's.
fn model_args(vit: &VitConfig) -> Value {
    json!({
        "img_size": vit.image_size,
        "patch_size": vit.patch_size,
        "embed_dim": vit.embed_dim,
        "depth": vit.depth,
        "num_heads": vit.num_heads,
        "mlp_ratio": vit.mlp_ratio,
        "num_classes": vit.num_classes,
    })
}
