//! Swin Transformer (Liu et al. 2021), with timm's names.
//!
//! Patches of 4x4, then stages of blocks whose tokens attend inside windows of 7x7; every second block shifts its
//! windows by half of one. Between stages four neighbours are merged into one. The classifier reads the mean of the
//! normed tokens.
//!
//! Tokens keep the order of the image throughout: the attention finds the rows of a window by itself. A bias belongs to
//! two relative positions inside a window, so that weights fit every image size that leaves their windows as large as
//! they are.

mod config;
mod grid;
mod stage;

pub use config::SwinConfig;

use paint_tensor::{Device, Tensor};

use self::config::{PATCH, refused};
use self::grid::{relative_positions, window_of};
use self::stage::{Block, BlockSizes, Merging};
use super::branches::Branches;
use super::input::{Input, preprocess};
use super::pixels::{Grid, Patches, after_block, before_blocks};
use super::residual::Assembly;
use super::{Backbone, BuildOptions, Family, Features, Request, Sizes, Spec, Weights};
use crate::checkpoint::{Activation, Checkpoint, Format};
use crate::error::{Misfit, Result};
use crate::layers::{LayerNorm, Linear};
use crate::params::{Params, Role};

/// The image size of a network with drawn weights.
const USUAL_SIZE: Grid = [224, 224];
/// The epsilon of every norm, unless a configuration says otherwise for blocks and the last one, as Hugging Face's can.
const EPS: f32 = 1e-5;

impl SwinConfig {
    /// The network called `name`; a checkpoint brings its own number of classes.
    pub fn build(self, name: &str, weights: Weights, options: &BuildOptions) -> Result<Swin> {
        if let Some(other) = options.traits.activation.filter(|one| *one != Activation::Gelu) {
            let expected = Activation::Gelu.name();
            return Err(refused("the activation of a Swin", expected, other.name()));
        }
        self.check()?;
        let preprocess = preprocess(USUAL_SIZE, &weights, options)?;
        let grids = self.grids(preprocess.input_size)?;
        if let Weights::Checkpoint(weights) = &weights {
            self.check_windows(weights, &grids, preprocess.input_size)?;
        }
        let input = Input::new(&preprocess, &options.device)?;
        let mut assembly = Assembly::new(weights, options);
        let eps = options.traits.layer_norm_eps.unwrap_or(EPS);
        let (parts, num_classes) = self.parts(&mut assembly, &grids, eps)?;
        let params = assembly.finish(name, |_| false)?;
        let spec = Spec {
            name: name.to_owned(),
            image_size: preprocess.input_size,
            num_classes,
            feature_dim: self.width(self.depths.len() - 1),
            depth: self.depths.iter().sum(),
            stages: self.depths.clone(),
            preprocess,
        };
        let grids = self.windows(&grids, &options.device)?;
        Ok(Swin { spec, params, input, parts, grids })
    }

    fn parts(&self, assembly: &mut Assembly, grids: &[Grid], eps: f32) -> Result<(Parts, usize)> {
        let patches =
            assembly.patches("patch_embed.proj", Role::PatchEmbed, [self.embed_dim, 3, PATCH])?;
        let patch_norm =
            assembly.layer_norm("patch_embed.norm", Role::StemNorm, self.embed_dim, EPS)?;
        let (mut stages, mut index) = (Vec::new(), 0);
        for (at, (&depth, &num_heads)) in self.depths.iter().zip(&self.num_heads).enumerate() {
            let merging = if at == 0 {
                None
            } else {
                let inputs = (index, self.width(at - 1));
                Some(Merging::declare(assembly, inputs, &format!("layers.{at}.downsample"))?)
            };
            let positions = relative_positions(window_of(grids[at], self.window_size));
            let mut blocks = Vec::with_capacity(depth);
            for within in 0..depth {
                let name = |layer: &str| format!("layers.{at}.blocks.{within}.{layer}");
                let width = self.width(at);
                let sizes = BlockSizes { index, width, num_heads, positions, eps };
                blocks.push(Block::declare(assembly, sizes, name)?);
                index += 1;
            }
            stages.push(Stage { merging, blocks });
        }
        let features = self.width(self.depths.len() - 1);
        let norm = assembly.layer_norm("norm", Role::FinalNorm, features, eps)?;
        let (head, num_classes) = assembly.head("head.fc", features, self.num_classes)?;
        Ok((Parts { patches, patch_norm, stages, norm, head }, num_classes))
    }

    /// The windows of each stage.
    fn windows(&self, nominal: &[Grid], device: &Device) -> Result<Vec<grid::Stage>> {
        let mut grid = nominal[0];
        let mut stages = Vec::with_capacity(nominal.len());
        for (at, &nominal) in nominal.iter().enumerate() {
            if at > 0 {
                grid = grid.map(|side| side.div_ceil(2));
            }
            stages.push(grid::Stage::new(grid, nominal, self.window_size, device)?);
        }
        Ok(stages)
    }
}

/// The sizes of a network.
pub(super) fn sizes(config: &SwinConfig) -> Result<Sizes> {
    let mut assembly = Assembly::comparing(&Checkpoint::new(Format::SafeTensors));
    config.parts(&mut assembly, &config.grids(USUAL_SIZE)?, EPS)?;
    Ok(Sizes {
        image_size: USUAL_SIZE,
        num_classes: config.num_classes,
        feature_dim: config.width(config.depths.len() - 1),
        depth: config.depths.iter().sum(),
        parameters: assembly.elements(),
    })
}

/// How weights differ from the network of these sizes.
pub(super) fn misfit(config: &SwinConfig, weights: &Checkpoint) -> Result<Misfit> {
    let mut assembly = Assembly::comparing(weights);
    config.parts(&mut assembly, &config.grids(USUAL_SIZE)?, EPS)?;
    Ok(assembly.differences(|_| false).1)
}

/// A Swin Transformer.
#[derive(Debug, Clone)]
pub struct Swin {
    spec: Spec,
    params: Params,
    input: Input,
    parts: Parts,
    /// Of each stage.
    grids: Vec<grid::Stage>,
}

/// The layers, in forward order.
#[derive(Debug, Clone)]
struct Parts {
    patches: Patches,
    patch_norm: LayerNorm,
    stages: Vec<Stage>,
    norm: LayerNorm,
    head: Linear,
}

#[derive(Debug, Clone)]
struct Stage {
    merging: Option<Merging>,
    blocks: Vec<Block>,
}

impl Backbone for Swin {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn family(&self) -> Family {
        Family::Windows
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

    /// Mean and standard deviation alone: the patch embedding may adapt.
    fn embed(&self, images: &Tensor) -> Result<Tensor> {
        self.input.normalize(images)
    }

    fn forward_embedded(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Features> {
        request.refuse_tokens(&self.spec.name, "one with attention inside windows")?;
        let (params, parts) = (&self.params, &self.parts);
        let (x, mut grid) = parts.patches.of_images(params, embedding)?;
        let mut x = parts.patch_norm.forward(params, &x)?.compact()?;
        before_blocks(request, &x, grid)?;
        let mut index = 0;
        for (stage, windows) in parts.stages.iter().zip(&self.grids) {
            if let Some(merging) = &stage.merging {
                x = merging.forward(params, &x, grid)?;
                grid = windows.grid;
            }
            for (within, block) in stage.blocks.iter().enumerate() {
                let branches = Branches::of(request.branches, index);
                x = block.forward(params, &x, (windows, within), branches)?;
                x = after_block(request, index, x, grid)?;
                index += 1;
            }
        }
        let pooled = parts.norm.forward(params, &x)?.mean(1)?; // [B, D]
        let logits = match request.classes {
            None => parts.head.logits(params, &pooled)?,
            Some(classes) => parts.head.forward_outputs(params, &pooled, classes)?,
        };
        Ok(Features { pooled, logits, attention: Vec::new(), statistics: Vec::new() })
    }
}
