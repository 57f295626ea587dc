//! Swin under the names of its authors (and of timm before 0.9), Hugging Face and torchvision; those of timm today are
//! what the network here has. The others count the merging of patches to the stage before it, timm to the one after.

use super::convnext::Publisher;
use super::{Array, Placed, block, replaced};

/// What files hold that follows from the sizes.
const COMPUTED: &str = "computed from the sizes of the network";

const ENDS: [(&str, &str); 11] = [
    ("patch_embed.proj", "patch_embed.proj"),
    ("patch_embed.norm", "patch_embed.norm"),
    ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
    ("embeddings.norm", "patch_embed.norm"),
    ("features.0.0", "patch_embed.proj"),
    ("features.0.2", "patch_embed.norm"),
    ("norm", "norm"),
    ("layernorm", "norm"),
    ("head", "head.fc"),
    ("classifier", "head.fc"),
    ("head.fc", "head.fc"),
];

const TABLE: &str = "attn.relative_position_bias_table";

/// Layers of a block; names that timm has too stay.
const BLOCK: [(&str, &str); 17] = [
    ("norm1", "norm1"),
    ("norm2", "norm2"),
    ("attn.qkv", "attn.qkv"),
    ("attn.proj", "attn.proj"),
    (TABLE, TABLE),
    ("mlp.fc1", "mlp.fc1"),
    ("mlp.fc2", "mlp.fc2"),
    ("layernorm_before", "norm1"),
    ("layernorm_after", "norm2"),
    ("attention.output.dense", "attn.proj"),
    ("attention.o_proj", "attn.proj"),
    ("attention.self.relative_position_bias_table", TABLE),
    ("attention.relative_position_bias.relative_position_bias_table", TABLE),
    ("intermediate.dense", "mlp.fc1"),
    ("output.dense", "mlp.fc2"),
    ("mlp.0", "mlp.fc1"),
    ("mlp.3", "mlp.fc2"),
];

/// Query, key and value, which timm packs.
const PACKED: [(&str, usize); 6] = [
    ("attention.self.query.", 0),
    ("attention.self.key.", 1),
    ("attention.self.value.", 2),
    ("attention.q_proj.", 0),
    ("attention.k_proj.", 1),
    ("attention.v_proj.", 2),
];

/// The publisher whose names these are, other than timm's of today.
pub(super) fn publisher(any: impl Fn(fn(&str) -> bool) -> bool) -> Option<Publisher> {
    if !any(|name| name.ends_with("relative_position_bias_table")) {
        None
    } else if any(|name| name.starts_with("layers.0.downsample.")) {
        Some(Publisher::Authors)
    } else if any(|name| name.ends_with("embeddings.patch_embeddings.projection.weight"))
        && any(|name| name.contains("encoder.layers.0.blocks."))
    {
        Some(Publisher::HuggingFace)
    } else if any(|name| name.starts_with("features.1.0.attn.")) {
        Some(Publisher::Torchvision)
    } else {
        None
    }
}

/// Whether an array follows from the sizes of a network.
fn is_computed(name: &str) -> bool {
    name.ends_with(".relative_position_index") || name.ends_with(".attn_mask")
}

/// Why an array that timm's files have, today's and older ones, is not needed.
pub(super) fn unneeded(name: &str) -> Option<&'static str> {
    (name.starts_with("layers.") && is_computed(name)).then_some(COMPUTED)
}

pub(super) fn place(name: &str, array: Array, publisher: Publisher) -> Placed {
    let bare = name.strip_prefix("swin.").unwrap_or(name);
    if is_computed(name) {
        return Placed::dropped(name, COMPUTED);
    }
    if bare == "embeddings.mask_token" {
        return Placed::dropped(name, "a token that only training uses");
    }
    if let Some(timm) = replaced(bare, '.', &ENDS) {
        return Placed::whole(timm, array);
    }
    let Some((stage, rest)) = in_stage(bare, publisher) else {
        return Placed::whole(name, array);
    };
    let Some((within, layer)) = rest.strip_prefix("blocks.").and_then(|rest| block(rest, '.'))
    else {
        let merging = rest.strip_prefix("downsample.").map(|rest| (stage + 1, rest));
        return match merging {
            Some((next, rest)) => Placed::whole(format!("layers.{next}.downsample.{rest}"), array),
            None => Placed::whole(name, array),
        };
    };
    let timm = |layer: &str| format!("layers.{stage}.blocks.{within}.{layer}");
    for (theirs, part) in PACKED {
        if let Some(leaf) = layer.strip_prefix(theirs) {
            let name = timm(&format!("attn.qkv.{leaf}"));
            return Placed { part: Some((part, 3)), ..Placed::whole(name, array) };
        }
    }
    match replaced(layer, '.', &BLOCK) {
        Some(layer) => Placed::whole(timm(&layer), array),
        None => Placed::whole(name, array),
    }
}

/// The stage of a name and the rest of it, as the authors have it: `blocks.0.norm1.weight`, `downsample.norm.weight`.
fn in_stage(name: &str, publisher: Publisher) -> Option<(usize, String)> {
    let numbered = |prefix| name.strip_prefix(prefix).and_then(|rest| block(rest, '.'));
    if publisher != Publisher::Torchvision {
        let (stage, rest) = numbered("layers.").or_else(|| numbered("encoder.layers."))?;
        return Some((stage, rest.to_owned()));
    }
    // Odd places are stages, even ones what comes after them.
    let (place, rest) = numbered("features.")?;
    let stage = place.checked_sub(1)? / 2;
    let layer = if place.is_multiple_of(2) { "downsample" } else { "blocks" };
    Some((stage, format!("{layer}.{rest}")))
}
