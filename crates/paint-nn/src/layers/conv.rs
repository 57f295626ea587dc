//! Convolutions without bias, as in every residual network here: a norm follows and has one.

use paint_tensor::{Conv2d, Tensor};

use crate::error::Result;
use crate::params::{ParamId, Params};

/// A convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conv {
    /// `[O, I, k, k]`.
    pub(crate) weight: ParamId,
    pub(crate) how: Conv2d,
}

impl Conv {
    /// `[B, I, H, W]` → `[B, O, H', W']`.
    pub(crate) fn forward(&self, params: &Params, x: &Tensor) -> Result<Tensor> {
        Ok(x.conv2d(&params[self.weight], self.how)?)
    }
}
