//! Pooling by attention: a learnt query attends to all tokens, and a residual MLP follows (SigLIP; `attn_pool` of
//! timm).

use paint_tensor::Tensor;

use super::config::VitConfig;
use super::mlp::MlpLayers;
use crate::error::Result;
use crate::layers::{LayerNorm, Linear};
use crate::params::{ParamId, Params};

/// Where its parameters are.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttentionPool {
    num_heads: usize,
    latent: ParamId,
    q: Linear,
    kv: Linear,
    proj: Linear,
    norm: LayerNorm,
    mlp: MlpLayers,
}

impl AttentionPool {
    pub(super) fn find(params: &Params, config: &VitConfig) -> Result<Self> {
        let linear = |layer: &str| Linear::find(params, &format!("attn_pool.{layer}"));
        Ok(Self {
            num_heads: config.num_heads,
            latent: params.id("attn_pool.latent")?,
            q: linear("q")?,
            kv: linear("kv")?,
            proj: linear("proj")?,
            norm: LayerNorm::find(params, "attn_pool.norm", config.variant.norm_eps)?,
            mlp: MlpLayers::find(params, "attn_pool.mlp", &config.variant)?.ungated(),
        })
    }

    /// `[B, T, D]` → `[B, D]`.
    pub(super) fn forward(&self, params: &Params, x: &Tensor) -> Result<Tensor> {
        let [b, _, d] = x.dims3("tokens")?;
        let query =
            self.q.forward(params, &params[self.latent])?.broadcast_to([b, 1, d])?.compact()?;
        let attended = query.cross_attention(&self.kv.forward(params, x)?, self.num_heads)?;
        let pooled = self.proj.forward(params, &attended)?;
        let normed = self.norm.forward(params, &pooled)?;
        Ok(self.mlp.forward(params, &normed, Some(&pooled))?.mean(1)?)
    }
}
