//! The vision transformer (Dosovitskiy et al. 2021), with timm's names and PAINT's prompts.
//!
//! Tokens are `[CLS, P_1..P_L, patches]`; prompts enter once, at the input. Pre-norm blocks, layer norm epsilon 1e-6,
//! exact GELU, no dropout. What the pooled tokens do not need is not computed: the last block gives keys and values for
//! all tokens and everything else for those alone.

mod block;
mod config;
mod position;
mod weights;

pub use config::VitConfig;

use paint_tensor::Tensor;

use super::input::{Input, preprocess};
use super::{
    Attention, AttentionMap, Backbone, BuildOptions, Features, LastBlock, Pooling, Positions,
    PromptPosition, Request, Sizes, Spec, Weights,
};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Misfit, Result};
use crate::layers::{LayerNorm, Linear};
use crate::params::{ParamId, Params};
use block::{Block, Branches};

/// A vision transformer.
#[derive(Debug, Clone)]
pub struct Vit {
    config: VitConfig,
    spec: Spec,
    params: Params,
    input: Input,
    patch_weight: ParamId,
    patch_bias: ParamId,
    cls_token: ParamId,
    pos_embed: ParamId,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Vit {
    /// A ViT called `name` with the sizes of `config`. A checkpoint brings its own number of classes, and with
    /// [`Positions::Interpolate`] the preprocessing brings the image size.
    pub fn build(
        name: &str,
        mut config: VitConfig,
        weights: Weights,
        options: &BuildOptions,
    ) -> Result<Self> {
        config.num_heads = options.num_heads.unwrap_or(config.num_heads);
        let preprocess = preprocess(config.image_size, &weights, options)?;
        if options.positions == Positions::Interpolate {
            config.image_size = preprocess.input_size;
        }
        if preprocess.input_size != config.image_size {
            return Err(Error::Argument {
                what: "input size of the preprocessing",
                expected: format!(
                    "{:?}, or position embeddings to be interpolated",
                    config.image_size
                ),
                got: format!("{:?}", preprocess.input_size),
            });
        }
        let params = match weights {
            Weights::Random(seed) => {
                config.num_classes = options.num_classes.unwrap_or(config.num_classes);
                config.check()?;
                weights::draw(&config, seed, &options.device)?
            }
            Weights::Checkpoint(checkpoint) => {
                config.num_classes =
                    weights::num_classes(&checkpoint).unwrap_or(config.num_classes);
                config.check()?;
                weights::take(name, &config, checkpoint, options.positions, &options.device)?
            }
        };
        let blocks = (0..config.depth)
            .map(|i| Block::find(&params, i, config.num_heads))
            .collect::<Result<_>>()?;
        Ok(Self {
            input: Input::new(&preprocess, &options.device)?,
            patch_weight: params.id("patch_embed.proj.weight")?,
            patch_bias: params.id("patch_embed.proj.bias")?,
            cls_token: params.id("cls_token")?,
            pos_embed: params.id("pos_embed")?,
            blocks,
            norm: block::norm(&params, "norm")?,
            head: Linear::find(&params, "head")?,
            spec: Spec {
                name: name.to_owned(),
                image_size: config.image_size,
                num_classes: config.num_classes,
                feature_dim: config.embed_dim,
                depth: config.depth,
                stages: vec![config.depth],
                preprocess,
            },
            config,
            params,
        })
    }

    /// The sizes.
    pub fn config(&self) -> &VitConfig {
        &self.config
    }

    /// `[CLS, P_1..P_L, patches]`, `[B, N, D]` → `[B, 1 + P + N, D]`.
    fn tokens(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Tensor> {
        let [b, n, d] = embedding.dims3("embedding")?;
        let expected = [b, self.config.num_patches(), self.config.embed_dim];
        if [b, n, d] != expected {
            return Err(shape("embedding", &expected, embedding));
        }
        let kept = request.patches.map(|patches| kept(embedding, patches)).transpose()?;
        let embedding = kept.as_ref().unwrap_or(embedding);
        let position_of_cls = self.params[self.pos_embed].slice(1, 0, 1)?;
        let cls = self.params[self.cls_token].add(&position_of_cls)?.broadcast_to([b, 1, d])?;
        let Some(prompt) = request.prompt else {
            return Ok(Tensor::concat(&[&cls, embedding], 1)?.compact()?);
        };
        let [p, width] = prompt.dims2("prompt")?;
        if width != d {
            return Err(shape("prompt", &[p, d], prompt));
        }
        let prompt = prompt.reshape([1, p, d])?;
        let prompt = match request.position {
            PromptPosition::None => prompt,
            PromptPosition::Cls => prompt.add(&position_of_cls)?,
        };
        Ok(Tensor::concat(&[&cls, &prompt.broadcast_to([b, p, d])?, embedding], 1)?.compact()?)
    }
}

/// The sizes of a ViT, from its configuration.
pub(super) fn sizes(config: &VitConfig) -> Sizes {
    let elements = |one: &config::Declaration| one.shape.iter().product::<usize>();
    Sizes {
        image_size: config.image_size,
        num_classes: config.num_classes,
        feature_dim: config.embed_dim,
        depth: config.depth,
        parameters: config.parameters().iter().map(elements).sum(),
    }
}

/// How weights differ from a ViT of these sizes.
pub(super) fn misfit(mut config: VitConfig, checkpoint: &Checkpoint) -> Misfit {
    config.num_classes = weights::num_classes(checkpoint).unwrap_or(config.num_classes);
    weights::compare(&config.parameters(), checkpoint)
}

impl Backbone for Vit {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn vit_config(&self) -> Option<&VitConfig> {
        Some(&self.config)
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

    fn embed(&self, images: &Tensor) -> Result<Tensor> {
        let x = self.input.normalize(images)?;
        let patches = x.unfold_patches(self.config.patch_size)?; // [B, N, 3pp]
        let pixels = 3 * self.config.patch_size * self.config.patch_size;
        let weight = self.params[self.patch_weight].reshape([self.config.embed_dim, pixels])?;
        let embedding = patches.linear(&weight, Some(&self.params[self.patch_bias]))?;
        let position = &self.params[self.pos_embed]; // [1, 1 + N, D]
        Ok(embedding.add(&position.slice(1, 1, self.config.num_patches())?)?)
    }

    fn forward_embedded(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Features> {
        let mut x = self.tokens(embedding, request)?;
        let prompts = request.prompt.map_or(0, |prompt| prompt.shape()[0]);
        let m = match request.pooling {
            Pooling::Cls => 1,
            Pooling::ClsAndPrompts => 1 + prompts,
        };
        let maps = matches!(request.attention, Attention::Keep | Attention::WithGradient);
        if !request.branches.is_empty() && (maps || request.branches.len() != 2 * self.blocks.len())
        {
            return Err(Error::Argument {
                what: "factors of residual branches",
                expected: format!("two for each of {} blocks, no maps", self.blocks.len()),
                got: request.branches.len().to_string(),
            });
        }
        let mut attention = Vec::new();
        for (i, block) in self.blocks.iter().enumerate() {
            let branches = Branches::of(request.branches, i);
            let is_last = i + 1 == self.blocks.len();
            if is_last && request.attention == Attention::Pooled {
                let map = block.attention_of_first(&self.params, &x.detach(), m)?.detach();
                attention.push(AttentionMap { map, tap: None });
            }
            x = if maps {
                let (x, map) = block.forward_with_map(&self.params, &x, request.attention)?;
                attention.push(map);
                x
            } else if is_last && request.last_block == LastBlock::Pooled {
                block.forward_first(&self.params, &x, m, branches)?
            } else {
                block.forward(&self.params, &x, branches)?
            };
            if let Some(hook) = request.after_block {
                let expected = x.shape().to_vec();
                x = hook.after_block(i, x)?;
                if x.shape() != expected {
                    return Err(shape("tokens after a block", &expected, &x));
                }
            }
        }
        let pooled = self.norm.forward(&self.params, &x.slice(1, 0, m)?)?.mean(1)?; // [B, D]
        let logits = match request.classes {
            None => self.head.forward(&self.params, &pooled)?,
            Some(classes) => self.head.forward_outputs(&self.params, &pooled, classes)?,
        };
        Ok(Features { pooled, logits, attention, statistics: Vec::new() })
    }
}

/// `[B, N, D]` → `[B, K, D]`: the patches that are named for each image.
fn kept(embedding: &Tensor, patches: &[Vec<usize>]) -> Result<Tensor> {
    let [b, n, d] = embedding.dims3("embedding")?;
    let k = patches.first().map_or(0, Vec::len);
    let fits = |kept: &Vec<usize>| kept.len() == k && kept.iter().all(|&patch| patch < n);
    if patches.len() != b || k == 0 || !patches.iter().all(fits) {
        let lengths: Vec<usize> = patches.iter().map(Vec::len).collect();
        let largest = patches.iter().flatten().max();
        return Err(Error::Argument {
            what: "kept patches",
            expected: format!("as many for each of {b} images, at least one, all below {n}"),
            got: format!("{lengths:?}, the largest {largest:?}"),
        });
    }
    let rows: Vec<usize> = patches
        .iter()
        .enumerate()
        .flat_map(|(at, kept)| kept.iter().map(move |p| at * n + p))
        .collect();
    Ok(embedding.reshape([b * n, d])?.gather(&rows)?.reshape([b, k, d])?)
}

fn shape(what: &str, expected: &[usize], got: &Tensor) -> Error {
    Error::Shape { what: what.to_owned(), expected: expected.to_vec(), got: got.shape().to_vec() }
}

#[cfg(test)]
mod tests;
