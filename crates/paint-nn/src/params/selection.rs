//! What a parameter is, and which parameters train.
//!
//! The backbone gives every parameter a [`Role`]; a [`Trainable`] chooses by role. Nothing matches on names, so
//! `Blocks(0..2)` covers `blocks.1.norm1.weight` and cannot cover `blocks.10.norm1.weight`.

use std::ops::Range;

/// Which of a layer's two parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The matrix of a linear layer, the scale of a norm.
    Weight,
    /// The offset.
    Bias,
}

/// A layer of a transformer block, in timm's words, or of a residual block of convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The layer norm before attention; the first norm of a residual block.
    Norm1,
    /// `attn.qkv`.
    Qkv,
    /// `attn.proj`.
    Proj,
    /// The layer norm before the MLP; the second norm of a residual block.
    Norm2,
    /// `mlp.fc1`.
    Fc1,
    /// `mlp.fc2`.
    Fc2,
    /// The factors of the attention branch, by channel (`ls1`).
    Scale1,
    /// The factors of the MLP branch (`ls2`).
    Scale2,
    /// The first convolution.
    Conv1,
    /// The second convolution.
    Conv2,
    /// The third convolution of a bottleneck.
    Conv3,
    /// The third norm of a bottleneck.
    Norm3,
    /// The convolution on the shortcut.
    ShortcutConv,
    /// The norm on the shortcut.
    ShortcutNorm,
    /// The bias of relative positions (`attn.relative_position_bias_table`).
    RelativePositions,
    /// The norm before a stage of ConvNeXt or Swin, of whose first block it is a part.
    DownsampleNorm,
    /// The convolution, or linear map, after that norm.
    DownsampleConv,
}

impl Part {
    fn is_norm(self) -> bool {
        matches!(
            self,
            Self::Norm1 | Self::Norm2 | Self::Norm3 | Self::ShortcutNorm | Self::DownsampleNorm
        )
    }
}

/// What a parameter is within its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `patch_embed.proj`.
    PatchEmbed(Slot),
    /// The class token.
    ClsToken,
    /// The distillation token.
    DistToken,
    /// Register tokens.
    RegToken,
    /// The position embedding.
    PosEmbed,
    /// A layer of block `index`.
    Block {
        /// The block's number, from 0.
        index: usize,
        /// The layer.
        part: Part,
        /// Its parameter.
        slot: Slot,
    },
    /// A norm after the last block.
    FinalNorm(Slot),
    /// The query of attention pooling.
    PoolToken,
    /// A layer of attention pooling.
    Pool(Slot),
    /// The projection into the space of text features.
    Projection,
    /// The convolution before the first block.
    StemConv(Slot),
    /// The norm before the first block.
    StemNorm(Slot),
    /// The classifier.
    Head(Slot),
    /// A domain's prompt tokens.
    Prompt,
}

impl Role {
    /// Whether it is the scale or offset of a norm.
    pub fn is_norm_affine(self) -> bool {
        match self {
            Self::FinalNorm(_) | Self::StemNorm(_) => true,
            Self::Block { part, .. } => part.is_norm(),
            _ => false,
        }
    }

    /// The layer parameter it is; tokens and position embeddings are none.
    pub fn slot(self) -> Option<Slot> {
        match self {
            Self::ClsToken
            | Self::DistToken
            | Self::RegToken
            | Self::PoolToken
            | Self::PosEmbed
            | Self::Block { part: Part::RelativePositions, .. }
            | Self::Prompt => None,
            Self::PatchEmbed(slot)
            | Self::FinalNorm(slot)
            | Self::StemConv(slot)
            | Self::StemNorm(slot)
            | Self::Head(slot)
            | Self::Pool(slot)
            | Self::Block { slot, .. } => Some(slot),
            Self::Projection => Some(Slot::Weight),
        }
    }
}

/// A choice of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trainable {
    /// Scale and offset of every norm (TENT, ETA, EATA, CPL).
    NormAffine,
    /// Everything inside the blocks of this range (PAINT: `0..3`).
    Blocks(Range<usize>),
    /// Every weight and bias of a layer, so neither tokens nor position embeddings (CoTTA, RMT).
    Layers,
    /// Prompt tokens.
    Prompt,
    /// The classifier.
    Head,
    /// The norms after the last block.
    FinalNorm,
    /// All parameters.
    All,
    /// The parameter with exactly this role (`cls_token`; `block 0 norm1.weight`).
    Only(Role),
    /// What any of these covers; an empty list covers nothing.
    Any(Vec<Trainable>),
    /// What the first covers and the second does not.
    Except(Box<Trainable>, Box<Trainable>),
}

impl Trainable {
    /// This choice without `other`.
    #[must_use]
    pub fn except(self, other: Trainable) -> Self {
        Self::Except(Box::new(self), Box::new(other))
    }

    /// Whether a parameter of this role is chosen.
    pub fn covers(&self, role: Role) -> bool {
        match self {
            Self::NormAffine => role.is_norm_affine(),
            Self::Blocks(range) => {
                matches!(role, Role::Block { index, .. } if range.contains(&index))
            }
            Self::Layers => role.slot().is_some(),
            Self::Prompt => role == Role::Prompt,
            Self::Head => matches!(role, Role::Head(_)),
            Self::FinalNorm => matches!(role, Role::FinalNorm(_)),
            Self::All => true,
            Self::Only(only) => role == *only,
            Self::Any(choices) => choices.iter().any(|choice| choice.covers(role)),
            Self::Except(choice, other) => choice.covers(role) && !other.covers(role),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(index: usize, part: Part) -> Role {
        Role::Block { index, part, slot: Slot::Weight }
    }

    #[test]
    fn the_first_blocks_leave_the_tenth_alone() {
        let choice = Trainable::Blocks(0..2);
        assert!(choice.covers(block(1, Part::Norm1)));
        assert!(!choice.covers(block(10, Part::Norm1)));
        assert!(!choice.covers(block(2, Part::Fc1)));
    }

    #[test]
    fn the_choice_of_sar_leaves_the_last_blocks_and_the_final_norm() {
        let choice = Trainable::NormAffine
            .except(Trainable::Any(vec![Trainable::Blocks(9..12), Trainable::FinalNorm]));
        assert!(choice.covers(block(8, Part::Norm2)));
        assert!(!choice.covers(block(8, Part::Qkv)));
        assert!(!choice.covers(block(9, Part::Norm2)));
        assert!(!choice.covers(Role::FinalNorm(Slot::Bias)));
    }

    #[test]
    fn the_norms_of_a_residual_network_are_norms_and_its_convolutions_are_not() {
        for part in [Part::Norm1, Part::Norm3, Part::ShortcutNorm] {
            assert!(Trainable::NormAffine.covers(block(3, part)));
        }
        assert!(Trainable::NormAffine.covers(Role::StemNorm(Slot::Bias)));
        for part in [Part::Conv1, Part::Conv3, Part::ShortcutConv] {
            assert!(!Trainable::NormAffine.covers(block(3, part)));
            assert!(Trainable::Layers.covers(block(3, part)));
        }
        assert!(!Trainable::NormAffine.covers(Role::StemConv(Slot::Weight)));
    }

    #[test]
    fn layers_are_neither_tokens_nor_positions() {
        let relative = block(0, Part::RelativePositions);
        for role in [Role::ClsToken, Role::PosEmbed, Role::Prompt, relative] {
            assert!(!Trainable::Layers.covers(role));
            assert!(Trainable::All.covers(role));
        }
        assert!(Trainable::Layers.covers(Role::PatchEmbed(Slot::Bias)));
    }

    #[test]
    fn one_parameter_can_be_left_out_of_a_block() {
        let norm1 = block(0, Part::Norm1);
        let choice = Trainable::Blocks(0..3).except(Trainable::Only(norm1));
        assert!(!choice.covers(norm1));
        assert!(choice.covers(Role::Block { index: 0, part: Part::Norm1, slot: Slot::Bias }));
        assert!(choice.covers(block(1, Part::Norm1)));
    }

    #[test]
    fn an_empty_choice_covers_nothing() {
        assert!(!Trainable::Any(vec![]).covers(Role::Head(Slot::Weight)));
    }
}
