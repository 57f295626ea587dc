//! What training remembers of each parameter, and its step: clipping, update and moving average in one pass on the
//! device.

use paint_nn::params::{ParamId, Params, Slot};
use paint_tensor::{Gradients, StepParam, StepRule, Tensor, TrainingStep};

use crate::error::{Error, Result};
use crate::recipe::{Decay, Optimizer as Kind, Recipe};

/// What is remembered of one parameter.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) id: ParamId,
    pub(crate) first: Option<Tensor>,
    pub(crate) second: Option<Tensor>,
    /// The moving average of its value, if one is kept.
    pub(crate) average: Option<Tensor>,
    weight_decay: f32,
}

/// The optimizer of a training.
#[derive(Debug, Clone)]
pub(crate) struct Optimizer {
    recipe: Recipe,
    pub(crate) memory: Vec<Memory>,
}

impl Optimizer {
    /// An optimizer of all parameters that remembers nothing yet; averages begin at the values of now.
    pub(crate) fn new(recipe: &Recipe, params: &Params) -> Result<Self> {
        let mut memory = Vec::with_capacity(params.len());
        for param in params.iter() {
            let matrix =
                param.role().slot() == Some(Slot::Weight) && !param.role().is_norm_affine();
            let decays = recipe.decay == Decay::All || matrix;
            memory.push(Memory {
                id: params.id(param.name())?,
                first: None,
                second: None,
                average: (recipe.average > 0.0).then(|| param.tensor().detach()),
                weight_decay: if decays { recipe.weight_decay as f32 } else { 0.0 },
            });
        }
        Ok(Self { recipe: recipe.clone(), memory })
    }

    /// The decay of the moving average at step `t` (from 1): young averages forget faster, as they began at drawn
    /// weights.
    pub(crate) fn average_decay(&self, t: usize) -> f64 {
        self.recipe.average.min((1.0 + t as f64) / (10.0 + t as f64))
    }

    /// One update; `t` counts from 1.
    pub(crate) fn step(
        &mut self,
        params: &mut Params,
        gradients: &Gradients,
        lr: f64,
        t: usize,
    ) -> Result<()> {
        let Recipe { beta1, beta2, momentum, nesterov, clip, .. } = self.recipe;
        let rule = match self.recipe.optimizer {
            Kind::Sgd => StepRule::Sgd { momentum: momentum as f32, nesterov },
            Kind::Adamw => StepRule::Adam {
                beta1: beta1 as f32,
                beta2: beta2 as f32,
                eps: 1e-8,
                t: u32::try_from(t).unwrap_or(u32::MAX),
                decoupled: true,
            },
        };
        let clip = (clip > 0.0).then_some(clip as f32);
        let average_decay = self.average_decay(t) as f32;
        let values: Vec<Tensor> =
            self.memory.iter().map(|memory| params[memory.id].detach()).collect();
        let slots = self.memory.iter().zip(&values).map(|(memory, value)| {
            let missing = || Error::NoGradient { name: params.param(memory.id).name().to_owned() };
            Ok(StepParam {
                value,
                grad: gradients.get(&params[memory.id]).ok_or_else(missing)?,
                first: memory.first.as_ref(),
                second: memory.second.as_ref(),
                average: memory.average.as_ref(),
                lr: lr as f32,
                weight_decay: memory.weight_decay,
            })
        });
        let slots: Vec<StepParam<'_>> = slots.collect::<Result<_>>()?;
        let (stepped, _norm) = TrainingStep { rule, clip, average_decay }.apply(&slots)?;
        for (memory, new) in self.memory.iter_mut().zip(stepped) {
            params.set(memory.id, &new.value)?;
            memory.first = Some(new.first);
            memory.second = new.second;
            memory.average = new.average;
        }
        Ok(())
    }
}
