//! Networks, and parts of networks, that are not built here, by the names of their arrays.
//!
//! A refusal can then say what was found in words; a list of missing keys helps only those who know the answer.

/// Something that names of arrays give away.
struct Sign {
    /// What it is.
    words: &'static str,
    is: fn(&str) -> bool,
}

/// Whole networks; the first that fits is meant.
const NETWORKS: [Sign; 7] = [
    Sign {
        words: "a Swin Transformer V2 (attention by cosines)",
        is: |name| {
            name.starts_with("swinv2.")
                || name.starts_with("layers.") && name.ends_with(".attn.logit_scale")
                || name.starts_with("features.") && name.ends_with(".attn.logit_scale")
        },
    },
    Sign {
        words: "a MaxViT (attention inside blocks and over grids)",
        is: |name| name.contains(".attn_grid."),
    },
    Sign {
        words: "a ConvNeXt V2 (norms of responses)",
        is: |name| name.contains(".grn.") || name.starts_with("convnextv2."),
    },
    Sign { words: "an MLP-Mixer", is: |name| name.contains(".mlp_tokens.") },
    Sign { words: "an EfficientNet or MobileNet", is: |name| name == "conv_stem.weight" },
    Sign {
        words: "a BEiT (relative positions)",
        is: |name| {
            name.starts_with("blocks.") && name.ends_with(".attn.relative_position_bias_table")
                || name.starts_with("beit.")
        },
    },
    Sign {
        words: "an EVA (rotary positions)",
        is: |name| {
            name.starts_with("blocks.") && name.ends_with(".attn.q_bias") || name == "rope.bands"
        },
    },
];

/// Parts that some vision transformers have and ours do not.
const EXTRA: [Sign; 4] = [
    Sign {
        words: "norms of queries and keys",
        is: |name| name.contains(".attn.q_norm.") || name.contains(".attn.k_norm."),
    },
    Sign {
        words: "a hidden layer in the classifier",
        is: |name| name.starts_with("pre_logits.") || name.starts_with("head.fc"),
    },
    Sign {
        words: "a projection to text features, which `model.text_features` completes to a classifier",
        is: |name| name == "head.proj.weight" || name == "head.logit_scale",
    },
    Sign {
        words: "the pooler of a model without a classifier",
        is: |name| name.starts_with("pooler."),
    },
];

/// Parts that ours have and some vision transformers do not.
const MISSING: [Sign; 4] = [
    Sign {
        words: "a classifier (these are features only; an image tower of CLIP or SigLIP takes --set model.text_features=FILE, \
                one row of text features per class)",
        is: |name| name.starts_with("head."),
    },
    Sign { words: "a class token", is: |name| name == "cls_token" },
    Sign {
        words: "the bias of the patch embedding, which CLIP leaves out",
        is: |name| name == "patch_embed.proj.bias",
    },
    Sign {
        words: "biases of queries, keys and values",
        is: |name| name.ends_with(".attn.qkv.bias"),
    },
];

/// The network that these names belong to, if it is one that is known and not built here.
pub(crate) fn network<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    names.find_map(|name| NETWORKS.iter().find(|sign| (sign.is)(name))).map(|sign| sign.words)
}

/// Names in words: each known part with the names that show it, and the names that say nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) known: Vec<(&'static str, Vec<&'a str>)>,
    pub(crate) other: Vec<&'a str>,
}

/// What names that a model has no use for stand for.
pub(crate) fn extra(names: &[String]) -> Parts<'_> {
    parts(names, &EXTRA)
}

/// What names that a model needs and does not find stand for.
pub(crate) fn missing(names: &[String]) -> Parts<'_> {
    parts(names, &MISSING)
}

fn parts<'a>(names: &'a [String], signs: &[Sign]) -> Parts<'a> {
    let mut parts = Parts::default();
    for sign in signs {
        let shown: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| (sign.is)(name)).collect();
        if !shown.is_empty() {
            parts.known.push((sign.words, shown));
        }
    }
    let is_known = |name: &&str| signs.iter().any(|sign| (sign.is)(name));
    parts.other = names.iter().map(String::as_str).filter(|name| !is_known(name)).collect();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_known_by_the_names_of_their_arrays() {
        for (name, word) in [
            ("layers.0.blocks.0.attn.logit_scale", "Swin Transformer V2"),
            ("features.1.0.attn.logit_scale", "Swin Transformer V2"),
            ("swinv2.encoder.layers.0.blocks.0.layernorm_before.weight", "Swin Transformer V2"),
            ("stages.0.blocks.0.attn_grid.norm1.weight", "MaxViT"),
            ("convnextv2.embeddings.patch_embeddings.weight", "ConvNeXt V2"),
            ("stages.0.blocks.0.mlp.grn.weight", "ConvNeXt V2"),
            ("blocks.0.mlp_tokens.fc1.weight", "Mixer"),
            ("conv_stem.weight", "EfficientNet"),
            ("blocks.0.attn.relative_position_bias_table", "BEiT"),
        ] {
            let found = network(["cls_token", name].into_iter());
            assert!(found.is_some_and(|found| found.contains(word)), "{name}: {found:?}");
        }
        assert_eq!(
            network(["cls_token", "blocks.0.attn.qkv.weight", "conv1.weight"].into_iter()),
            None
        );
    }

    #[test]
    fn names_become_parts_and_what_says_nothing_is_left() {
        let names =
            ["blocks.0.attn.q_norm.weight", "blocks.1.attn.k_norm.bias", "odd"].map(str::to_owned);
        let parts = extra(&names);
        assert_eq!(parts.known.len(), 1);
        assert!(parts.known[0].0.contains("queries and keys"));
        assert_eq!((parts.known[0].1.len(), parts.other), (2, vec!["odd"]));
    }
}
