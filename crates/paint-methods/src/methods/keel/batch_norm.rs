//! keel on a convolutional network: batch norms with a mix of the statistics of training and of the stream (Eq. 14).

use std::collections::BTreeMap;

use paint_nn::backbone::{Backbone, BnMode, Request, Statistics};
use paint_nn::state::State;
use paint_tensor::Tensor;

use super::config::Config;
use crate::{Error, Result};

/// The statistics of batch norms, of training and of the stream.
#[derive(Clone, Default)]
pub(super) struct Running {
    /// Of training, by name.
    source: BTreeMap<String, Tensor>,
    /// Of the stream, by name; empty before the first batch.
    stream: BTreeMap<String, Tensor>,
    /// The images that those of the stream come from, bounded.
    images: u64,
}

impl Running {
    pub(super) fn new(model: &dyn Backbone) -> Self {
        Self { source: model.running_statistics().into_iter().collect(), ..Self::default() }
    }

    /// Predicts a batch, of which the statistics are part, and learns them.
    pub(super) fn step(
        &mut self,
        model: &mut dyn Backbone,
        config: &Config,
        (images, classes): (&Tensor, Option<&[usize]>),
    ) -> Result<Tensor> {
        let b = images.shape()[0] as u64;
        self.images = self.images.min(config.memory);
        let known = config.source_images + self.images;
        model.set_batch_norm(BnMode::Mixed { batch: b as f32 / (known + b) as f32 });
        let request = Request { classes, statistics: Statistics::Keep, ..Request::default() };
        let done = model.forward(images, &request);
        model.set_batch_norm(BnMode::Running);
        let features = done?;
        let rho = b as f32 / (self.images + b) as f32;
        for (name, moments) in features.statistics {
            for (what, new) in [("running_mean", moments.mean), ("running_var", moments.variance)] {
                let at = format!("{name}.{what}");
                let next =
                    self.stream.get(&at).map_or(Ok(new.clone()), |old| old.lerp(&new, rho))?;
                self.stream.insert(at, next);
            }
        }
        self.images += b;
        self.set(model, config)?;
        Ok(features.logits)
    }

    /// Gives the network its mix.
    fn set(&self, model: &mut dyn Backbone, config: &Config) -> Result<()> {
        let share = self.images as f32 / (config.source_images + self.images).max(1) as f32;
        if self.source.is_empty() {
            return Ok(());
        }
        let mix = |(name, source): (&String, &Tensor)| -> Result<(String, Tensor)> {
            let mixed = self
                .stream
                .get(name)
                .map_or(Ok(source.clone()), |stream| source.lerp(stream, share))?;
            Ok((name.clone(), mixed))
        };
        let values = self.source.iter().map(mix).collect::<Result<BTreeMap<_, _>>>()?;
        Ok(model.set_running_statistics(&values)?)
    }

    /// Forgets the stream, and the network follows.
    pub(super) fn reset(&mut self, model: &mut dyn Backbone, config: &Config) -> Result<()> {
        self.stream.clear();
        self.images = 0;
        self.set(model, config)
    }

    pub(super) fn save(&self) -> State {
        let mut state = State { tensors: self.stream.clone(), ..State::default() };
        state.counters.insert("images".into(), self.images);
        state
    }

    /// What [`Running::save`] gave, and the network follows.
    pub(super) fn load(
        &mut self,
        state: &State,
        model: &mut dyn Backbone,
        config: &Config,
    ) -> Result<()> {
        for (name, tensor) in &state.tensors {
            let expected = self.source.get(name).map(Tensor::shape);
            if expected != Some(tensor.shape()) {
                let expected = expected.map_or("none".to_owned(), |shape| format!("{shape:?}"));
                let found = format!("{:?}", tensor.shape());
                return Err(Error::State {
                    expected: format!("statistics {name:?}: {expected}"),
                    found,
                });
            }
        }
        self.stream = state.tensors.clone();
        self.images = state.counter("images")?;
        self.set(model, config)
    }

    /// Whether there is nothing to mix: the network has no batch norms.
    pub(super) fn is_empty(&self) -> bool {
        self.source.is_empty()
    }
}
