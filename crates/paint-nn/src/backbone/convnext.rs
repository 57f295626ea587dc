//! ConvNeXt (Liu et al. 2022), with timm's names.
//!
//! A stem of 4x4 patches, four stages of blocks, and between stages a norm and patches of 2x2. A block convolves
//! each channel by itself, 7x7, and sends every pixel through a layer norm and an MLP; the result is scaled by
//! channel and added. The classifier reads the normed mean over pixels.
//!
//! Channels come last throughout, `[B, N, C]` for `N = H·W` pixels: norms and MLPs read them so, and the
//! convolutions can.

mod stage;

use paint_tensor::Tensor;

use self::stage::{Block, Downsample, Stage};
use super::input::{Input, preprocess};
use super::pixels::{Patches, after_block, before_blocks};
use super::residual::Assembly;
use super::{Backbone, BuildOptions, Family, Features, Request, Sizes, Spec, Weights};
use crate::checkpoint::{Activation, Checkpoint, Format};
use crate::error::{Error, Misfit, Result};
use crate::layers::{LayerNorm, Linear};
use crate::params::{Params, Part, Role};

/// The image size of a network with drawn weights.
const USUAL_SIZE: [usize; 2] = [224, 224];
/// The epsilon of every norm but, in Hugging Face's networks, the last one.
const EPS: f32 = 1e-6;

/// Sizes of a ConvNeXt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvnextConfig {
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Channels of each stage.
    pub dims: [usize; 4],
    /// The number of classes unless a checkpoint brings its own.
    pub num_classes: usize,
}

impl ConvnextConfig {
    /// ConvNeXt-T.
    pub const fn tiny() -> Self {
        Self { depths: [3, 3, 9, 3], dims: [96, 192, 384, 768], num_classes: 1000 }
    }

    /// ConvNeXt-S.
    pub const fn small() -> Self {
        Self { depths: [3, 3, 27, 3], ..Self::tiny() }
    }

    /// ConvNeXt-B.
    pub const fn base() -> Self {
        Self { dims: [128, 256, 512, 1024], ..Self::small() }
    }

    /// The network called `name`; a checkpoint brings its own number of classes.
    pub fn build(self, name: &str, weights: Weights, options: &BuildOptions) -> Result<Convnext> {
        if let Some(other) = options.traits.activation.filter(|one| *one != Activation::Gelu) {
            return Err(Error::Argument {
                what: "the activation of a ConvNeXt",
                expected: Activation::Gelu.name().into(),
                got: other.name().into(),
            });
        }
        let preprocess = preprocess(USUAL_SIZE, &weights, options)?;
        let input = Input::new(&preprocess, &options.device)?;
        let mut assembly = Assembly::new(weights, options);
        let last_eps = options.traits.layer_norm_eps.unwrap_or(EPS);
        let (parts, num_classes) = self.parts(&mut assembly, last_eps)?;
        let params = assembly.finish(name, |_| false)?;
        let spec = Spec {
            name: name.to_owned(),
            image_size: preprocess.input_size,
            num_classes,
            feature_dim: self.dims[3],
            depth: self.depths.iter().sum(),
            stages: self.depths.to_vec(),
            preprocess,
        };
        Ok(Convnext { spec, params, input, parts })
    }

    fn parts(&self, assembly: &mut Assembly, last_eps: f32) -> Result<(Parts, usize)> {
        let [width, ..] = self.dims;
        let stem = assembly.patches("stem.0", Role::StemConv, [width, 3, 4])?;
        let stem_norm = assembly.layer_norm("stem.1", Role::StemNorm, width, EPS)?;
        let (mut stages, mut index, mut inputs) = (Vec::new(), 0, width);
        for (at, (&depth, &c)) in self.depths.iter().zip(&self.dims).enumerate() {
            let role = |part| move |slot| Role::Block { index, part, slot };
            let name = |layer: &str| format!("stages.{at}.{layer}");
            let downsample = if at == 0 {
                None
            } else {
                let (norm, conv) = (role(Part::DownsampleNorm), role(Part::DownsampleConv));
                Some(Downsample {
                    norm: assembly.layer_norm(&name("downsample.0"), norm, inputs, EPS)?,
                    patches: assembly.patches(&name("downsample.1"), conv, [c, inputs, 2])?,
                })
            };
            let mut blocks = Vec::with_capacity(depth);
            for within in 0..depth {
                let name = |layer: &str| format!("stages.{at}.blocks.{within}.{layer}");
                blocks.push(Block::declare(assembly, index, c, name)?);
                index += 1;
            }
            stages.push(Stage { downsample, blocks });
            inputs = c;
        }
        let norm = assembly.layer_norm("head.norm", Role::FinalNorm, inputs, last_eps)?;
        let (head, num_classes) = assembly.head("head.fc", inputs, self.num_classes)?;
        Ok((Parts { stem, stem_norm, stages, norm, head }, num_classes))
    }
}

/// The sizes of a network.
pub(super) fn sizes(config: &ConvnextConfig) -> Result<Sizes> {
    let mut assembly = Assembly::comparing(&Checkpoint::new(Format::SafeTensors));
    config.parts(&mut assembly, EPS)?;
    Ok(Sizes {
        image_size: USUAL_SIZE,
        num_classes: config.num_classes,
        feature_dim: config.dims[3],
        depth: config.depths.iter().sum(),
        parameters: assembly.elements(),
    })
}

/// How weights differ from the network of these sizes.
pub(super) fn misfit(config: &ConvnextConfig, weights: &Checkpoint) -> Result<Misfit> {
    let mut assembly = Assembly::comparing(weights);
    config.parts(&mut assembly, EPS)?;
    Ok(assembly.differences(|_| false).1)
}

/// A ConvNeXt.
#[derive(Debug, Clone)]
pub struct Convnext {
    spec: Spec,
    params: Params,
    input: Input,
    parts: Parts,
}

/// The layers, in forward order.
#[derive(Debug, Clone)]
struct Parts {
    stem: Patches,
    stem_norm: LayerNorm,
    stages: Vec<Stage>,
    norm: LayerNorm,
    head: Linear,
}

impl Backbone for Convnext {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn family(&self) -> Family {
        Family::Convolutional
    }

    fn params(&self) -> &Params {
        &self.params
    }

    fn params_mut(&mut self) -> &mut Params {
        &mut self.params
    }

    fn duplicate(&self) -> Box<dyn Backbone> {
        Box::new(self.clone())
    }

    /// Mean and standard deviation alone: the stem may adapt.
    fn embed(&self, images: &Tensor) -> Result<Tensor> {
        self.input.normalize(images)
    }

    fn forward_embedded(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Features> {
        request.refuse_transformer(&self.spec.name)?;
        let (params, parts) = (&self.params, &self.parts);
        let (x, mut grid) = parts.stem.of_images(params, embedding)?;
        let mut x = parts.stem_norm.forward(params, &x)?.compact()?;
        before_blocks(request, &x, grid)?;
        let mut index = 0;
        for stage in &parts.stages {
            if let Some(downsample) = &stage.downsample {
                (x, grid) = downsample.forward(params, &x, grid)?;
            }
            for block in &stage.blocks {
                x = block.forward(params, &x, grid)?;
                x = after_block(request, index, x, grid)?;
                index += 1;
            }
        }
        let pooled = parts.norm.forward(params, &x.mean(1)?)?; // [B, D]
        let logits = match request.classes {
            None => parts.head.logits(params, &pooled)?,
            Some(classes) => parts.head.forward_outputs(params, &pooled, classes)?,
        };
        Ok(Features { pooled, logits, attention: Vec::new(), statistics: Vec::new() })
    }
}
