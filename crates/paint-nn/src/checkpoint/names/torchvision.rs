//! torchvision's `vit_b_16` and its sisters, of version 0.12 (`mlp.linear_1`) and later (`mlp.0`).

use super::{Array, Placed, block, replaced};

const STEM: [(&str, &str); 5] = [
    ("class_token", "cls_token"),
    ("encoder.pos_embedding", "pos_embed"),
    ("conv_proj", "patch_embed.proj"),
    ("encoder.ln", "norm"),
    ("heads.head", "head"),
];

const BLOCK: [(&str, &str); 9] = [
    ("ln_1", "norm1"),
    ("self_attention.in_proj_weight", "attn.qkv.weight"),
    ("self_attention.in_proj_bias", "attn.qkv.bias"),
    ("self_attention.out_proj", "attn.proj"),
    ("ln_2", "norm2"),
    ("mlp.0", "mlp.fc1"),
    ("mlp.3", "mlp.fc2"),
    ("mlp.linear_1", "mlp.fc1"),
    ("mlp.linear_2", "mlp.fc2"),
];

pub(super) fn place(name: &str, array: Array) -> Placed {
    let timm = replaced(name, '.', &STEM).or_else(|| {
        let (index, rest) = block(name.strip_prefix("encoder.layers.encoder_layer_")?, '.')?;
        Some(format!("blocks.{index}.{}", replaced(rest, '.', &BLOCK)?))
    });
    match timm {
        Some(timm) => Placed::whole(timm, array),
        None => Placed::whole(name, array),
    }
}
