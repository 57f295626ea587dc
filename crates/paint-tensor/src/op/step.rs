//! One step of an optimizer over all parameters at once: the norm of the gradients, clipping, the update and the moving
//! average of the weights, without waiting for the host in between.

use crate::backend::{Step, StepRule, StepSlot, SteppedSlot, Storage};
use crate::{Error, Result, Tensor};

/// A parameter and its state, before a step.
#[derive(Debug, Clone, Copy)]
pub struct StepParam<'a> {
    /// Its value.
    pub value: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// The velocity of SGD or the first moment of Adam; none before the first step.
    pub first: Option<&'a Tensor>,
    /// The second moment of Adam.
    pub second: Option<&'a Tensor>,
    /// Its moving average, if one is kept.
    pub average: Option<&'a Tensor>,
    /// The learning rate.
    pub lr: f32,
    /// The weight decay.
    pub weight_decay: f32,
}

/// A parameter and its state, after a step.
#[derive(Debug, Clone)]
pub struct SteppedParam {
    /// Its value.
    pub value: Tensor,
    /// The velocity of SGD or the first moment of Adam.
    pub first: Tensor,
    /// The second moment of Adam.
    pub second: Option<Tensor>,
    /// The moving average, if one was given.
    pub average: Option<Tensor>,
}

/// How all parameters step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingStep {
    /// The update.
    pub rule: StepRule,
    /// Gradients are scaled so that their norm, all taken together, is at most this.
    pub clip: Option<f32>,
    /// `d` of `average' = d average + (1 - d) value'`.
    pub average_decay: f32,
}

impl TrainingStep {
    /// Steps every parameter. The second result is the norm of the gradients before clipping, `[]`, if they are
    /// clipped.
    pub fn apply(&self, params: &[StepParam<'_>]) -> Result<(Vec<SteppedParam>, Option<Tensor>)> {
        let Some(first) = params.first() else { return Ok((Vec::new(), None)) };
        let device = first.value.device();
        let mut slots = Vec::with_capacity(params.len());
        for param in params {
            let shape = param.value.shape();
            for other in [Some(param.grad), param.first, param.second, param.average] {
                if let Some(other) = other.filter(|other| other.shape() != shape) {
                    return Err(Error::Shape {
                        what: "step of a parameter",
                        expected: format!("{shape:?}"),
                        got: other.shape().to_vec(),
                    });
                }
                if let Some(other) = other {
                    device.check_same(other.device(), "step of a parameter")?;
                }
            }
            slots.push(StepSlot {
                param: param.value.storage(),
                grad: param.grad.storage(),
                first: param.first.map(Tensor::storage),
                second: param.second.map(Tensor::storage),
                average: param.average.map(Tensor::storage),
                lr: param.lr,
                weight_decay: param.weight_decay,
            });
        }
        let Self { rule, clip, average_decay } = *self;
        let (stepped, norm) =
            device.backend().step(&Step { rule, clip, average_decay, slots: &slots })?;
        let named = |(slot, param): (SteppedSlot, &StepParam<'_>)| {
            let tensor = |storage: Storage| {
                Tensor::frozen(param.value.shape().to_vec(), storage, device.clone())
            };
            SteppedParam {
                value: tensor(slot.param),
                first: tensor(slot.first),
                second: slot.second.map(tensor),
                average: slot.average.map(tensor),
            }
        };
        let stepped = stepped.into_iter().zip(params).map(named).collect();
        Ok((stepped, norm.map(|norm| Tensor::frozen(Vec::new(), norm, device.clone()))))
    }
}
