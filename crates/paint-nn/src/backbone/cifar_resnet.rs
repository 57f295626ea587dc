//! Residual networks for 32x32 images, without parameters on their shortcuts.
//!
//! Two published families. He et al. (2016a): depth `6n + 2`, batch norm after each convolution, shortcuts of every
//! other pixel between channels of zeros ("option A"). Sun et al. (2020, test-time training): the pre-activation form
//! with group norm, shortcuts of 2x2 means before channels of zeros; its norms are called `bn` all the same. Names are
//! those of the published files.

use super::residual::{
    Assembly, Block, NormKind, Order, Parts, Plan, ResidualNet, Shortcut, StemPool, stages,
};
use super::{BuildOptions, Weights};
use crate::error::Result;
use crate::params::{Part, Role};

/// A member of one of the two families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CifarResnetConfig {
    /// `n`, the blocks of each of the three stages.
    pub blocks: usize,
    /// Channels of the first stage; the others have twice and four times as many.
    pub width: usize,
    /// Which family.
    pub variant: CifarVariant,
    /// The number of classes unless a checkpoint brings its own.
    pub num_classes: usize,
}

/// The two families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CifarVariant {
    /// Batch norm after convolutions, classifier `linear`.
    BatchNorm,
    /// Group norm before convolutions, classifier `fc`.
    GroupNorm {
        /// Groups of every norm.
        groups: usize,
    },
}

impl CifarResnetConfig {
    /// He et al.'s network of depth `6 blocks + 2`.
    pub const fn batch_norm(blocks: usize) -> Self {
        Self { blocks, width: 16, variant: CifarVariant::BatchNorm, num_classes: 10 }
    }

    /// ResNet-26 with eight groups.
    pub const fn resnet26_gn() -> Self {
        let variant = CifarVariant::GroupNorm { groups: 8 };
        Self { blocks: 4, width: 16, variant, num_classes: 10 }
    }

    /// The network called `name`; a checkpoint brings its own number of classes.
    pub fn build(
        self,
        name: &str,
        weights: Weights,
        options: &BuildOptions,
    ) -> Result<ResidualNet> {
        ResidualNet::build(&self, name, weights, options)
    }
}

impl Plan for CifarResnetConfig {
    const USUAL_SIZE: [usize; 2] = [32, 32];

    fn parts(&self, assembly: &mut Assembly) -> Result<Parts> {
        let (order, kind) = match self.variant {
            CifarVariant::BatchNorm => (Order::PostActivation, NormKind::Batch),
            CifarVariant::GroupNorm { groups } => (Order::PreActivation, NormKind::Group(groups)),
        };
        let post = order == Order::PostActivation;
        let width = self.width;
        let stem = assembly.conv("conv1", Role::StemConv, [width, 3, 3], 1)?;
        let stem_norm =
            post.then(|| assembly.norm(kind, "bn1", Role::StemNorm, width)).transpose()?;
        let mut inputs = width;
        let stages = stages(&[self.blocks; 3], |place| {
            let (stride, outputs) = (place.stride, width << (place.stage - 1));
            let name = |layer: &str| format!("layer{}.{}.{layer}", place.stage, place.within);
            let mut layers = Vec::new();
            for (n, conv_part, norm_part, inputs, stride) in [
                (1, Part::Conv1, Part::Norm1, inputs, stride),
                (2, Part::Conv2, Part::Norm2, outputs, 1),
            ] {
                let conv_name = name(&format!("conv{n}"));
                let norm_name = name(&format!("bn{n}"));
                let shape = [outputs, inputs, 3];
                // In the order of the forward pass, which is that of the files.
                layers.push(if post {
                    let conv = assembly.conv(&conv_name, place.role(conv_part), shape, stride)?;
                    (conv, assembly.norm(kind, &norm_name, place.role(norm_part), outputs)?)
                } else {
                    let norm = assembly.norm(kind, &norm_name, place.role(norm_part), inputs)?;
                    (assembly.conv(&conv_name, place.role(conv_part), shape, stride)?, norm)
                });
            }
            let shortcut = match (stride, post) {
                (1, _) => Shortcut::Identity,
                (stride, true) => {
                    let side = (outputs - inputs) / 2;
                    Shortcut::Zeros { window: 1, stride, before: side, after: side }
                }
                (stride, false) => {
                    let after = outputs - inputs;
                    Shortcut::Zeros { window: stride, stride, before: 0, after }
                }
            };
            inputs = outputs;
            Ok(Block { order, layers, shortcut })
        })?;
        let final_norm =
            (!post).then(|| assembly.norm(kind, "bn", Role::FinalNorm, inputs)).transpose()?;
        let head_name = if post { "linear" } else { "fc" };
        let (head, num_classes) = assembly.head(head_name, inputs, self.num_classes)?;
        Ok(Parts {
            stem,
            stem_norm,
            stem_pool: StemPool::None,
            stages,
            final_norm,
            head,
            feature_dim: inputs,
            num_classes,
        })
    }
}
