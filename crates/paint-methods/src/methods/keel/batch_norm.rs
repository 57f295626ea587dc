//! keel on a convolutional network: batch norms with a mix of the statistics of training and of the stream.
//!
//! Eq. 14: the mean is `(n_0 μ_s + e m) / (n_0 + e)`, variances alike. `m` is the running mean of the last `n` images, the
//! batch included, at most `M` or the batch, and `e = W min(n, M)/M` with `W = 50`. `M` is `W` while classes are mixed, so
//! that a batch of 50 stands for itself, and `memory`, at least `W`, where they come in runs (Eq. 9) or too few have been
//! seen to know. No other source statistics are needed. A probe starts with `n = 0`.

use std::collections::BTreeMap;

use paint_nn::backbone::{Backbone, BnMode, Request, Statistics};
use paint_nn::state::State;
use paint_tensor::Tensor;

use super::config::Config;
use crate::{Error, Result};

/// `W`: as many images of the stream count, at most. More, or a whole domain's, were worth no more on held-out
/// corruptions, and are slower to follow a change.
const DRAWS: u64 = 50;

/// The statistics of batch norms, of training and of the stream.
#[derive(Clone, Default)]
pub(super) struct Running {
    /// Of training, by name.
    source: BTreeMap<String, Tensor>,
    /// Of the stream, by name; empty before the first batch.
    stream: BTreeMap<String, Tensor>,
    /// `n`, the images that those of the stream come from.
    images: u64,
}

/// The images that statistics of the stream go back to (Eq. 14).
#[derive(Clone, Copy)]
pub(super) struct Span(u64);

impl Span {
    /// Few where classes are mixed. Where they come in runs, or nobody knows, enough to meet several of them.
    pub(super) fn new(config: &Config, is_mixed: bool) -> Self {
        Self(if is_mixed { DRAWS } else { config.memory.max(DRAWS) })
    }

    /// The share of the statistics of the stream, those of `n` images, beside those of training.
    fn share(self, n: u64, config: &Config) -> f32 {
        let counted = DRAWS as f32 * n.min(self.0) as f32 / self.0 as f32;
        counted / (config.source_images as f32 + counted).max(f32::MIN_POSITIVE)
    }
}

impl Running {
    pub(super) fn new(model: &dyn Backbone) -> Self {
        Self { source: model.running_statistics().into_iter().collect(), ..Self::default() }
    }

    /// Predicts a batch, of which the statistics are part, and learns them; [`Running::follow`] has to come after it.
    pub(super) fn step(
        &mut self,
        model: &mut dyn Backbone,
        (config, span): (&Config, Span),
        (images, classes): (&Tensor, Option<&[usize]>),
    ) -> Result<Tensor> {
        let b = images.shape()[0] as u64;
        self.images = self.images.min(span.0.saturating_sub(b));
        let n = self.images + b;
        let share = span.share(n, config);
        let (rho, before) = (b as f32 / n as f32, share * self.images as f32 / n as f32);
        let batch = share * rho;
        self.set(model, if before > 0.0 { before / (1.0 - batch) } else { 0.0 })?;
        model.set_batch_norm(BnMode::Mixed { batch });
        let request = Request { classes, statistics: Statistics::Keep, ..Request::default() };
        let done = model.forward(images, &request);
        model.set_batch_norm(BnMode::Running);
        let features = done?;
        for (name, moments) in features.statistics {
            for (what, new) in [("running_mean", moments.mean), ("running_var", moments.variance)] {
                let at = format!("{name}.{what}");
                let old = self.stream.get(&at).filter(|_| rho < 1.0);
                let next = old.map_or(Ok(new.clone()), |old| old.lerp(&new, rho))?;
                self.stream.insert(at, next);
            }
        }
        self.images = n;
        Ok(features.logits)
    }

    /// Gives the network the mix that predicts until the next step.
    pub(super) fn follow(
        &self,
        model: &mut dyn Backbone,
        (config, span): (&Config, Span),
    ) -> Result<()> {
        self.set(model, span.share(self.images, config))
    }

    /// Gives the network the statistics of training with a share of the stream's.
    fn set(&self, model: &mut dyn Backbone, share: f32) -> Result<()> {
        if self.source.is_empty() {
            return Ok(());
        }
        let mix = |(name, source): (&String, &Tensor)| -> Result<(String, Tensor)> {
            let stream = self.stream.get(name).filter(|_| share > 0.0);
            let mixed = stream.map_or(Ok(source.clone()), |stream| source.lerp(stream, share))?;
            Ok((name.clone(), mixed))
        };
        let values = self.source.iter().map(mix).collect::<Result<BTreeMap<_, _>>>()?;
        Ok(model.set_running_statistics(&values)?)
    }

    /// Forgets the stream: the next images do not follow it.
    pub(super) fn leave(&mut self) {
        self.stream.clear();
        self.images = 0;
    }

    /// Forgets the stream, and the network follows.
    pub(super) fn reset(&mut self, model: &mut dyn Backbone) -> Result<()> {
        self.leave();
        self.set(model, 0.0)
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
        (config, span): (&Config, Span),
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
        self.follow(model, (config, span))
    }

    /// Whether there is nothing to mix: the network has no batch norms.
    pub(super) fn is_empty(&self) -> bool {
        self.source.is_empty()
    }
}
