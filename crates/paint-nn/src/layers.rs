//! Layers as places in [`Params`]: a layer knows where its weights are, never what they are.

mod channel_norm;
mod conv;

pub(crate) use channel_norm::{BatchNorm, ChannelNorm, GroupNorm, NormPass};
pub(crate) use conv::Conv;

use paint_tensor::Tensor;

use crate::error::Result;
use crate::params::{ParamId, Params};

/// `y = x Wᵀ + b`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linear {
    weight: ParamId,
    bias: ParamId,
}

impl Linear {
    /// The layer whose parameters are `prefix.weight` `[O, I]` and `prefix.bias` `[O]`.
    pub(crate) fn find(params: &Params, prefix: &str) -> Result<Self> {
        Ok(Self {
            weight: params.id(&format!("{prefix}.weight"))?,
            bias: params.id(&format!("{prefix}.bias"))?,
        })
    }

    /// The layer at known places.
    pub(crate) fn at(weight: ParamId, bias: ParamId) -> Self {
        Self { weight, bias }
    }

    /// `[.., I]` → `[.., O]`.
    pub(crate) fn forward(&self, params: &Params, x: &Tensor) -> Result<Tensor> {
        Ok(x.layer(&params[self.weight], Some(&params[self.bias]), None)?)
    }

    /// The same as the last layer of a network, which no precision rounds.
    pub(crate) fn logits(&self, params: &Params, x: &Tensor) -> Result<Tensor> {
        Ok(x.linear(&params[self.weight], Some(&params[self.bias]))?)
    }

    /// Its weight and bias.
    pub(crate) fn values<'a>(&self, params: &'a Params) -> (&'a Tensor, &'a Tensor) {
        (&params[self.weight], &params[self.bias])
    }

    /// `residual + x Wᵀ + b`.
    pub(crate) fn forward_residual(
        &self,
        params: &Params,
        x: &Tensor,
        residual: &Tensor,
    ) -> Result<Tensor> {
        Ok(x.layer(&params[self.weight], Some(&params[self.bias]), Some(residual))?)
    }

    /// Only the outputs `start..start + len`.
    pub(crate) fn forward_rows(
        &self,
        params: &Params,
        x: &Tensor,
        start: usize,
        len: usize,
    ) -> Result<Tensor> {
        let weight = params[self.weight].slice(0, start, len)?;
        let bias = params[self.bias].slice(0, start, len)?;
        Ok(x.layer(&weight, Some(&bias), None)?)
    }

    /// Only the outputs named, in that order.
    pub(crate) fn forward_outputs(
        &self,
        params: &Params,
        x: &Tensor,
        outputs: &[usize],
    ) -> Result<Tensor> {
        let weight = params[self.weight].gather(outputs)?;
        let bias = params[self.bias].gather(outputs)?;
        Ok(x.linear(&weight, Some(&bias))?)
    }
}

/// Layer norm over the last axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerNorm {
    weight: ParamId,
    bias: ParamId,
    eps: f32,
}

impl LayerNorm {
    /// The norm whose parameters are `prefix.weight` and `prefix.bias`.
    pub(crate) fn find(params: &Params, prefix: &str, eps: f32) -> Result<Self> {
        Ok(Self {
            weight: params.id(&format!("{prefix}.weight"))?,
            bias: params.id(&format!("{prefix}.bias"))?,
            eps,
        })
    }

    /// The norm at known places.
    pub(crate) fn at(weight: ParamId, bias: ParamId, eps: f32) -> Self {
        Self { weight, bias, eps }
    }

    /// Shape kept.
    pub(crate) fn forward(&self, params: &Params, x: &Tensor) -> Result<Tensor> {
        Ok(x.layer_norm(&params[self.weight], &params[self.bias], self.eps)?)
    }
}
