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

/// A layer of a transformer block, in timm's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The layer norm before attention.
    Norm1,
    /// `attn.qkv`.
    Qkv,
    /// `attn.proj`.
    Proj,
    /// The layer norm before the MLP.
    Norm2,
    /// `mlp.fc1`.
    Fc1,
    /// `mlp.fc2`.
    Fc2,
}

/// What a parameter is within its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `patch_embed.proj`.
    PatchEmbed(Slot),
    /// The class token.
    ClsToken,
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
    /// The norm after the last block.
    FinalNorm(Slot),
    /// The classifier.
    Head(Slot),
    /// A domain's prompt tokens.
    Prompt,
}

impl Role {
    /// Whether it is the scale or offset of a norm.
    pub fn is_norm_affine(self) -> bool {
        matches!(self, Self::FinalNorm(_) | Self::Block { part: Part::Norm1 | Part::Norm2, .. })
    }

    /// The layer parameter it is; tokens and position embeddings are none.
    pub fn slot(self) -> Option<Slot> {
        match self {
            Self::PatchEmbed(slot)
            | Self::FinalNorm(slot)
            | Self::Head(slot)
            | Self::Block { slot, .. } => Some(slot),
            Self::ClsToken | Self::PosEmbed | Self::Prompt => None,
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
    /// The norm after the last block.
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
    fn layers_are_neither_tokens_nor_positions() {
        for role in [Role::ClsToken, Role::PosEmbed, Role::Prompt] {
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
