//! Hugging Face transformers, `ViTForImageClassification` and `ViTModel`.
//!
//! Published files say `encoder.layer.0.attention.attention.query`; since version 5 the modules themselves are called
//! `layers.0.attention.q_proj`, so a `state_dict` saved by hand has those names.

use super::{Array, Placed, block, replaced};

const STEM: [(&str, &str); 5] = [
    ("embeddings.cls_token", "cls_token"),
    ("embeddings.position_embeddings", "pos_embed"),
    ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
    ("layernorm", "norm"),
    ("classifier", "head"),
];

const BLOCK: [(&str, &str); 8] = [
    ("layernorm_before", "norm1"),
    ("attention.output.dense", "attn.proj"),
    ("attention.o_proj", "attn.proj"),
    ("layernorm_after", "norm2"),
    ("intermediate.dense", "mlp.fc1"),
    ("mlp.fc1", "mlp.fc1"),
    ("output.dense", "mlp.fc2"),
    ("mlp.fc2", "mlp.fc2"),
];

const THIRDS: [[&str; 2]; 3] = [
    ["attention.attention.query.", "attention.q_proj."],
    ["attention.attention.key.", "attention.k_proj."],
    ["attention.attention.value.", "attention.v_proj."],
];

pub(super) fn place(name: &str, array: Array) -> Placed {
    let bare =
        ["vit.", "deit."].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    if let Some(timm) = replaced(bare, '.', &STEM) {
        return Placed::whole(timm, array);
    }
    let inner = ["encoder.layer.", "layers."].iter().find_map(|prefix| bare.strip_prefix(prefix));
    let Some((index, rest)) = inner.and_then(|rest| block(rest, '.')) else {
        return Placed::whole(name, array);
    };
    for (third, prefixes) in THIRDS.iter().enumerate() {
        if let Some(leaf) = prefixes.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
            let name = format!("blocks.{index}.attn.qkv.{leaf}");
            return Placed { third: Some(third), ..Placed::whole(name, array) };
        }
    }
    match replaced(rest, '.', &BLOCK) {
        Some(timm) => Placed::whole(format!("blocks.{index}.{timm}"), array),
        None => Placed::whole(name, array),
    }
}
