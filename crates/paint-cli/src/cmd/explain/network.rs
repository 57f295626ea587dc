//! A network: its sizes, and the methods that run on it.

use paint_methods::{METHODS, MethodEntry, Networks};
use paint_nn::backbone::{BackboneEntry, Family};

use super::explanation::Explanation;

/// What weights are read.
const WEIGHTS: &str = "safetensors, PyTorch, npz or ONNX with timm's, Hugging Face's, torchvision's or Google's names";

pub(super) fn explain(row: &BackboneEntry) -> anyhow::Result<Explanation> {
    let sizes = row.sizes()?;
    let family = match row.family {
        Family::Transformer => "vision transformer",
        Family::Windows => "transformer with attention inside windows",
        Family::Convolutional => "convolutional network",
    };
    let refused = |method: &&MethodEntry| match method.runs_on {
        Networks::Transformers => row.family != Family::Transformer,
        Networks::Convolutional => row.family != Family::Convolutional,
        Networks::All | Networks::BatchNorms => false,
    };
    let refused: Vec<&str> = METHODS.iter().filter(refused).map(|method| method.name).collect();
    let methods = match refused.as_slice() {
        [] => "all".to_owned(),
        names => format!("all but {}", names.join(", ")),
    };
    let [height, width] = sizes.image_size;
    let facts = vec![
        ("family", family.to_owned()),
        ("methods", methods),
        ("input", format!("{height}x{width} images")),
        (
            "parameters",
            format!(
                "{:.1} million, with {} classes",
                sizes.parameters as f64 / 1e6,
                sizes.num_classes
            ),
        ),
        ("blocks", sizes.depth.to_string()),
        ("features", format!("{} numbers per image", sizes.feature_dim)),
        ("weights", WEIGHTS.to_owned()),
    ];
    Ok(Explanation {
        kind: "network",
        name: row.name.into(),
        what: row.summary.into(),
        facts,
        next: format!("paint train --dataset cifar10 --data CIFAR --backbone {}", row.name),
        ..Explanation::default()
    })
}
