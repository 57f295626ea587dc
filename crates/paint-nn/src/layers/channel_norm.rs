//! Norms over the channels of images.
//!
//! Running statistics are constants of the layer, not parameters: no gradient and no mode changes them. Training sets
//! them from the moments of its batches.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use paint_tensor::{BnMode, Moments, Tensor};

use crate::error::{Error, Result};
use crate::params::{ParamId, Params};

/// Batch norm.
#[derive(Debug, Clone)]
pub(crate) struct BatchNorm {
    /// The layer's prefix in checkpoints.
    pub(crate) name: Arc<str>,
    pub(crate) weight: ParamId,
    pub(crate) bias: ParamId,
    /// `[C]`.
    pub(crate) running_mean: Tensor,
    /// `[C]`.
    pub(crate) running_var: Tensor,
    pub(crate) eps: f32,
}

impl BatchNorm {
    /// Mean and variance by their names in checkpoints.
    pub(crate) fn running(&self) -> [(String, Tensor); 2] {
        let [mean, var] = self.running_names();
        [(mean, self.running_mean.clone()), (var, self.running_var.clone())]
    }

    /// Takes both from a table by name; what is missing or of another shape is refused.
    pub(crate) fn set_running(&mut self, values: &BTreeMap<String, Tensor>) -> Result<()> {
        let expected = self.running_mean.shape().to_vec();
        let found = self.running_names().map(|name| match values.get(&name) {
            Some(tensor) if tensor.shape() == expected => Ok(tensor.detach()),
            Some(tensor) => {
                let (expected, got) = (expected.clone(), tensor.shape().to_vec());
                Err(Error::Shape { what: name, expected, got })
            }
            None => Err(Error::State { name }),
        });
        let [mean, var] = found;
        (self.running_mean, self.running_var) = (mean?, var?);
        Ok(())
    }

    fn with<'a>(&'a self, params: &'a Params, pass: &NormPass) -> paint_tensor::BatchNorm<'a> {
        paint_tensor::BatchNorm {
            scale: &params[self.weight],
            shift: &params[self.bias],
            running_mean: &self.running_mean,
            running_var: &self.running_var,
            eps: self.eps,
            mode: pass.mode,
            batch_size: pass.batch_size,
        }
    }

    fn running_names(&self) -> [String; 2] {
        ["running_mean", "running_var"].map(|what| format!("{}.{what}", self.name))
    }
}

/// Group norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupNorm {
    pub(crate) weight: ParamId,
    pub(crate) bias: ParamId,
    pub(crate) groups: usize,
    pub(crate) eps: f32,
}

impl GroupNorm {
    fn forward(&self, params: &Params, x: &Tensor) -> Result<Tensor> {
        let (scale, shift) = (&params[self.weight], &params[self.bias]);
        Ok(x.group_norm(self.groups, scale, shift, self.eps)?)
    }
}

/// The norm of a residual network.
#[derive(Debug, Clone)]
pub(crate) enum ChannelNorm {
    Batch(BatchNorm),
    Group(GroupNorm),
}

/// How the batch norms of one forward pass behave, and what they saw.
#[derive(Debug, Default)]
pub(crate) struct NormPass {
    pub(crate) mode: BnMode,
    /// How many images make up a batch, if there are several batches.
    pub(crate) batch_size: Option<usize>,
    /// The moments of the batch by layer, if they are wanted.
    pub(crate) seen: Option<RefCell<Seen>>,
}

impl NormPass {
    fn saw(&self, norm: &BatchNorm, moments: Option<Moments>) {
        if let (Some(seen), Some(moments)) = (&self.seen, moments) {
            seen.borrow_mut().push((Arc::clone(&norm.name), moments));
        }
    }
}

/// The moments of a batch by layer.
pub(crate) type Seen = Vec<(Arc<str>, Moments)>;

impl ChannelNorm {
    /// `[B, C, H, W]`, shape kept; `pass` concerns batch norms alone.
    pub(crate) fn forward(&self, params: &Params, x: &Tensor, pass: &NormPass) -> Result<Tensor> {
        match self {
            Self::Batch(norm) => {
                let (y, moments) = x.batch_norm_with_moments(&norm.with(params, pass))?;
                pass.saw(norm, moments);
                Ok(y)
            }
            Self::Group(norm) => norm.forward(params, x),
        }
    }

    /// `relu(residual + norm(x))`.
    pub(crate) fn forward_relu(
        &self,
        params: &Params,
        x: &Tensor,
        residual: Option<&Tensor>,
        pass: &NormPass,
    ) -> Result<Tensor> {
        match self {
            Self::Batch(norm) => {
                let (y, moments) = x.batch_norm_relu(&norm.with(params, pass), residual)?;
                pass.saw(norm, moments);
                Ok(y)
            }
            Self::Group(norm) => {
                let y = norm.forward(params, x)?;
                let y = residual.map_or(Ok(y.clone()), |residual| residual.add(&y))?;
                Ok(y.relu()?)
            }
        }
    }
}
