//! What a method sees of a network, and how one is built; `table.rs` has every network by name.
//!
//! Letters: `B` batch, `C` classes, `N` patches, `D` width, `P` prompt tokens, images `[B, 3, H, W]` with values in
//! `[0, 1]`: mean and standard deviation are applied inside, because they belong to the weights.

mod branches;
pub mod cifar_resnet;
pub mod convnext;
mod input;
mod pixels;
pub mod residual;
pub mod resnet;
pub mod swin;
mod table;
pub mod vit;
pub mod watch;
pub mod wide_resnet;

pub use paint_tensor::BnMode;
pub use table::{BACKBONES, BackboneEntry, Family, Sizes, find};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use paint_rng::Seed;
use paint_settings::choice;
use paint_tensor::{Device, Gradients, Moments, Tensor};

use crate::checkpoint::{Checkpoint, Preprocess, Traits};
use crate::error::{Error, Result};
use crate::params::Params;
use vit::VitConfig;

/// The sizes of a network and the preprocessing its weights were trained with.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Its row in [`BACKBONES`], or what its maker called it.
    pub name: String,
    /// Height and width of the images it takes.
    pub image_size: [usize; 2],
    /// `C`.
    pub num_classes: usize,
    /// `D`, the width of a feature and of a prompt token.
    pub feature_dim: usize,
    /// The number of blocks.
    pub depth: usize,
    /// How many of them each stage has; a plain transformer is one stage.
    pub stages: Vec<usize>,
    /// Mean, standard deviation, resize and crop of the weights.
    pub preprocess: Preprocess,
}

choice! {
    /// Which position embedding prompt tokens get.
    #[derive(Default)]
    pub enum PromptPosition {
        /// None, as in VPT
        #[default]
        None = "none",
        /// That of the class token, as in PAINT's released code; none where it has none
        Cls = "cls",
    }
}

choice! {
    /// What the classifier reads.
    #[derive(Default)]
    pub enum Pooling {
        /// The class token, or what the network's classifier reads in its place
        #[default]
        Cls = "cls",
        /// The mean of the class token and the prompt tokens; where the classifier pools patches, prompts too
        ClsAndPrompts = "cls_and_prompts",
    }
}

/// Whether attention maps are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attention {
    /// They are not formed.
    #[default]
    Omit,
    /// That of the pooled tokens in the last block is returned, `[B, h, M, T]`, without a gradient: what the
    /// classifier looked at.
    Pooled,
    /// Every block's map is returned.
    Keep,
    /// Every block's map is returned, and a backward pass gives its gradient ([`AttentionMap::gradient`]).
    WithGradient,
}

/// Which tokens the last block of a transformer gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastBlock {
    /// Those that are pooled: the classifier reads no others. Where every map is asked for, all.
    #[default]
    Pooled,
    /// All of them, for what sees the tokens after each block.
    Whole,
}

/// Whether the moments of the batch are wanted, from which running statistics are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statistics {
    /// They are dropped.
    #[default]
    Omit,
    /// Those of every batch norm that used its batch are returned.
    Keep,
}

/// Sees what each block gives, and decides what the next one reads.
pub trait AfterBlock: fmt::Debug {
    /// Sees what the first block reads, in the form that blocks give: see [`AfterBlock::after_block`].
    fn before_blocks(&self, _prefix: usize, _tokens: &Tensor) -> Result<()> {
        Ok(())
    }

    /// What to go on with in place of `tokens`, which block `index` gave. Of a network with stages these are
    /// images `[B, C, H, W]` and `prefix` is 0. Of a transformer they are `[B, T, D]`: `prefix` tokens, of which the
    /// class token is the first, then prompts, then patches; one without a class token has no prefix. After the last
    /// block there are only the first of them, if the classifier reads no others, unless [`LastBlock::Whole`] was
    /// asked for. Several batches that pass side by side are seen as one. The shape must stay.
    fn after_block(&self, index: usize, prefix: usize, tokens: Tensor) -> Result<Tensor>;
}

/// How a forward pass is to be made. The default is the plain classifier.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Prompt tokens `[P, D]`, put before the patches.
    pub prompt: Option<&'a Tensor>,
    /// Their position embedding.
    pub position: PromptPosition,
    /// What the classifier reads.
    pub pooling: Pooling,
    /// For each image the patches that enter, in that order and as many for each; `None` for all. The others are as
    /// if they were not there.
    pub patches: Option<&'a [Vec<usize>]>,
    /// Only the logits of these classes, in this order (ImageNet-R has 200 of ImageNet's 1000).
    pub classes: Option<&'a [usize]>,
    /// Whether to return attention maps.
    pub attention: Attention,
    /// Factors `[B]` of the residual branches, two per block (attention, then MLP), for stochastic depth. An empty list
    /// scales nothing.
    pub branches: &'a [Option<Tensor>],
    /// How many images make up a batch, where these are several batches, one after another. Batch norms then see each
    /// alone, and no gradient passes through its statistics. `None` for one batch.
    pub batch_size: Option<usize>,
    /// Whether to return what batch norms saw; for a single batch only.
    pub statistics: Statistics,
    /// Which tokens the last block gives.
    pub last_block: LastBlock,
    /// What sees, and may replace, what each block gives.
    pub after_block: Option<&'a dyn AfterBlock>,
}

impl Request<'_> {
    /// Refuses what needs tokens that all attend to each other; `kind` says what the network is in place of that.
    fn refuse_tokens(&self, network: &str, kind: &str) -> Result<()> {
        refuse_any(
            network,
            kind,
            &[
                ("prompt tokens", self.prompt.is_some()),
                ("kept patches", self.patches.is_some()),
                ("attention maps", self.attention != Attention::Omit),
            ],
        )
    }

    /// Refuses statistics of several batches, which have no common ones.
    fn refuse_joint_statistics(&self) -> Result<()> {
        match self.batch_size {
            Some(size) if self.statistics == Statistics::Keep => Err(Error::Argument {
                what: "statistics of batch norms",
                expected: "a single batch".into(),
                got: format!("batches of {size}"),
            }),
            _ => Ok(()),
        }
    }

    /// Refuses what only a transformer has, for a convolutional network.
    fn refuse_transformer(&self, network: &str) -> Result<()> {
        let kind = "a convolutional network";
        self.refuse_tokens(network, kind)?;
        refuse_any(network, kind, &[("scaled branches", !self.branches.is_empty())])
    }
}

fn refuse_any(network: &str, kind: &str, asked: &[(&'static str, bool)]) -> Result<()> {
    match asked.iter().find(|(_, asked)| *asked) {
        None => Ok(()),
        Some((what, _)) => Err(Error::Argument {
            what,
            expected: format!("a vision transformer, {kind} has none"),
            got: network.to_owned(),
        }),
    }
}

/// What a hook makes of the images `[B, C, H, W]` that a block gave.
fn seen_by(hook: &dyn AfterBlock, index: usize, images: Tensor) -> Result<Tensor> {
    let expected = images.shape().to_vec();
    let images = hook.after_block(index, 0, images)?;
    if images.shape() == expected {
        return Ok(images);
    }
    let (what, got) = ("images after a block".into(), images.shape().to_vec());
    Err(Error::Shape { what, expected, got })
}

/// One block's attention.
#[derive(Debug, Clone)]
pub struct AttentionMap {
    /// The probabilities, `[B, h, T, T]` over all tokens, first those that are no patches, last the patches;
    /// `[B, h, M, T]` for [`Attention::Pooled`].
    pub map: Tensor,
    /// Which tokens these are.
    pub layout: MapLayout,
    pub(crate) tap: Option<GradientTap>,
}

/// Which tokens an attention map is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapLayout {
    /// Rows and columns of patches, which are the last tokens.
    pub grid: [usize; 2],
    /// Whether the first token is the class token.
    pub class_token: bool,
}

/// What gives a map's gradient. A map acts through `attended = map · values` alone, so its gradient is the gradient at
/// `attended` times the values; a variable of zeros, added there, is where a backward pass leaves the former.
#[derive(Debug, Clone)]
pub(crate) struct GradientTap {
    /// The zeros, `[B, T, D]`.
    pub(crate) attended: Tensor,
    /// `[B, T, D]`.
    pub(crate) values: Tensor,
}

impl AttentionMap {
    /// The gradient at `map`, of its shape: none without [`Attention::WithGradient`], or where the loss does not
    /// depend on this block.
    pub fn gradient(&self, gradients: &Gradients) -> Result<Option<Tensor>> {
        let Some(tap) = &self.tap else { return Ok(None) };
        let Some(gradient) = gradients.get(&tap.attended) else { return Ok(None) };
        let [b, h, t, _] = self.map.dims4("attention map")?;
        let [_, _, d] = tap.values.dims3("values")?;
        let by_head = |x: &Tensor| x.reshape([b, t, h, d / h])?.transpose(1, 2); // [B, h, T, D/h]
        Ok(Some(by_head(gradient)?.matmul(&by_head(&tap.values)?.transpose(2, 3)?)?))
    }
}

/// What a forward pass gives.
#[derive(Debug, Clone)]
pub struct Features {
    /// What the classifier read, after the final norm, `[B, D]`; its class token, if it read two vectors.
    pub pooled: Tensor,
    /// `[B, C]`, or as many columns as classes were asked for.
    pub logits: Tensor,
    /// One entry per block if requested, or that of the last block, otherwise none.
    pub attention: Vec<AttentionMap>,
    /// The moments of the batch by batch norm, if asked for.
    pub statistics: Vec<(Arc<str>, Moments)>,
}

/// A network that classifies images.
pub trait Backbone: Send + Sync {
    /// Sizes and preprocessing.
    fn spec(&self) -> &Spec;

    /// What it is made of.
    fn family(&self) -> Family;

    /// Its sizes as a vision transformer, if it is one.
    fn vit_config(&self) -> Option<&VitConfig> {
        None
    }

    /// The parameters, in checkpoint order.
    fn params(&self) -> &Params;

    /// The parameters, to track, update and restore.
    fn params_mut(&mut self) -> &mut Params;

    /// Another model with the same values; they share memory until one of them is updated.
    fn duplicate(&self) -> Box<dyn Backbone>;

    /// The same values without the counting of a [`watch::Watched`] model, for passes that are recorded once and then
    /// replayed: a replay makes no call that could be counted, so its caller reports each pass to
    /// [`Backbone::note_pass`] of the watched one.
    fn unwatched(&self) -> Box<dyn Backbone> {
        self.duplicate()
    }

    /// Reports a pass of so many images, differentiated or not, that an [unwatched](Backbone::unwatched) duplicate
    /// made.
    fn note_pass(&self, _images: usize, _differentiated: bool) {}

    /// Chooses which statistics batch norms use until the next call; a network without batch norms ignores it.
    fn set_batch_norm(&mut self, _mode: BnMode) {}

    /// Whether the logits of an image depend on the rest of its batch, as they do where batch norms use the batch.
    fn mixes_images(&self) -> bool {
        false
    }

    /// The running statistics of batch norms, by their names in checkpoints; a network without batch norms has none.
    fn running_statistics(&self) -> Vec<(String, Tensor)> {
        Vec::new()
    }

    /// Takes every running statistic from a table by name.
    fn set_running_statistics(&mut self, _values: &BTreeMap<String, Tensor>) -> Result<()> {
        Ok(())
    }

    /// The part before anything that adapts, `[B, 3, H, W]` → `[B, N, D]`, patches with their positions (of a
    /// convolutional network: the normalised images): computed once per batch and shared by its forward passes. It is
    /// affine, so the embedding of a mix of images, whose weights sum to one, is the mix of their embeddings.
    fn embed(&self, images: &Tensor) -> Result<Tensor>;

    /// The rest of the network.
    fn forward_embedded(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Features>;

    /// The whole network.
    fn forward(&self, images: &Tensor, request: &Request<'_>) -> Result<Features> {
        self.forward_embedded(&self.embed(images)?, request)
    }
}

/// Where the values of a new model come from.
#[derive(Debug)]
pub enum Weights {
    /// Drawn, for tests and benchmarks.
    Random(Seed),
    /// Read from a file, with timm's names.
    Checkpoint(Checkpoint),
}

/// What to do when a checkpoint was made for another image size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Positions {
    /// Refuse the checkpoint.
    #[default]
    Exact,
    /// Resample its position embedding (bicubic, antialiased) to the input size of the preprocessing.
    Interpolate,
}

/// How a model is built.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Where it will live.
    pub device: Device,
    /// The preprocessing of the weights. A checkpoint without one is refused: a wrong mean would go unnoticed and cost
    /// accuracy.
    pub preprocess: Option<Preprocess>,
    /// Position embeddings for other image sizes.
    pub positions: Positions,
    /// Classes of a drawn model; its usual number if none. A checkpoint always brings its own.
    pub num_classes: Option<usize>,
    /// Heads of a transformer, which its weights do not show; its usual number if none.
    pub num_heads: Option<usize>,
    /// What else the weights of a transformer do not show.
    pub traits: Traits,
}

impl BuildOptions {
    /// Exact positions, no preprocessing given.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            preprocess: None,
            positions: Positions::Exact,
            num_classes: None,
            num_heads: None,
            traits: Traits::default(),
        }
    }
}
