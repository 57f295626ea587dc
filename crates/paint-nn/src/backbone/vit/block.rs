//! A pre-norm transformer block: attention, then an MLP, each added to its input, scaled by channel where the block has
//! a layer scale.
//!
//! Letters: `T` tokens, `M` of them pooled (the first `M`), `h` heads.

use paint_tensor::Tensor;

use super::mlp::MlpLayers;
use super::variant::Variant;
use crate::backbone::branches::{Branches, add_branch};
use crate::backbone::{Attention, AttentionMap, GradientTap, MapLayout};
use crate::error::Result;
use crate::layers::{LayerNorm, Linear};
use crate::params::{ParamId, Params};

/// Where a block's parameters are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    num_heads: usize,
    norm1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    mlp: MlpLayers,
    /// The layer scales of both branches.
    scales: Option<[ParamId; 2]>,
}

impl Block {
    pub(super) fn find(
        params: &Params,
        index: usize,
        num_heads: usize,
        variant: &Variant,
    ) -> Result<Self> {
        let name = |layer: &str| format!("blocks.{index}.{layer}");
        let norm = |layer: &str| LayerNorm::find(params, &name(layer), variant.norm_eps);
        let scale = |layer: &str| params.id(&name(layer));
        let scales = || -> Result<_> { Ok([scale("ls1.gamma")?, scale("ls2.gamma")?]) };
        Ok(Self {
            num_heads,
            norm1: norm("norm1")?,
            qkv: Linear::find(params, &name("attn.qkv"))?,
            proj: Linear::find(params, &name("attn.proj"))?,
            norm2: norm("norm2")?,
            mlp: MlpLayers::find(params, &name("mlp"), variant)?,
            scales: variant.layer_scale.then(scales).transpose()?,
        })
    }

    /// `[B, T, D]` → `[B, T, D]`.
    pub(super) fn forward(
        &self,
        params: &Params,
        x: &Tensor,
        branches: Branches<'_>,
    ) -> Result<Tensor> {
        let qkv = self.qkv.forward(params, &self.norm1.forward(params, x)?)?;
        let attended = qkv.attention(self.num_heads)?;
        let x = self.project(params, &attended, x, branches.attention)?;
        self.mlp(params, &x, branches.mlp)
    }

    /// The same for the first `m` tokens alone: keys and values of all tokens, everything else of those.
    /// `[B, T, D]` → `[B, M, D]`.
    pub(super) fn forward_first(
        &self,
        params: &Params,
        x: &Tensor,
        m: usize,
        branches: Branches<'_>,
    ) -> Result<Tensor> {
        let [_, _, d] = x.dims3("tokens")?;
        let normed = self.norm1.forward(params, x)?;
        let kv = self.qkv.forward_rows(params, &normed, d, 2 * d)?; // [B, T, 2D]
        let q = self.qkv.forward_rows(params, &normed.slice(1, 0, m)?, 0, d)?; // [B, M, D]
        let attended = q.cross_attention(&kv, self.num_heads)?;
        let x = self.project(params, &attended, &x.slice(1, 0, m)?, branches.attention)?;
        self.mlp(params, &x, branches.mlp)
    }

    /// The attention of the first `m` tokens to all, `[B, T, D]` → `[B, h, M, T]`.
    pub(super) fn attention_of_first(
        &self,
        params: &Params,
        x: &Tensor,
        m: usize,
    ) -> Result<Tensor> {
        let [b, t, d] = x.dims3("tokens")?;
        let (h, width) = (self.num_heads, d / self.num_heads);
        let normed = self.norm1.forward(params, x)?;
        let q = self.qkv.forward_rows(params, &normed.slice(1, 0, m)?, 0, d)?; // [B, M, D]
        let k = self.qkv.forward_rows(params, &normed, d, d)?; // [B, T, D]
        let by_head = |x: &Tensor, n| x.reshape([b, n, h, width])?.transpose(1, 2);
        let scores = by_head(&q, m)?.matmul(&by_head(&k, t)?.transpose(2, 3)?)?;
        Ok(scores.scale((width as f32).sqrt().recip())?.softmax()?)
    }

    /// [`Self::forward`] with its attention map, and with a tap for the map's gradient where one is asked for.
    pub(super) fn forward_with_map(
        &self,
        params: &Params,
        x: &Tensor,
        (attention, layout): (Attention, MapLayout),
    ) -> Result<(Tensor, AttentionMap)> {
        let [b, t, d] = x.dims3("tokens")?;
        let qkv = self.qkv.forward(params, &self.norm1.forward(params, x)?)?; // [B, T, 3D]
        let (mut attended, map) = qkv.attention_with_map(self.num_heads)?;
        let mut tap = None;
        if attention == Attention::WithGradient {
            let zeros = Tensor::zeros([b, t, d], x.device())?.variable();
            attended = attended.add(&zeros)?;
            tap = Some(GradientTap { attended: zeros, values: qkv.slice(2, 2 * d, d)?.detach() });
        }
        let x = self.project(params, &attended, x, None)?;
        Ok((self.mlp(params, &x, None)?, AttentionMap { map: map.detach(), layout, tap }))
    }

    /// `x + f γ (attended Wᵀ + b)`; without factors and scale the sum is part of the product.
    fn project(
        &self,
        params: &Params,
        attended: &Tensor,
        x: &Tensor,
        factors: Option<&Tensor>,
    ) -> Result<Tensor> {
        let scale = self.scales.map(|[scale, _]| &params[scale]);
        match (factors, scale) {
            (None, None) => self.proj.forward_residual(params, attended, x),
            _ => add_branch(x, self.proj.forward(params, attended)?, scale, factors),
        }
    }

    /// `x + f γ MLP(norm(x))`.
    fn mlp(&self, params: &Params, x: &Tensor, factors: Option<&Tensor>) -> Result<Tensor> {
        let normed = self.norm2.forward(params, x)?;
        let scale = self.scales.map(|[_, scale]| &params[scale]);
        match (factors, scale) {
            (None, None) => self.mlp.forward(params, &normed, Some(x)),
            _ => add_branch(x, self.mlp.forward(params, &normed, None)?, scale, factors),
        }
    }
}
