//! Hugging Face transformers: `ViTForImageClassification`, `DeiTForImageClassification` (with and without teacher),
//! `Dinov2ForImageClassification` (with and without registers), and the models inside them.
//!
//! Published files say `encoder.layer.0.attention.attention.query`; since version 5 the modules themselves are called
//! `layers.0.attention.q_proj`, so a `state_dict` saved by hand has those names.

use super::{Array, Placed, block, replaced};

const STEM: [(&str, &str); 9] = [
    ("embeddings.cls_token", "cls_token"),
    ("embeddings.distillation_token", "dist_token"),
    ("embeddings.register_tokens", "reg_token"),
    ("embeddings.position_embeddings", "pos_embed"),
    ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
    ("layernorm", "norm"),
    ("classifier", "head"),
    ("cls_classifier", "head"),
    ("distillation_classifier", "head_dist"),
];

const MODELS: [&str; 4] = ["vit.", "deit.", "dinov2.", "dinov2_with_registers."];

const BLOCK: [(&str, &str); 15] = [
    ("norm1", "norm1"),
    ("norm2", "norm2"),
    ("layer_scale1.lambda1", "ls1.gamma"),
    ("layer_scale2.lambda1", "ls2.gamma"),
    ("mlp.weights_in", "mlp.fc1"),
    ("mlp.weights_out", "mlp.fc2"),
    ("mlp.down_proj", "mlp.fc2"),
    ("layernorm_before", "norm1"),
    ("attention.output.dense", "attn.proj"),
    ("attention.o_proj", "attn.proj"),
    ("layernorm_after", "norm2"),
    ("intermediate.dense", "mlp.fc1"),
    ("mlp.fc1", "mlp.fc1"),
    ("output.dense", "mlp.fc2"),
    ("mlp.fc2", "mlp.fc2"),
];

/// Parts of a packed array: theirs, what they become a part of, which part, of how many.
const PARTS: [(&str, &str, usize, usize); 8] = [
    ("attention.attention.query.", "attn.qkv", 0, 3),
    ("attention.attention.key.", "attn.qkv", 1, 3),
    ("attention.attention.value.", "attn.qkv", 2, 3),
    ("attention.q_proj.", "attn.qkv", 0, 3),
    ("attention.k_proj.", "attn.qkv", 1, 3),
    ("attention.v_proj.", "attn.qkv", 2, 3),
    ("mlp.gate_proj.", "mlp.fc1", 0, 2),
    ("mlp.up_proj.", "mlp.fc1", 1, 2),
];

pub(super) fn place(name: &str, array: Array) -> Placed {
    let bare = MODELS.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    if bare == "embeddings.mask_token" {
        return Placed::dropped(name, "a token that only training uses");
    }
    if let Some(timm) = replaced(bare, '.', &STEM) {
        return Placed::whole(timm, array);
    }
    let inner = ["encoder.layer.", "layers."].iter().find_map(|prefix| bare.strip_prefix(prefix));
    let Some((index, rest)) = inner.and_then(|rest| block(rest, '.')) else {
        return Placed::whole(name, array);
    };
    for (theirs, layer, part, of) in PARTS {
        if let Some(leaf) = rest.strip_prefix(theirs) {
            let name = format!("blocks.{index}.{layer}.{leaf}");
            return Placed { part: Some((part, of)), ..Placed::whole(name, array) };
        }
    }
    match replaced(rest, '.', &BLOCK) {
        Some(timm) => Placed::whole(format!("blocks.{index}.{timm}"), array),
        None => Placed::whole(name, array),
    }
}
