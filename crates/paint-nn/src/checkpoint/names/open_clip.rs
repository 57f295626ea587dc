//! OpenAI's CLIP and open_clip: `visual.transformer.resblocks.0.ln_1`; with a tower of timm, `visual.trunk.blocks.0`.

use super::{Array, Placed, block, replaced};

const STEM: [(&str, &str); 7] = [
    ("class_embedding", "cls_token"),
    ("positional_embedding", "pos_embed"),
    ("conv1", "patch_embed.proj"),
    ("ln_pre", "norm_pre"),
    ("ln_post", "norm"),
    ("proj", "head.proj.weight"),
    ("head", "head"),
];

const BLOCK: [(&str, &str); 7] = [
    ("ln_1", "norm1"),
    ("attn.in_proj_weight", "attn.qkv.weight"),
    ("attn.in_proj_bias", "attn.qkv.bias"),
    ("attn.out_proj", "attn.proj"),
    ("ln_2", "norm2"),
    ("mlp.c_fc", "mlp.fc1"),
    ("mlp.c_proj", "mlp.fc2"),
];

/// Where an array goes; `whole` if the file has a text tower beside the image tower.
pub(super) fn place(name: &str, array: Array, whole: bool) -> Placed {
    if name == "logit_scale" {
        return Placed::whole("head.logit_scale", array);
    }
    let inner = name.strip_prefix("visual.");
    if inner.is_none() && whole {
        return Placed::dropped(name, "of the text tower");
    }
    let bare = inner.unwrap_or(name);
    if let Some(timm) = bare.strip_prefix("trunk.") {
        return Placed::whole(timm, array);
    }
    if let Some(timm) = replaced(bare, '.', &STEM) {
        let array = match (timm.as_str(), &array.shape[..]) {
            ("cls_token", &[d]) => Array { shape: vec![1, 1, d], ..array },
            ("pos_embed", &[tokens, d]) => Array { shape: vec![1, tokens, d], ..array },
            ("head.proj.weight", &[_, _]) => array.transposed(&[1, 0]),
            _ => array,
        };
        return Placed::whole(timm, array);
    }
    let timm = bare.strip_prefix("transformer.resblocks.").and_then(|rest| {
        let (index, rest) = block(rest, '.')?;
        Some(format!("blocks.{index}.{}", replaced(rest, '.', &BLOCK)?))
    });
    match timm {
        Some(timm) => Placed::whole(timm, array),
        None => Placed::whole(name, array),
    }
}
