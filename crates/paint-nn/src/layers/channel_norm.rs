//! Norms over the channels of images.
//!
//! Running statistics are constants of the layer, not parameters: nothing trains them, and no mode updates them.

use paint_tensor::{BnMode, Tensor};

use crate::error::Result;
use crate::params::{ParamId, Params};

/// Batch norm.
#[derive(Debug, Clone)]
pub(crate) struct BatchNorm {
    pub(crate) weight: ParamId,
    pub(crate) bias: ParamId,
    /// `[C]`.
    pub(crate) running_mean: Tensor,
    /// `[C]`.
    pub(crate) running_var: Tensor,
    pub(crate) eps: f32,
}

/// Group norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupNorm {
    pub(crate) weight: ParamId,
    pub(crate) bias: ParamId,
    pub(crate) groups: usize,
    pub(crate) eps: f32,
}

/// The norm of a residual network.
#[derive(Debug, Clone)]
pub(crate) enum ChannelNorm {
    Batch(BatchNorm),
    Group(GroupNorm),
}

impl ChannelNorm {
    /// `[B, C, H, W]`, shape kept; `mode` concerns batch norms alone.
    pub(crate) fn forward(&self, params: &Params, x: &Tensor, mode: BnMode) -> Result<Tensor> {
        Ok(match self {
            Self::Batch(norm) => x.batch_norm(&paint_tensor::BatchNorm {
                scale: &params[norm.weight],
                shift: &params[norm.bias],
                running_mean: &norm.running_mean,
                running_var: &norm.running_var,
                eps: norm.eps,
                mode,
            })?,
            Self::Group(norm) => {
                let (scale, shift) = (&params[norm.weight], &params[norm.bias]);
                x.group_norm(norm.groups, scale, shift, norm.eps)?
            }
        })
    }
}
