//! The MLP of a block and of attention pooling: two linear layers with an activation, or a gate, between them.

use paint_tensor::{Mlp, Tensor};

use super::variant::Variant;
use crate::checkpoint::Activation;
use crate::error::Result;
use crate::layers::Linear;
use crate::params::Params;

/// Where an MLP's parameters are, and what comes between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct MlpLayers {
    fc1: Linear,
    fc2: Linear,
    activation: Activation,
    gated: bool,
}

impl MlpLayers {
    pub(super) fn find(params: &Params, prefix: &str, variant: &Variant) -> Result<Self> {
        Ok(Self {
            fc1: Linear::find(params, &format!("{prefix}.fc1"))?,
            fc2: Linear::find(params, &format!("{prefix}.fc2"))?,
            activation: variant.activation,
            gated: variant.gated,
        })
    }

    /// The same layers without a gate.
    pub(super) fn ungated(self) -> Self {
        Self { gated: false, ..self }
    }

    /// `x` → `fc2(act(fc1(x)))`, or `fc2(act(a) b)` for the halves `[a | b]` of `fc1(x)`; plus `residual`.
    pub(super) fn forward(
        &self,
        params: &Params,
        x: &Tensor,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        if self.activation == Activation::Gelu && !self.gated {
            let mlp = Mlp { fc1: self.fc1.values(params), fc2: self.fc2.values(params) };
            return Ok(x.mlp(mlp, residual)?);
        }
        let inner = self.fc1.forward(params, x)?;
        let hidden = if self.gated {
            let (last, half) = (inner.shape().len() - 1, inner.shape().last().unwrap_or(&0) / 2);
            activate(self.activation, &inner.slice(last, 0, half)?)?
                .mul(&inner.slice(last, half, half)?)?
        } else {
            activate(self.activation, &inner)?
        };
        // Elementwise functions compute in f32; the product is to have the precision of the device.
        let out = self.fc2.forward(params, &hidden.compact()?)?;
        Ok(match residual {
            None => out,
            Some(residual) => residual.add(&out)?,
        })
    }
}

fn activate(activation: Activation, x: &Tensor) -> Result<Tensor> {
    Ok(match activation {
        Activation::Gelu => x.gelu()?,
        Activation::GeluTanh => x.gelu_tanh()?,
        Activation::QuickGelu => x.quick_gelu()?,
        Activation::Silu => x.silu()?,
    })
}
