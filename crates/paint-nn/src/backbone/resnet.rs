//! Residual networks for ImageNet (He et al. 2016a), with torchvision's names.
//!
//! A 7x7 stem with max pooling, four stages of basic (two 3x3) or bottleneck (1x1, 3x3, 1x1) blocks, batch norm after
//! each convolution, convolutions on the shortcuts where the shape changes.

use super::residual::{
    Assembly, Block, NormKind, Order, Parts, Plan, ResidualNet, Shortcut, StemPool, stages,
};
use super::{BuildOptions, Weights};
use crate::error::Result;
use crate::params::{Part, Role};

/// Sizes of a ResNet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResnetConfig {
    /// Blocks of each stage.
    pub blocks: [usize; 4],
    /// The kind of its blocks.
    pub block: BlockKind,
    /// Channels of the stem.
    pub width: usize,
    /// The number of classes unless a checkpoint brings its own.
    pub num_classes: usize,
}

/// The convolutions of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Two of 3x3.
    Basic,
    /// 1x1, 3x3 and 1x1, the last with four times the channels.
    Bottleneck(StrideIn),
}

/// Which convolution of a bottleneck halves the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrideIn {
    /// The 3x3, as in torchvision.
    Conv3x3,
    /// The first 1x1, as in the paper.
    Conv1x1,
}

/// One convolution of a block, with its norm.
struct Layer {
    parts: [Part; 2],
    side: usize,
    outputs: usize,
    stride: usize,
}

impl ResnetConfig {
    /// ResNet-18.
    pub const fn resnet18() -> Self {
        Self { blocks: [2, 2, 2, 2], block: BlockKind::Basic, width: 64, num_classes: 1000 }
    }

    /// ResNet-50.
    pub const fn resnet50(stride: StrideIn) -> Self {
        let block = BlockKind::Bottleneck(stride);
        Self { blocks: [3, 4, 6, 3], block, width: 64, num_classes: 1000 }
    }

    fn layers(&self, width: usize, stride: usize) -> Vec<Layer> {
        let layer = |parts, side, outputs, stride| Layer { parts, side, outputs, stride };
        let (first, second) = ([Part::Conv1, Part::Norm1], [Part::Conv2, Part::Norm2]);
        match self.block {
            BlockKind::Basic => vec![layer(first, 3, width, stride), layer(second, 3, width, 1)],
            BlockKind::Bottleneck(place) => {
                let strides = match place {
                    StrideIn::Conv3x3 => [1, stride],
                    StrideIn::Conv1x1 => [stride, 1],
                };
                vec![
                    layer(first, 1, width, strides[0]),
                    layer(second, 3, width, strides[1]),
                    layer([Part::Conv3, Part::Norm3], 1, 4 * width, 1),
                ]
            }
        }
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

impl Plan for ResnetConfig {
    const USUAL_SIZE: [usize; 2] = [224, 224];

    fn parts(&self, assembly: &mut Assembly) -> Result<Parts> {
        let norm = NormKind::Batch;
        let stem = assembly.conv("conv1", Role::StemConv, [self.width, 3, 7], 2)?;
        let stem_norm = Some(assembly.norm(norm, "bn1", Role::StemNorm, self.width)?);
        let mut inputs = self.width;
        let stages = stages(&self.blocks, |place| {
            let stride = place.stride;
            let name = |layer: &str| format!("layer{}.{}.{layer}", place.stage, place.within);
            let (entrance, mut layers) = (inputs, Vec::new());
            for (n, layer) in
                self.layers(self.width << (place.stage - 1), stride).iter().enumerate()
            {
                let shape = [layer.outputs, inputs, layer.side];
                let conv_name = name(&format!("conv{}", n + 1));
                let conv =
                    assembly.conv(&conv_name, place.role(layer.parts[0]), shape, layer.stride)?;
                let norm_name = name(&format!("bn{}", n + 1));
                let norm =
                    assembly.norm(norm, &norm_name, place.role(layer.parts[1]), layer.outputs)?;
                layers.push((conv, norm));
                inputs = layer.outputs;
            }
            let shortcut = if stride == 1 && entrance == inputs {
                Shortcut::Identity
            } else {
                let (shape, part) = ([inputs, entrance, 1], Part::ShortcutConv);
                let conv = assembly.conv(&name("downsample.0"), place.role(part), shape, stride)?;
                let (name, part) = (name("downsample.1"), Part::ShortcutNorm);
                let norm = Some(assembly.norm(norm, &name, place.role(part), inputs)?);
                Shortcut::Conv { conv, norm }
            };
            Ok(Block { order: Order::PostActivation, layers, shortcut })
        })?;
        let (head, num_classes) = assembly.head("fc", inputs, self.num_classes)?;
        Ok(Parts {
            stem,
            stem_norm,
            stem_pool: StemPool::Max,
            stages,
            final_norm: None,
            head,
            feature_dim: inputs,
            num_classes,
        })
    }
}
