//! Wide residual networks (Zagoruyko & Komodakis 2016) for 32x32 images, with RobustBench's names.
//!
//! Depth `6n + 4`, pre-activation, a convolution on the shortcut where the shape changes. The last planes of a 32x32
//! image are 8x8, so the 8x8 average pool of RobustBench is the global one.

use super::residual::{
    Assembly, Block, NormKind, Order, Parts, Plan, ResidualNet, Shortcut, StemPool, stages,
};
use super::{BuildOptions, Weights};
use crate::error::Result;
use crate::params::{Part, Role};

/// Sizes of a wide ResNet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideResnetConfig {
    /// `n`, the blocks of each of the three stages.
    pub blocks: usize,
    /// How many times wider than a CIFAR ResNet the stages are.
    pub widen: usize,
    /// Channels of the stem.
    pub width: usize,
    /// The number of classes unless a checkpoint brings its own.
    pub num_classes: usize,
}

impl WideResnetConfig {
    /// WRN-28-10, RobustBench's "Standard" for CIFAR-10.
    pub const fn wrn_28_10() -> Self {
        Self { blocks: 4, widen: 10, width: 16, num_classes: 10 }
    }

    /// WRN-40-2, AugMix's.
    pub const fn wrn_40_2() -> Self {
        Self { blocks: 6, widen: 2, width: 16, num_classes: 10 }
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

impl Plan for WideResnetConfig {
    const USUAL_SIZE: [usize; 2] = [32, 32];

    fn parts(&self, assembly: &mut Assembly) -> Result<Parts> {
        let norm = NormKind::Batch;
        let stem = assembly.conv("conv1", Role::StemConv, [self.width, 3, 3], 1)?;
        let mut inputs = self.width;
        let stages = stages(&[self.blocks; 3], |place| {
            let outputs = (self.width * self.widen) << (place.stage - 1);
            let role = |part| place.role(part);
            let name = |layer: &str| format!("block{}.layer.{}.{layer}", place.stage, place.within);
            let norm1 = assembly.norm(norm, &name("bn1"), role(Part::Norm1), inputs)?;
            let shape = [outputs, inputs, 3];
            let conv1 = assembly.conv(&name("conv1"), role(Part::Conv1), shape, place.stride)?;
            let norm2 = assembly.norm(norm, &name("bn2"), role(Part::Norm2), outputs)?;
            let shape = [outputs, outputs, 3];
            let conv2 = assembly.conv(&name("conv2"), role(Part::Conv2), shape, 1)?;
            let shortcut = if inputs == outputs {
                Shortcut::Identity
            } else {
                let (name, role) = (name("convShortcut"), role(Part::ShortcutConv));
                let conv = assembly.conv(&name, role, [outputs, inputs, 1], place.stride)?;
                Shortcut::Conv { conv, norm: None }
            };
            let layers = vec![(conv1, norm1), (conv2, norm2)];
            inputs = outputs;
            Ok(Block { order: Order::PreActivation, layers, shortcut })
        })?;
        let final_norm = Some(assembly.norm(norm, "bn1", Role::FinalNorm, inputs)?);
        let (head, num_classes) = assembly.head("fc", inputs, self.num_classes)?;
        Ok(Parts {
            stem,
            stem_norm: None,
            stem_pool: StemPool::None,
            stages,
            final_norm,
            head,
            feature_dim: inputs,
            num_classes,
        })
    }

    /// RobustBench's class can hold a second first stage, which its forward pass leaves out, and the mean and standard
    /// deviation of the input, which belong to the preprocessing here.
    fn unused(name: &str) -> bool {
        name.starts_with("sub_block1.") || matches!(name, "mu" | "sigma")
    }
}
