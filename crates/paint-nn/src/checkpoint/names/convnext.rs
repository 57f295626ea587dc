//! ConvNeXt under the names of its authors, Hugging Face and torchvision; timm's are those that the network here has.

use std::fmt;

use super::{Array, Placed, block, replaced};

/// Whose names a ConvNeXt or Swin has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publisher {
    /// `stages.0.0.dwconv`.
    Authors,
    /// `convnext.encoder.stages.0.layers.0.dwconv`.
    HuggingFace,
    /// `features.1.0.block.0`.
    Torchvision,
}

impl fmt::Display for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authors => "the authors' ConvNeXt",
            Self::HuggingFace => "Hugging Face",
            Self::Torchvision => "torchvision",
        })
    }
}

const ENDS: [(&str, &str); 8] = [
    ("norm", "head.norm"),
    ("head", "head.fc"),
    ("embeddings.patch_embeddings", "stem.0"),
    ("embeddings.layernorm", "stem.1"),
    ("layernorm", "head.norm"),
    ("classifier.0", "head.norm"),
    ("classifier.2", "head.fc"),
    ("classifier", "head.fc"),
];

const BLOCK: [(&str, &str); 12] = [
    ("gamma", "gamma"),
    ("layer_scale_parameter", "gamma"),
    ("layer_scale", "gamma"),
    ("dwconv", "conv_dw"),
    ("norm", "norm"),
    ("layernorm", "norm"),
    ("pwconv1", "mlp.fc1"),
    ("pwconv2", "mlp.fc2"),
    ("block.0", "conv_dw"),
    ("block.2", "norm"),
    ("block.3", "mlp.fc1"),
    ("block.5", "mlp.fc2"),
];

/// The publisher whose names these are, other than timm's.
pub(super) fn publisher(any: impl Fn(fn(&str) -> bool) -> bool) -> Option<Publisher> {
    if any(|name| name.starts_with("downsample_layers.0.")) {
        Some(Publisher::Authors)
    } else if any(|name| name.ends_with("embeddings.patch_embeddings.weight"))
        && any(|name| name.ends_with(".dwconv.weight"))
    {
        Some(Publisher::HuggingFace)
    } else if any(|name| name.starts_with("features.1.0.block."))
        && any(|name| name.ends_with(".layer_scale"))
    {
        Some(Publisher::Torchvision)
    } else {
        None
    }
}

pub(super) fn place(name: &str, array: Array, publisher: Publisher) -> Placed {
    let timm = match publisher {
        Publisher::Authors => authors(name),
        Publisher::HuggingFace => huggingface(name.strip_prefix("convnext.").unwrap_or(name)),
        Publisher::Torchvision => torchvision(name),
    };
    let Some(timm) = timm else { return Placed::whole(name, array) };
    // torchvision's scales; no other array has this shape.
    let array = match &array.shape[..] {
        &[c, 1, 1] => Array { shape: vec![c], ..array },
        _ => array,
    };
    Placed::whole(timm, array)
}

fn authors(name: &str) -> Option<String> {
    if let Some((stage, rest)) = name.strip_prefix("downsample_layers.").and_then(numbered) {
        return Some(if stage == 0 {
            format!("stem.{rest}")
        } else {
            format!("stages.{stage}.downsample.{rest}")
        });
    }
    let Some((stage, rest)) = name.strip_prefix("stages.").and_then(numbered) else {
        return replaced(name, '.', &ENDS);
    };
    let (within, rest) = numbered(rest)?;
    in_block(stage, within, rest)
}

fn huggingface(name: &str) -> Option<String> {
    let Some((stage, rest)) = name.strip_prefix("encoder.stages.").and_then(numbered) else {
        return replaced(name, '.', &ENDS);
    };
    if let Some(rest) = rest.strip_prefix("downsampling_layer.") {
        return Some(format!("stages.{stage}.downsample.{rest}"));
    }
    let (within, rest) = numbered(rest.strip_prefix("layers.")?)?;
    in_block(stage, within, rest)
}

/// Even places are the stem and what comes before a stage, odd ones the stages.
fn torchvision(name: &str) -> Option<String> {
    let Some((place, rest)) = name.strip_prefix("features.").and_then(numbered) else {
        return replaced(name, '.', &ENDS);
    };
    if place == 0 {
        return Some(format!("stem.{rest}"));
    }
    if place % 2 == 0 {
        return Some(format!("stages.{}.downsample.{rest}", place / 2));
    }
    let (within, rest) = numbered(rest)?;
    in_block(place / 2, within, rest)
}

fn in_block(stage: usize, within: usize, rest: &str) -> Option<String> {
    Some(format!("stages.{stage}.blocks.{within}.{}", replaced(rest, '.', &BLOCK)?))
}

fn numbered(name: &str) -> Option<(usize, &str)> {
    block(name, '.')
}
