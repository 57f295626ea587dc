//! A network in training: one step at a time, nothing printed, nothing read back unless asked for.

use std::collections::BTreeMap;

use paint_nn::backbone::{Backbone, BnMode, Request, Statistics};
use paint_nn::loss::cross_entropy_soft;
use paint_nn::params::{Part, Role, Trainable};
use paint_tensor::{Device, Images, Moments, Tensor};

use crate::batch::Batch;
use crate::drop_path;
use crate::error::{Error, Result};
use crate::optimizer::Optimizer;
use crate::recipe::Recipe;

/// The share of a batch in the running statistics of batch norms, PyTorch's.
const BN_MOMENTUM: f32 = 0.1;

/// What a step leaves to be looked at later: reading it would stall a GPU.
#[derive(Debug)]
pub struct Outcome {
    /// The mean loss of the batch, `[]`.
    pub loss: Tensor,
    /// `[B, C]`.
    pub logits: Tensor,
}

/// A network and everything that its training remembers.
pub struct Trainer {
    pub(crate) model: Box<dyn Backbone>,
    pub(crate) device: Device,
    pub(crate) recipe: Recipe,
    pub(crate) optimizer: Optimizer,
    /// Steps done.
    pub(crate) step: usize,
    /// Running statistics of batch norms, and their moving average where one is kept.
    pub(crate) running: BTreeMap<String, Tensor>,
    pub(crate) running_average: BTreeMap<String, Tensor>,
}

impl Trainer {
    /// Prepares to train all parameters of `model`.
    pub fn new(mut model: Box<dyn Backbone>, recipe: Recipe) -> Result<Self> {
        recipe.check()?;
        let attends = |role| matches!(role, Role::Block { part: Part::Qkv, .. });
        let transformer = model.params().iter().any(|param| attends(param.role()));
        if recipe.drop_path > 0.0 && !transformer {
            let name = &model.spec().name;
            let why = format!("drop_path: expected 0, as {name} has no branches to leave out");
            return Err(Error::recipe(why));
        }
        let device = model.params().iter().next().map(|param| param.tensor().device().clone());
        let device = device.ok_or_else(|| Error::recipe("a network without parameters"))?;
        model.set_batch_norm(BnMode::Batch);
        model.params_mut().track(&Trainable::All);
        let optimizer = Optimizer::new(&recipe, model.params())?;
        let running: BTreeMap<String, Tensor> = model.running_statistics().into_iter().collect();
        let averaged = recipe.average > 0.0;
        let running_average = if averaged { running.clone() } else { BTreeMap::new() };
        Ok(Self { model, device, recipe, optimizer, step: 0, running, running_average })
    }

    /// The network, as it is now.
    pub fn model(&self) -> &dyn Backbone {
        &*self.model
    }

    /// Steps done.
    pub fn steps_done(&self) -> usize {
        self.step
    }

    /// One step with learning rate `lr` on a batch made of `images`.
    pub fn step(&mut self, images: &Images, batch: &Batch, lr: f64) -> Result<Outcome> {
        let device = &self.device;
        let spec = self.model.spec();
        let edge = self.recipe.augment.edge.edge();
        let pixels = images.compose(&batch.draws, spec.image_size, edge)?;
        let shape = [batch.draws.len(), spec.num_classes];
        let targets = Tensor::from_vec(batch.targets.clone(), shape, device)?;
        let branches = drop_path::upload(&batch.branches, device)?;
        let statistics = if self.running.is_empty() { Statistics::Omit } else { Statistics::Keep };
        let request = Request { branches: &branches, statistics, ..Request::default() };
        let features = self.model.forward(&pixels, &request)?;
        let loss = cross_entropy_soft(&features.logits, &targets)?.mean_all()?;
        let outcome = Outcome { loss: loss.detach(), logits: features.logits.detach() };
        let seen = features.statistics;
        drop((features.logits, features.pooled));
        let gradients = loss.backward()?;
        drop(loss);
        self.step += 1;
        self.optimizer.step(self.model.params_mut(), &gradients, lr, self.step)?;
        self.follow(&seen)?;
        Ok(outcome)
    }

    /// Moves the running statistics towards those of the batch.
    fn follow(&mut self, seen: &[(std::sync::Arc<str>, Moments)]) -> Result<()> {
        for (name, Moments { mean, variance, count }) in seen {
            // The variance of the whole, estimated from a sample of it.
            let unbiased = variance.scale(*count as f32 / (count.max(&2) - 1) as f32)?;
            for (what, value) in [("running_mean", mean), ("running_var", &unbiased)] {
                if let Some(running) = self.running.get_mut(&format!("{name}.{what}")) {
                    *running = running.lerp(value, BN_MOMENTUM)?;
                }
            }
        }
        let share = 1.0 - self.optimizer.average_decay(self.step) as f32;
        for (name, average) in &mut self.running_average {
            if let Some(running) = self.running.get(name) {
                *average = average.lerp(running, share)?;
            }
        }
        Ok(())
    }

    /// The network with the weights of now, frozen, as it would be deployed.
    pub fn raw(&self) -> Result<Box<dyn Backbone>> {
        let mut model = self.model.duplicate();
        model.params_mut().freeze();
        model.set_batch_norm(BnMode::Running);
        model.set_running_statistics(&self.running)?;
        Ok(model)
    }

    /// The same with the averaged weights; none if no average is kept.
    pub fn averaged(&self) -> Result<Option<Box<dyn Backbone>>> {
        let mut model = self.raw()?;
        for memory in &self.optimizer.memory {
            let Some(average) = &memory.average else { return Ok(None) };
            model.params_mut().set(memory.id, average)?;
        }
        model.set_running_statistics(&self.running_average)?;
        Ok(Some(model))
    }
}
