//! Hugging Face transformers, `ViTForImageClassification` and `ViTModel`.

use super::{Array, Placed, block, replaced};

const STEM: [(&str, &str); 5] = [
    ("embeddings.cls_token", "cls_token"),
    ("embeddings.position_embeddings", "pos_embed"),
    ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
    ("layernorm", "norm"),
    ("classifier", "head"),
];

const BLOCK: [(&str, &str); 5] = [
    ("layernorm_before", "norm1"),
    ("attention.output.dense", "attn.proj"),
    ("layernorm_after", "norm2"),
    ("intermediate.dense", "mlp.fc1"),
    ("output.dense", "mlp.fc2"),
];

const THIRDS: [&str; 3] =
    ["attention.attention.query.", "attention.attention.key.", "attention.attention.value."];

pub(super) fn place(name: &str, array: Array) -> Placed {
    let bare =
        ["vit.", "deit."].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    if let Some(timm) = replaced(bare, '.', &STEM) {
        return Placed::whole(timm, array);
    }
    let Some((index, rest)) = bare.strip_prefix("encoder.layer.").and_then(|rest| block(rest, '.'))
    else {
        return Placed::whole(name, array);
    };
    for (third, prefix) in THIRDS.iter().enumerate() {
        if let Some(leaf) = rest.strip_prefix(prefix) {
            let name = format!("blocks.{index}.attn.qkv.{leaf}");
            return Placed { third: Some(third), ..Placed::whole(name, array) };
        }
    }
    match replaced(rest, '.', &BLOCK) {
        Some(timm) => Placed::whole(format!("blocks.{index}.{timm}"), array),
        None => Placed::whole(name, array),
    }
}
