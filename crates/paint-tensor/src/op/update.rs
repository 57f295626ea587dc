//! Parameter updates, one fused pass each. They make new tensors: a parameter is never changed in place.

use crate::backend::Update;
use crate::{Result, Tensor};

/// The settings of one Adam or `AdamW` step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamStep {
    /// The learning rate.
    pub lr: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub eps: f32,
    /// Weight decay.
    pub weight_decay: f32,
    /// Decay the parameter itself (`AdamW`) instead of adding to the gradient (Adam).
    pub decoupled: bool,
    /// The number of this step, from 1.
    pub t: u32,
}

impl Tensor {
    /// Stochastic gradient descent as PyTorch does it: returns the parameter and its velocity. The first velocity
    /// (`None` before) is the gradient itself.
    pub fn sgd_step(
        &self,
        grad: &Self,
        velocity: Option<&Self>,
        lr: f32,
        momentum: f32,
        weight_decay: f32,
        nesterov: bool,
    ) -> Result<(Self, Self)> {
        let velocity = velocity.map(Self::storage);
        let update = Update::Sgd { lr, momentum, weight_decay, nesterov, velocity };
        let [param, velocity] = self.updated(grad, &update)?;
        Ok((param, velocity))
    }

    /// Adam with bias correction: returns the parameter and both moments (`None` before the first step).
    pub fn adam_step(
        &self,
        grad: &Self,
        moments: Option<(&Self, &Self)>,
        step: AdamStep,
    ) -> Result<(Self, Self, Self)> {
        let moments = moments.map(|(m, v)| (m.storage(), v.storage()));
        let [param, m, v] = self.updated(grad, &Update::Adam { step, moments })?;
        Ok((param, m, v))
    }

    fn updated<const N: usize>(&self, grad: &Self, update: &Update) -> Result<[Self; N]> {
        if grad.shape() != self.shape() {
            return Err(grad.shape_error("gradient", format!("{:?}", self.shape())));
        }
        let outputs = self.device().backend().update(self.storage(), grad.storage(), update)?;
        let outputs: Vec<Self> = outputs
            .into_iter()
            .map(|storage| Self::frozen(self.shape().to_vec(), storage, self.device().clone()))
            .collect();
        Ok(outputs.try_into().expect("each update returns the tensors its documentation lists"))
    }
}
