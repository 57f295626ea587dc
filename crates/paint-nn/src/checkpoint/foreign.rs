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
const NETWORKS: [Sign; 6] = [
    Sign {
        words: "a Swin transformer (attention inside windows)",
        is: |name| {
            name.starts_with("layers.") && name.ends_with(".attn.relative_position_bias_table")
        },
    },
    Sign {
        words: "CLIP (an image tower beside a text tower)",
        is: |name| {
            ["visual.", "vision_model.", "text_model.", "transformer.resblocks."]
                .iter()
                .any(|start| name.starts_with(start))
        },
    },
    Sign {
        words: "a ConvNeXt",
        is: |name| {
            name.starts_with("stages.") && (name.contains(".conv_dw.") || name.contains(".dwconv."))
        },
    },
    Sign { words: "an MLP-Mixer", is: |name| name.contains(".mlp_tokens.") },
    Sign { words: "an EfficientNet or MobileNet", is: |name| name == "conv_stem.weight" },
    Sign {
        words: "a BEiT (relative positions)",
        is: |name| {
            name.starts_with("blocks.") && name.ends_with(".attn.relative_position_bias_table")
        },
    },
];

/// Parts that some vision transformers have and ours do not.
const EXTRA: [Sign; 8] = [
    Sign {
        words: "layer scale, as DeiT III and DINOv2 have",
        is: |name| {
            [".ls1.", ".ls2.", ".gamma_1", ".gamma_2"].iter().any(|part| name.contains(part))
        },
    },
    Sign {
        words: "a norm before the blocks, as CLIP has",
        is: |name| name.starts_with("norm_pre."),
    },
    Sign {
        words: "a distillation token, as distilled DeiT has",
        is: |name| name == "dist_token" || name.starts_with("head_dist."),
    },
    Sign { words: "register tokens, as DINOv2 has", is: |name| name == "reg_token" },
    Sign {
        words: "norms of queries and keys",
        is: |name| name.contains(".attn.q_norm.") || name.contains(".attn.k_norm."),
    },
    Sign {
        words: "a norm after average pooling, as MAE and BEiT have",
        is: |name| name.starts_with("fc_norm."),
    },
    Sign {
        words: "pooling by attention, as SigLIP has",
        is: |name| name.starts_with("attn_pool."),
    },
    Sign {
        words: "a hidden layer in the classifier",
        is: |name| name.starts_with("pre_logits.") || name.starts_with("head.fc"),
    },
];

/// Parts that ours have and some vision transformers do not.
const MISSING: [Sign; 4] = [
    Sign { words: "a classifier (these are features only)", is: |name| name.starts_with("head.") },
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
            ("layers.0.blocks.0.attn.relative_position_bias_table", "Swin"),
            ("visual.transformer.resblocks.0.ln_1.weight", "CLIP"),
            ("vision_model.embeddings.class_embedding", "CLIP"),
            ("stages.0.blocks.0.conv_dw.weight", "ConvNeXt"),
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
        let names = ["blocks.0.ls1.gamma", "blocks.1.ls2.gamma", "odd"].map(str::to_owned);
        let parts = extra(&names);
        assert_eq!(parts.known.len(), 1);
        assert!(parts.known[0].0.contains("DeiT III"));
        assert_eq!((parts.known[0].1.len(), parts.other), (2, vec!["odd"]));
    }
}
