//! Hugging Face transformers, image towers of `CLIPModel`, `CLIPForImageClassification`, `SiglipModel` and
//! `SiglipForImageClassification`.
//!
//! A classifier of CLIP reads the mean of the patches before `post_layernorm`, one of SigLIP the mean after it: what
//! their own pooling needs then stays unread. The norm before the blocks is spelled `pre_layrnorm`.

use super::{Array, Placed, block, replaced};

const STEM: [(&str, &str); 13] = [
    ("embeddings.class_embedding", "cls_token"),
    ("embeddings.position_embedding.weight", "pos_embed"),
    ("embeddings.patch_embedding", "patch_embed.proj"),
    ("pre_layrnorm", "norm_pre"),
    ("post_layernorm", "norm"),
    ("visual_projection", "head.proj"),
    ("logit_scale", "head.logit_scale"),
    ("classifier", "head"),
    ("head.probe", "attn_pool.latent"),
    ("head.attention.out_proj", "attn_pool.proj"),
    ("head.layernorm", "attn_pool.norm"),
    ("head.mlp.fc1", "attn_pool.mlp.fc1"),
    ("head.mlp.fc2", "attn_pool.mlp.fc2"),
];

const BLOCK: [(&str, &str); 5] = [
    ("layer_norm1", "norm1"),
    ("self_attn.out_proj", "attn.proj"),
    ("layer_norm2", "norm2"),
    ("mlp.fc1", "mlp.fc1"),
    ("mlp.fc2", "mlp.fc2"),
];

const THIRDS: [&str; 3] = ["self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."];

/// Where an array goes in a file with a classifier (`classified`) or without.
pub(super) fn place(name: &str, array: Array, classified: bool, is_clip: bool) -> Vec<Placed> {
    if ["text_model.", "text_projection.", "logit_bias"].iter().any(|part| name.contains(part)) {
        return vec![Placed::dropped(name, "of the text tower")];
    }
    if name.ends_with("position_ids") {
        return vec![Placed::dropped(name, "numbers that the positions are looked up by")];
    }
    let bare = name.find("vision_model.").map_or(name, |at| &name[at + "vision_model.".len()..]);
    let own_pooling = bare.starts_with("head.") || bare.starts_with("post_layernorm.") && is_clip;
    if classified && own_pooling {
        return vec![Placed::dropped(name, "of a pooling that the classifier does not read")];
    }
    if let Some(leaf) = bare.strip_prefix("head.attention.in_proj_") {
        return pool_projection(leaf, name, &array);
    }
    if let Some(timm) = replaced(bare, '.', &STEM) {
        let shape = match (timm.as_str(), &array.shape[..]) {
            ("cls_token", &[d]) => vec![1, 1, d],
            ("pos_embed", &[tokens, d]) => vec![1, tokens, d],
            _ => array.shape.clone(),
        };
        return vec![Placed::whole(timm, Array { shape, ..array })];
    }
    let Some((index, rest)) =
        bare.strip_prefix("encoder.layers.").and_then(|rest| block(rest, '.'))
    else {
        return vec![Placed::whole(name, array)];
    };
    for (third, prefix) in THIRDS.iter().enumerate() {
        if let Some(leaf) = rest.strip_prefix(prefix) {
            let name = format!("blocks.{index}.attn.qkv.{leaf}");
            return vec![Placed { part: Some((third, 3)), ..Placed::whole(name, array) }];
        }
    }
    vec![match replaced(rest, '.', &BLOCK) {
        Some(timm) => Placed::whole(format!("blocks.{index}.{timm}"), array),
        None => Placed::whole(name, array),
    }]
}

/// The packed projection of attention pooling: its first third makes the query, the rest keys and values.
fn pool_projection(leaf: &str, name: &str, array: &Array) -> Vec<Placed> {
    let rows = array.shape.first().copied().unwrap_or(0);
    let width: usize = array.shape.iter().skip(1).product();
    if rows % 3 != 0 || !["weight", "bias"].contains(&leaf) {
        return vec![Placed::whole(name, array.clone())];
    }
    let (query, rest) = array.data.split_at(rows / 3 * width);
    let part = |rows: usize, data: &[f32]| {
        let shape = std::iter::once(rows).chain(array.shape.iter().skip(1).copied()).collect();
        Array { shape, dtype: array.dtype, data: data.to_vec() }
    };
    vec![
        Placed::whole(format!("attn_pool.q.{leaf}"), part(rows / 3, query)),
        Placed::whole(format!("attn_pool.kv.{leaf}"), part(rows / 3 * 2, rest)),
    ]
}
