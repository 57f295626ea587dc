//! Streams as they come: single images, short batches and runs of one class, for every method.
//!
//! Methods are made for batches of fifty images with mixed classes. A [`Stream`] stands between such a method and what
//! a camera or a folder gives it. `B` is [`Config::buffer`].
//!
//! 1. A batch of at least `B/2` images with mixed classes goes to the method as it is.
//! 2. Fewer images are predicted at once with the method's present state, and kept; when `B` new ones have come, the
//!    method makes one step on them. A network whose batch norms use the batch sees a single image together with the
//!    images before it.
//! 3. A test for class correlation looks at the predictions (`prior.rs`). While it holds, the method learns from a
//!    class-balanced memory in place of the stream, or not at all while that memory or the last hundreds of
//!    predictions have too few classes,
//! 4. and, with [`Config::prior`], predictions become `z/T + w ln(K π)`, with `π` the shares of the classes among the
//!    last `B` images by expectation and maximisation; `w` grows with the share of neighbours of one class beyond
//!    chance, and is 1 from 0.3 on.
//!
//! A method that says that it [takes any stream](Method::takes_any_stream) is left alone.

pub(crate) mod prior;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use paint_nn::backbone::{Backbone, Spec};
use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::balanced_memory::{Admission, Memory};
use crate::build_args::BuildArgs;
use crate::method::{Method, Predictor, State, Step};
use crate::report::Report;
use crate::{Error, Result, images, without};
use prior::Correlation;

/// Where the state of a [`Stream`] lies beside that of its method.
pub(crate) const PART: &str = "stream";

/// The share of neighbours of one class beyond chance from which the prior counts in full.
const CERTAIN: f64 = 0.3;

/// The table `stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `B`: as many new images make a step, where batches are short. Default: 50.
    pub buffer: usize,
    /// Images of the class-balanced memory. Default: 64.
    pub memory: usize,
    /// Whether predictions of a class-correlated stream are corrected for its classes. Default: no. It pays where a
    /// class comes in runs longer than the buffer, and costs where runs are shorter: the frozen embedded model gained
    /// 4.4 points on held-out corruptions sorted by class, and lost 2.6 where 250 images were spread over ten slots.
    pub prior: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { buffer: 50, memory: 64, prior: false }
    }
}

impl Config {
    /// Refuses values without a meaning.
    pub fn check(&self) -> Result<()> {
        let refuse = |why: &str| Err(Error::Config { method: "stream", why: why.to_owned() });
        match (self.buffer, self.memory) {
            (0, _) => refuse("buffer must be 1 or more"),
            (_, 0 | 1) => refuse("memory must be 2 or more"),
            _ => Ok(()),
        }
    }
}

/// A method on a stream as it comes.
pub struct Stream {
    inner: Box<dyn Method>,
    config: Config,
    spec: Spec,
    seen: Seen,
}

/// What is remembered of the stream. A clone is a snapshot.
#[derive(Clone)]
struct Seen {
    correlation: Correlation,
    memory: Memory,
    /// The last images in parts, the oldest first; at least [`Config::buffer`] of them.
    buffer: VecDeque<Tensor>,
    /// The logits of the last [`Config::buffer`] images, row by row.
    window: VecDeque<f32>,
    /// Images since the last step.
    fresh: usize,
}

impl Seen {
    fn new(config: Config, classes: usize) -> Self {
        Self {
            correlation: Correlation::new(classes),
            memory: Memory::new(config.memory, classes, Admission::Room),
            buffer: VecDeque::new(),
            window: VecDeque::new(),
            fresh: 0,
        }
    }

    /// The last images, at most `count`, as one batch.
    fn last(&self, count: usize) -> Result<Tensor> {
        let parts: Vec<&Tensor> = self.buffer.iter().collect();
        let all = Tensor::concat(&parts, 0)?;
        let held = all.shape()[0];
        let count = count.min(held);
        Ok(all.slice(0, held - count, count)?)
    }

    fn push(&mut self, images: &Tensor, keep: usize) {
        self.buffer.push_back(images.clone());
        let size = |part: &Tensor| part.shape()[0];
        let mut held: usize = self.buffer.iter().map(size).sum();
        while let Some(first) = self.buffer.front().map(size)
            && held - first >= keep
        {
            self.buffer.pop_front();
            held -= first;
        }
    }
}

impl Stream {
    /// Puts `inner`, which was built from the same `args`, on a stream.
    pub fn new(inner: Box<dyn Method>, args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        config.check()?;
        let seen = Seen::new(config, args.num_classes());
        Ok(Self { inner, config, spec: args.model.spec().clone(), seen })
    }

    fn try_step(&mut self, images: &Tensor, b: usize) -> Result<Step> {
        let in_runs = self.seen.correlation.holds() || self.seen.correlation.is_concentrated();
        let at_once = 2 * b >= self.config.buffer && !in_runs;
        let mut step = if at_once {
            self.inner.step(images)?
        } else {
            Step { logits: self.present(images, b)?, scalars: Vec::new(), prompt: None }
        };
        self.seen.correlation.observe(&step.logits.argmax()?);
        let correlated = self.seen.correlation.holds();
        step.logits = self.corrected(&step.logits, correlated)?;
        self.remember(images, &step.logits)?;
        self.seen.fresh = if at_once { 0 } else { self.seen.fresh + b };
        if self.seen.fresh >= self.config.buffer {
            let learnt = if self.seen.correlation.is_concentrated() {
                None
            } else if correlated {
                let lesson = self.seen.memory.images()?;
                lesson.map(|lesson| self.inner.lesson(&lesson)).transpose()?
            } else {
                Some(self.inner.step(&self.seen.last(self.config.buffer)?)?)
            };
            if let Some(learnt) = learnt {
                (step.scalars, step.prompt) = (learnt.scalars, learnt.prompt);
            }
            self.seen.fresh = 0;
        }
        step.scalars.push(("correlated", f64::from(u8::from(correlated))));
        Ok(step)
    }

    /// Logits with the present state. Where images of a batch mix, the ones before come along.
    fn present(&self, images: &Tensor, b: usize) -> Result<Tensor> {
        if !self.inner.mixes_images() || b >= self.config.buffer || self.seen.buffer.is_empty() {
            return self.inner.predict(images);
        }
        let before = self.seen.last(self.config.buffer - b)?;
        let logits = self.inner.predict(&Tensor::concat(&[&before, images], 0)?)?;
        Ok(logits.slice(0, before.shape()[0], b)?)
    }

    /// Adds logits to the window, and the prior to logits of a correlated stream.
    fn corrected(&mut self, logits: &Tensor, correlated: bool) -> Result<Tensor> {
        let [b, k] = logits.dims2("logits")?;
        let window = &mut self.seen.window;
        window.extend(logits.to_vec()?);
        window.drain(..window.len().saturating_sub(b.max(self.config.buffer) * k));
        if !correlated || !self.config.prior {
            return Ok(logits.clone());
        }
        // A batch that is large enough tells more of itself than what came before does.
        let rows = if 2 * b >= self.config.buffer { b * k } else { window.len() };
        let rows: Vec<f32> = window.range(window.len() - rows..).copied().collect();
        let weight = (self.seen.correlation.strength() / CERTAIN).min(1.0);
        prior::shifted(logits, &prior::shares(&rows, k), weight)
    }

    fn remember(&mut self, images: &Tensor, logits: &Tensor) -> Result<()> {
        let [_, k] = logits.dims2("logits")?;
        let (classes, p) = (logits.argmax()?, logits.softmax()?.to_vec()?);
        for (at, (row, class)) in p.chunks_exact(k).zip(classes).enumerate() {
            let entropy: f32 = row.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
            self.seen.memory.add(images.slice(0, at, 1)?, class, entropy / (k as f32).ln());
        }
        self.seen.push(images, self.config.buffer);
        Ok(())
    }
}

impl Method for Stream {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        if self.inner.takes_any_stream() {
            return self.inner.step(images);
        }
        let b = images::check(images, &self.spec)?;
        let before = self.seen.clone();
        self.try_step(&images.detach(), b).inspect_err(|_| self.seen = before)
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.inner.predict(images)
    }

    fn predictor(&self) -> Option<Arc<dyn Predictor>> {
        self.inner.predictor()
    }

    fn probe(&self, images: &Tensor) -> Result<Tensor> {
        self.inner.probe(images)
    }

    fn prompt_learner(&self) -> Option<Box<dyn Method>> {
        self.inner.prompt_learner()
    }

    fn reset(&mut self) -> Result<()> {
        self.inner.reset()?;
        self.seen = Seen::new(self.config, self.seen.correlation.classes());
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = self.inner.save()?;
        let mut part = State::default();
        part.nest("correlation", self.seen.correlation.save()?);
        part.nest("memory", self.seen.memory.save()?);
        part.counters.insert("fresh".into(), self.seen.fresh as u64);
        if !self.seen.buffer.is_empty() {
            let images = self.seen.last(self.config.buffer)?;
            let rows: Vec<f32> = self.seen.window.iter().copied().collect();
            let window = Tensor::from_vec(rows, [self.seen.window.len()], images.device())?;
            part.tensors.insert("buffer".into(), images);
            part.tensors.insert("window".into(), window);
        }
        state.nest(PART, part);
        Ok(state)
    }

    /// A state that was saved without a stream begins an empty one.
    fn load(&mut self, state: &State) -> Result<()> {
        let part = state.part(PART);
        let classes = self.seen.correlation.classes();
        let mut seen = Seen::new(self.config, classes);
        if part.counters.is_empty() {
            self.inner.load(state)?;
            self.seen = seen;
            return Ok(());
        }
        seen.correlation = Correlation::load(&part.part("correlation"), classes)?;
        seen.memory.load(&part.part("memory"))?;
        seen.fresh = part.counter("fresh")? as usize;
        if let Some(images) = part.tensors.get("buffer") {
            seen.buffer.push_back(images.clone());
            seen.window = part.tensor("window")?.to_vec()?.into();
        }
        self.inner.load(&without(state, PART))?;
        self.seen = seen;
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        self.inner.trainable()
    }

    fn model(&self) -> Option<&dyn Backbone> {
        self.inner.model()
    }

    fn mixes_images(&self) -> bool {
        self.inner.mixes_images()
    }

    fn set_domain(&mut self, domain: Option<usize>) {
        self.inner.set_domain(domain);
    }

    fn guard(&self) -> Option<&Report> {
        self.inner.guard()
    }
}
