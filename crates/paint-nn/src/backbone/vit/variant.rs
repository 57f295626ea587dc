//! What sets a vision transformer apart from the plain one, in timm's words.
//!
//! Most of it shows in the names of the arrays ([`Variant::of`]); the rest, [`Traits`], is known beside them.

use std::collections::BTreeMap;

use crate::checkpoint::{Activation, COSINE_HEAD, Checkpoint, GlobalPool, Traits};

/// The epsilon of timm's layer norms, and of those of its CLIP.
const NORM_EPS: f32 = 1e-6;
const NORM_EPS_CLIP: f32 = 1e-5;

/// Which tokens have a position embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positioned {
    /// The patches (`no_embed_class`).
    Patches,
    /// The class token and the patches.
    ClassAndPatches,
    /// Class token, distillation token or registers, and the patches.
    All,
}

/// The layers between the blocks and the logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// `head`.
    Linear,
    /// `head` and `head_dist`, whose logits are averaged.
    Distilled,
    /// The cosine to text features, in a space of their own if a projection leads there.
    Cosine {
        /// The width of the text features.
        width: usize,
        /// Whether `head.proj` leads to them.
        projected: bool,
    },
}

/// The parts of a vision transformer.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part that is there or not")]
pub struct Variant {
    /// The epsilon of every layer norm.
    pub norm_eps: f32,
    /// Whether there is a class token.
    pub class_token: bool,
    /// The number of register tokens.
    pub reg_tokens: usize,
    /// Which tokens have a position.
    pub positioned: Positioned,
    /// Whether the patch embedding has a bias.
    pub patch_bias: bool,
    /// Whether a norm comes before the blocks.
    pub norm_pre: bool,
    /// Whether the branches of a block are scaled by channel.
    pub layer_scale: bool,
    /// The activation of the MLPs.
    pub activation: Activation,
    /// Whether half of an MLP's hidden channels gate the others (SwiGLU).
    pub gated: bool,
    /// What the classifier reads.
    pub global_pool: GlobalPool,
    /// Whether the mean is normed after pooling (`fc_norm`), instead of the tokens before it (`norm`).
    pub fc_norm: bool,
    /// What comes after pooling.
    pub head: HeadKind,
}

impl Variant {
    /// The plain ViT.
    pub const PLAIN: Self = Self {
        norm_eps: NORM_EPS,
        class_token: true,
        reg_tokens: 0,
        positioned: Positioned::ClassAndPatches,
        patch_bias: true,
        norm_pre: false,
        layer_scale: false,
        activation: Activation::Gelu,
        gated: false,
        global_pool: GlobalPool::Token,
        fc_norm: false,
        head: HeadKind::Linear,
    };

    /// Whether there is a distillation token.
    pub fn dist_token(&self) -> bool {
        self.head == HeadKind::Distilled
    }

    /// Tokens before the patches, prompts not counted.
    pub fn num_prefix_tokens(&self) -> usize {
        usize::from(self.class_token) + usize::from(self.dist_token()) + self.reg_tokens
    }

    /// Rows of the position embedding before those of the patches.
    pub fn prefix_positions(&self) -> usize {
        match self.positioned {
            Positioned::Patches => 0,
            Positioned::ClassAndPatches => usize::from(self.class_token),
            Positioned::All => self.num_prefix_tokens(),
        }
    }

    /// What is not the plain ViT's of what arrays do not show.
    pub fn unusual(&self) -> Traits {
        let plain = Self::PLAIN;
        Traits {
            layer_norm_eps: Some(self.norm_eps).filter(|eps| *eps != plain.norm_eps),
            activation: Some(self.activation).filter(|activation| *activation != plain.activation),
            global_pool: Some(self.global_pool).filter(|pool| *pool != plain.global_pool),
        }
    }

    /// What a file of these weights has to say beside the arrays, so that they are read as the same network; the plain
    /// ViT needs nothing.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        let mut metadata = BTreeMap::new();
        self.unusual().note(&mut metadata);
        if matches!(self.head, HeadKind::Cosine { .. }) {
            metadata.insert(COSINE_HEAD.to_owned(), String::new());
        }
        metadata
    }

    /// The parts that the arrays of `weights` show, with timm's names, for `num_patches` patches.
    pub fn of(weights: &Checkpoint, traits: &Traits, num_patches: usize) -> Self {
        let has = |name: &str| weights.get(name).is_some();
        let axis = |name: &str, axis: usize| weights.get(name)?.shape.get(axis).copied();
        let width = axis("patch_embed.proj.weight", 0);
        let hidden = axis("blocks.0.mlp.fc2.weight", 1).map(|hidden| 2 * hidden);
        let gated = hidden.is_some() && axis("blocks.0.mlp.fc1.weight", 0) == hidden;
        let norm_pre = has("norm_pre.weight");
        let head = match axis("head.weight", 1) {
            Some(text) if has("head.proj.weight") => {
                HeadKind::Cosine { width: text, projected: true }
            }
            Some(text) if weights.metadata.contains_key(COSINE_HEAD) => {
                HeadKind::Cosine { width: text, projected: false }
            }
            _ if has("dist_token") => HeadKind::Distilled,
            _ => HeadKind::Linear,
        };
        // Arrays without one are those of another network, unless something else says that there is none.
        let pools_patches = ["attn_pool.latent", "fc_norm.weight"].into_iter().any(has)
            || traits.global_pool == Some(GlobalPool::Avg);
        let class_token = has("cls_token") || !pools_patches;
        let mut variant = Self {
            norm_eps: traits.layer_norm_eps.unwrap_or(if norm_pre {
                NORM_EPS_CLIP
            } else {
                NORM_EPS
            }),
            class_token,
            reg_tokens: axis("reg_token", 1).unwrap_or(0),
            positioned: Positioned::All,
            // CLIP leaves it out; a network without a norm in its place has lost it.
            patch_bias: has("patch_embed.proj.bias") || !norm_pre,
            norm_pre,
            layer_scale: has("blocks.0.ls1.gamma"),
            // A configuration may name the activation of the MLP that the gate replaces.
            activation: if gated {
                Activation::Silu
            } else {
                traits.activation.unwrap_or(Activation::Gelu)
            },
            gated,
            global_pool: GlobalPool::Token,
            fc_norm: has("fc_norm.weight"),
            head,
        };
        variant.global_pool = match traits.global_pool {
            _ if has("attn_pool.latent") => GlobalPool::Map,
            _ if head == HeadKind::Linear && axis("head.weight", 1) == width.map(|d| 2 * d) => {
                GlobalPool::TokenAvg
            }
            _ if variant.fc_norm => GlobalPool::Avg,
            Some(GlobalPool::Avg) => GlobalPool::Avg,
            Some(GlobalPool::AvgRaw) => GlobalPool::AvgRaw,
            _ if !class_token => GlobalPool::Avg,
            _ => GlobalPool::Token,
        };
        variant.positioned =
            variant.positioned_among(axis("pos_embed", 1).unwrap_or(0), num_patches);
        variant
    }

    /// Which tokens the rows of a position embedding belong to: those that leave the patches of the image, or a square
    /// of patches.
    fn positioned_among(mut self, rows: usize, num_patches: usize) -> Positioned {
        let all = [Positioned::ClassAndPatches, Positioned::Patches, Positioned::All];
        let mut left = |positioned| {
            self.positioned = positioned;
            rows.saturating_sub(self.prefix_positions())
        };
        let exact = all.into_iter().find(|positioned| left(*positioned) == num_patches);
        let square = |count: usize| count > 0 && count.isqrt().pow(2) == count;
        let fits = |positioned: &Positioned| square(left(*positioned));
        exact.or_else(|| all.into_iter().find(fits)).unwrap_or(Positioned::ClassAndPatches)
    }
}
