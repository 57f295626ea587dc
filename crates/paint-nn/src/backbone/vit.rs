//! The vision transformer (Dosovitskiy et al. 2021) and its relatives, with timm's names and PAINT's prompts.
//!
//! Tokens are `[CLS, P_1..P_L, patches]`; prompts enter once, at the input. Pre-norm blocks, no dropout. What the
//! pooled tokens do not need is not computed: where the classifier reads the class token, the last block gives keys
//! and values for all tokens and everything else for that one alone. [`Variant`] lists what relatives do otherwise.
//! Prompts always stand before the patches: behind the class token and what follows it (distillation token,
//! registers), first where there is no class token.

mod attention_pool;
mod block;
mod config;
mod mlp;
mod plain;
mod position;
mod readout;
mod variant;
mod weights;

pub use config::VitConfig;
pub use variant::{HeadKind, Positioned, Variant};

use paint_tensor::Tensor;

use super::branches::Branches;
use super::input::{Input, preprocess};
use super::{
    Attention, AttentionMap, Backbone, BuildOptions, Family, Features, LastBlock, MapLayout,
    Positions, PromptPosition, Request, Sizes, Spec, Weights,
};
use crate::checkpoint::{Checkpoint, Traits};
use crate::error::{Error, Misfit, Result};
use crate::layers::LayerNorm;
use crate::params::{ParamId, Params};
use block::Block;
use plain::{Plain, is_plain};
use readout::{Layout, Readout};

/// A vision transformer.
#[derive(Debug, Clone)]
pub struct Vit {
    config: VitConfig,
    spec: Spec,
    params: Params,
    input: Input,
    patch_weight: ParamId,
    patch_bias: Option<ParamId>,
    /// Class token, distillation token, registers: those that there are.
    prefix: Vec<ParamId>,
    pos_embed: ParamId,
    norm_pre: Option<LayerNorm>,
    blocks: Vec<Block>,
    readout: Readout,
    plain: Plain,
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
                config.variant = Variant::of(&checkpoint, &options.traits, config.num_patches());
                config.check()?;
                weights::take(name, &config, checkpoint, options.positions, &options.device)?
            }
        };
        let blocks = (0..config.depth)
            .map(|i| Block::find(&params, i, config.num_heads, &config.variant))
            .collect::<Result<_>>()?;
        let tokens = ["cls_token", "dist_token", "reg_token"];
        let norm_pre = || LayerNorm::find(&params, "norm_pre", config.variant.norm_eps);
        Ok(Self {
            input: Input::new(&preprocess, &options.device)?,
            patch_weight: params.id("patch_embed.proj.weight")?,
            patch_bias: params.id("patch_embed.proj.bias").ok(),
            prefix: tokens.into_iter().filter_map(|name| params.id(name).ok()).collect(),
            pos_embed: params.id("pos_embed")?,
            norm_pre: config.variant.norm_pre.then(norm_pre).transpose()?,
            blocks,
            readout: Readout::find(&params, &config)?,
            plain: Plain::default(),
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

    /// `[prefix, P_1..P_L, patches]`, `[B, N, D]` → `[B, p + P + N, D]`.
    fn tokens(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Tensor> {
        let [b, n, d] = embedding.dims3("embedding")?;
        let expected = [b, self.config.num_patches(), self.config.embed_dim];
        if [b, n, d] != expected {
            return Err(shape("embedding", &expected, embedding));
        }
        let kept = request.patches.map(|patches| kept(embedding, patches)).transpose()?;
        let embedding = kept.as_ref().unwrap_or(embedding);
        let mut parts = self.prefix(b)?;
        if let Some(prompt) = request.prompt {
            let [p, width] = prompt.dims2("prompt")?;
            if width != d {
                return Err(shape("prompt", &[p, d], prompt));
            }
            let mut prompt = prompt.reshape([1, p, d])?;
            let variant = &self.config.variant;
            // A class token without a position has none to give.
            let has_position = variant.class_token && variant.prefix_positions() > 0;
            if request.position == PromptPosition::Cls && has_position {
                prompt = prompt.add(&self.params[self.pos_embed].slice(1, 0, 1)?)?;
            }
            parts.push(prompt.broadcast_to([b, p, d])?);
        }
        parts.push(embedding.clone());
        // Compact before they are joined: a copy of half the size where that is bf16.
        let parts: Vec<Tensor> =
            parts.iter().map(Tensor::compact).collect::<paint_tensor::Result<_>>()?;
        let tokens = Tensor::concat(&parts.iter().collect::<Vec<_>>(), 1)?;
        self.norm_pre.map_or(Ok(tokens.clone()), |norm| norm.forward(&self.params, &tokens))
    }

    /// The tokens before the prompts, with their positions where they have some.
    fn prefix(&self, b: usize) -> Result<Vec<Tensor>> {
        let positions = self.config.variant.prefix_positions();
        let mut first = 0;
        let mut parts = Vec::new();
        for id in &self.prefix {
            let mut token = self.params[*id].clone();
            let [_, count, d] = token.dims3("token")?;
            if first + count <= positions {
                token = token.add(&self.params[self.pos_embed].slice(1, first, count)?)?;
            }
            parts.push(token.broadcast_to([b, count, d])?);
            first += count;
        }
        Ok(parts)
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
    config.variant = Variant::of(checkpoint, &Traits::default(), config.num_patches());
    weights::compare(&config.parameters(), checkpoint)
}

impl Backbone for Vit {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn family(&self) -> Family {
        Family::Transformer
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
        let bias = self.patch_bias.map(|bias| &self.params[bias]);
        let embedding = patches.linear(&weight, bias)?;
        let position = &self.params[self.pos_embed]; // [1, p + N, D]
        let first = self.config.variant.prefix_positions();
        Ok(embedding.add(&position.slice(1, first, self.config.num_patches())?)?)
    }

    fn forward_embedded(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Features> {
        let mut x = self.tokens(embedding, request)?;
        let prompts = request.prompt.map_or(0, |prompt| prompt.shape()[0]);
        let prefix = self.config.variant.num_prefix_tokens();
        let layout = Layout { prefix, prompts, pooling: request.pooling };
        let needed = self.readout.needed(&layout);
        let maps = matches!(request.attention, Attention::Keep | Attention::WithGradient);
        if !request.branches.is_empty() && (maps || request.branches.len() != 2 * self.blocks.len())
        {
            return Err(Error::Argument {
                what: "factors of residual branches",
                expected: format!("two for each of {} blocks, no maps", self.blocks.len()),
                got: request.branches.len().to_string(),
            });
        }
        let map_layout =
            MapLayout { grid: self.config.grid(), class_token: self.config.variant.class_token };
        if let Some(hook) = request.after_block {
            hook.before_blocks(prefix, &x)?;
        }
        let mut attention = Vec::new();
        for (i, block) in self.blocks.iter().enumerate() {
            let branches = Branches::of(request.branches, i);
            let is_last = i + 1 == self.blocks.len();
            if is_last && request.attention == Attention::Pooled {
                let m = needed.unwrap_or(x.shape()[1]);
                let map = block.attention_of_first(&self.params, &x.detach(), m)?.detach();
                attention.push(AttentionMap { map, layout: map_layout, tap: None });
            }
            let shortened = needed.filter(|_| is_last && request.last_block == LastBlock::Pooled);
            x = if maps {
                let how = (request.attention, map_layout);
                let (x, map) = block.forward_with_map(&self.params, &x, how)?;
                attention.push(map);
                x
            } else if let Some(m) = shortened {
                block.forward_first(&self.params, &x, m, branches)?
            } else {
                block.forward(&self.params, &x, branches)?
            };
            if let Some(hook) = request.after_block {
                let expected = x.shape().to_vec();
                x = hook.after_block(i, prefix, x)?;
                if x.shape() != expected {
                    return Err(shape("tokens after a block", &expected, &x));
                }
            }
        }
        let (pooled, logits) = self.readout.forward(&self.params, &x, &layout, request.classes)?;
        Ok(Features { pooled, logits, attention, statistics: Vec::new() })
    }

    fn forward(&self, images: &Tensor, request: &Request<'_>) -> Result<Features> {
        if is_plain(self, images, request) {
            return self.plain.features(self, images);
        }
        self.forward_embedded(&self.embed(images)?, request)
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
