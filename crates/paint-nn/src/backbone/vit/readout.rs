//! From the tokens of the last block to logits.
//!
//! Tokens are `[prefix, P_1..P_L, patches]`, where the prefix is the class token followed by the distillation token
//! or the registers, and empty in networks without a class token. What the classifier reads of prompts is the choice
//! of [`Pooling`]: by default it reads what it reads without them, and with `cls_and_prompts` they are pooled with
//! it: with the class token where that is read, with the patches where their mean is, and as keys of attention
//! pooling.

use paint_tensor::Tensor;

use super::attention_pool::AttentionPool;
use super::config::VitConfig;
use super::variant::HeadKind;
use crate::backbone::Pooling;
use crate::checkpoint::GlobalPool;
use crate::error::Result;
use crate::layers::{LayerNorm, Linear};
use crate::params::{ParamId, Params};

/// How the tokens of one forward pass are laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Tokens before the prompts.
    pub(super) prefix: usize,
    pub(super) prompts: usize,
    pub(super) pooling: Pooling,
}

impl Layout {
    fn pools_prompts(&self) -> bool {
        self.prompts > 0 && self.pooling == Pooling::ClsAndPrompts
    }

    /// Where the pooled prompts and the patches begin.
    fn first_patch(&self) -> usize {
        if self.pools_prompts() { self.prefix } else { self.prefix + self.prompts }
    }

    /// The tokens without prompts that are not to be pooled.
    fn unprompted(&self, x: &Tensor) -> Result<Tensor> {
        let (first, t) = (self.first_patch(), x.shape()[1]);
        if first == self.prefix {
            return Ok(x.clone());
        }
        let patches = x.slice(1, first, t - first)?;
        if self.prefix == 0 {
            return Ok(patches);
        }
        Ok(Tensor::concat(&[&x.slice(1, 0, self.prefix)?, &patches], 1)?)
    }
}

/// The end of a vision transformer.
#[derive(Debug, Clone)]
pub(super) struct Readout {
    pool: GlobalPool,
    /// Of the tokens, before pooling.
    norm: Option<LayerNorm>,
    /// Of what was pooled.
    fc_norm: Option<LayerNorm>,
    attention: Option<AttentionPool>,
    head: Linear,
    head_dist: Option<Linear>,
    kind: HeadKind,
    projection: Option<ParamId>,
}

impl Readout {
    pub(super) fn find(params: &Params, config: &VitConfig) -> Result<Self> {
        let variant = &config.variant;
        let norm = |name: &str| LayerNorm::find(params, name, variant.norm_eps);
        let attends = variant.global_pool == GlobalPool::Map;
        let projected = matches!(variant.head, HeadKind::Cosine { projected: true, .. });
        Ok(Self {
            pool: variant.global_pool,
            norm: config.norms_tokens().then(|| norm("norm")).transpose()?,
            fc_norm: variant.fc_norm.then(|| norm("fc_norm")).transpose()?,
            attention: attends.then(|| AttentionPool::find(params, config)).transpose()?,
            head: Linear::find(params, "head")?,
            head_dist: variant
                .dist_token()
                .then(|| Linear::find(params, "head_dist"))
                .transpose()?,
            kind: variant.head,
            projection: projected.then(|| params.id("head.proj.weight")).transpose()?,
        })
    }

    /// How many of the first tokens the last block has to give; none if it is all.
    pub(super) fn needed(&self, layout: &Layout) -> Option<usize> {
        match self.pool {
            GlobalPool::Token if layout.pools_prompts() => Some(layout.prefix + layout.prompts),
            GlobalPool::Token => Some(if self.head_dist.is_some() { 2 } else { 1 }),
            _ => None,
        }
    }

    /// Features `[B, D]` and logits `[B, C]` of tokens `[B, T, D]`. Where the classifier reads two vectors, the
    /// features are the class token's.
    pub(super) fn forward(
        &self,
        params: &Params,
        x: &Tensor,
        layout: &Layout,
        classes: Option<&[usize]>,
    ) -> Result<(Tensor, Tensor)> {
        let logits = |head: &Linear, read: &Tensor| match classes {
            None => head.logits(params, read),
            Some(classes) => head.forward_outputs(params, read, classes),
        };
        let pooled = self.pooled(params, x, layout)?;
        if let Some(head_dist) = &self.head_dist {
            let distilled = self.normed(params, &x.slice(1, 1, 1)?)?.mean(1)?;
            let sum = logits(&self.head, &pooled)?.add(&logits(head_dist, &distilled)?)?;
            return Ok((pooled, sum.scale(0.5)?));
        }
        let read = match self.kind {
            HeadKind::Cosine { .. } => {
                let projected = self.projection.map(|weight| pooled.linear(&params[weight], None));
                projected.transpose()?.unwrap_or_else(|| pooled.clone()).l2_normalize()?
            }
            _ if self.pool == GlobalPool::TokenAvg => {
                Tensor::concat(&[&pooled, &self.mean(params, x, layout)?], 1)?
            }
            _ => pooled.clone(),
        };
        let logits = logits(&self.head, &read)?;
        Ok((pooled, logits))
    }

    /// `[B, D]`.
    fn pooled(&self, params: &Params, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        match self.pool {
            GlobalPool::Token | GlobalPool::TokenAvg => self.class_token(params, x, layout),
            GlobalPool::Avg | GlobalPool::AvgRaw => self.mean(params, x, layout),
            GlobalPool::Map => {
                let attention = self.attention.as_ref().expect("found for this kind of pooling");
                attention.forward(params, &self.normed(params, &layout.unprompted(x)?)?)
            }
        }
    }

    /// The class token, or its mean with the prompts.
    fn class_token(&self, params: &Params, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        let Layout { prefix, prompts, .. } = *layout;
        if !layout.pools_prompts() {
            return Ok(self.normed(params, &x.slice(1, 0, 1)?)?.mean(1)?);
        }
        let first = self.normed(params, &x.slice(1, 0, prefix + prompts)?)?;
        if prefix == 1 {
            return Ok(first.mean(1)?);
        }
        let parts = [&first.slice(1, 0, 1)?, &first.slice(1, prefix, prompts)?];
        Ok(Tensor::concat(&parts, 1)?.mean(1)?)
    }

    /// The mean of the patches, and of the prompts where they are pooled with them.
    fn mean(&self, params: &Params, x: &Tensor, layout: &Layout) -> Result<Tensor> {
        // The class token's half of `TokenAvg` already has the prompts.
        let first = match self.pool {
            GlobalPool::TokenAvg => layout.prefix + layout.prompts,
            _ => layout.first_patch(),
        };
        let patches = x.slice(1, first, x.shape()[1] - first)?;
        let mean = self.normed(params, &patches)?.mean(1)?;
        self.fc_norm.map_or(Ok(mean.clone()), |norm| norm.forward(params, &mean))
    }

    fn normed(&self, params: &Params, x: &Tensor) -> Result<Tensor> {
        self.norm.map_or_else(|| Ok(x.clone()), |norm| norm.forward(params, x))
    }
}
