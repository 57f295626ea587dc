//! What is unusual about a vision transformer, in words.

use paint_nn::backbone::vit::{HeadKind, Positioned, Variant, VitConfig};
use paint_nn::checkpoint::{Activation, Architecture, GlobalPool, HeadsFrom};

/// One line for each part that a plain ViT does not have, and for what was assumed or changed.
pub(super) fn unusual(config: &VitConfig, architecture: Option<&Architecture>) -> Vec<String> {
    let variant = &config.variant;
    let mut lines = Vec::new();
    let mut add = |is: bool, line: String| lines.extend(is.then_some(line));
    add(!variant.class_token, "no class token: prompts stand before the patches".into());
    add(variant.reg_tokens > 0, format!("{} register tokens", variant.reg_tokens));
    let unplaced = variant.class_token && variant.positioned == Positioned::Patches;
    add(unplaced, "a class token without a position".into());
    add(variant.norm_pre, "a norm before the blocks".into());
    add(variant.layer_scale, "layer scale".into());
    add(variant.gated, "gated MLPs (SwiGLU)".into());
    let plain = variant.gated || variant.activation == Activation::Gelu;
    add(!plain, format!("the activation {}", variant.activation.name()));
    add(variant.global_pool != GlobalPool::Token, pooling(variant).into());
    add(variant.head != HeadKind::Linear, head(variant).into());
    if let Some(Architecture::Vit(sizes)) = architecture {
        let assumed = sizes.num_heads_from == HeadsFrom::Assumed;
        add(
            assumed,
            format!("{} heads are assumed: nothing says how many there are", config.num_heads),
        );
        let [rows, columns] = config.grid();
        if let Some(side) = sizes.grid_side.filter(|side| side * side != rows * columns) {
            add(
                true,
                format!("positions of {side}x{side} patches are resampled to {rows}x{columns}"),
            );
        }
    }
    lines
}

fn pooling(variant: &Variant) -> &'static str {
    match (variant.global_pool, variant.fc_norm) {
        (GlobalPool::Token, _) => "the classifier reads the class token",
        (GlobalPool::Avg, true) => "the classifier reads the mean of the patches, normed (fc_norm)",
        (GlobalPool::Avg, false) => "the classifier reads the mean of the normed patches",
        (GlobalPool::AvgRaw, _) => "the classifier reads the mean of the patches without a norm",
        (GlobalPool::TokenAvg, _) => {
            "the classifier reads the class token and the mean of the patches"
        }
        (GlobalPool::Map, _) => "the classifier reads what attention pooling gives",
    }
}

fn head(variant: &Variant) -> &'static str {
    match variant.head {
        HeadKind::Linear => "one linear classifier",
        HeadKind::Distilled => "a distillation token: the logits of two classifiers are averaged",
        HeadKind::Cosine { .. } => "a zero-shot classifier: the cosine to text features",
    }
}
