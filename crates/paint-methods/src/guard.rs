//! A guard for every method: adaptation that does worse than the frozen model is noticed without labels, and undone.
//!
//! A [`Guard`] holds a method and the frozen source model, and sees what both say of each batch. For each step:
//!
//! 1. A batch in which the frozen model sees one class and little else is not learnt from: such a batch (darkness, one
//!    image again and again, pure noise, one class) teaches collapse.
//! 2. The method makes its step. One that ends in numbers that are not finite, or moves the parameters much further
//!    than the steps before, is undone; steps that stay long are accepted after a few.
//! 3. Signals: `φ`, the share of images given another class where the frozen model is sure; the entropy of the mean
//!    prediction and the share of the most frequent class, both against the frozen model's on the same images, so that
//!    a stream sorted by class raises no alarm.
//! 4. Where they say that the model is broken, the method goes back to its last good snapshot; where that happens again
//!    and again, it is frozen for a while and starts again.
//! 5. The answer to a step is the adapted model's if the step stands and the last steps lost nothing by the estimate
//!    (below). In two cases a gain is asked for: while the frozen model's predictions come in runs of one class
//!    (`stream/prior.rs`), or are of few classes with no estimated gain; and where images are predicted without a step,
//!    there on the batch itself too. Even then the frozen model answers where it is sure, or everywhere where `φ` is
//!    large. Methods are made for mixed classes, and a model that has adapted to one domain may meet another. A method
//!    with a [classifier of its own](Method::has_own_classifier) has to gain always, and no gain of it is believed: the
//!    frozen model answers unless `guard.gain` is 0 or less.
//!
//! The estimated accuracy of both models (`estimate.rs`) has a say in that, and in one more question: where most of
//! what the frozen model is sure of is contradicted, or that model sees few classes, which of the two is wrong?
//!
//! A method that [corrects for the classes that come](Method::corrects_for_classes) may see one class at a time: for
//! such a method points 1, 3 and 5 are left out.

mod config;
mod estimate;
mod judge;
mod signals;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;

use paint_nn::backbone::{Backbone, Features};
use paint_tensor::Tensor;

pub use crate::report::{Account, Acted, Action, Reason, Report};
pub use config::Config;

use crate::build_args::BuildArgs;
use crate::method::{Method, Predictor, State, Step};
use crate::stream::prior::Correlation;
use crate::{Error, Result, images, without};
use judge::{FEW, Judge};
use signals::View;
use watch::Watch;

/// Where the state of a [`Guard`] lies beside that of its method.
pub(crate) const PART: &str = "guard";

/// A method under guard.
pub struct Guard {
    inner: Box<dyn Method>,
    judge: Judge,
    watch: Watch,
    report: Report,
}

/// What became of the method's own step.
struct Attempt {
    /// With what its logits tell; none if the method has no finite answer.
    step: Option<(Step, View)>,
    is_learnt: bool,
    acted: Option<Acted>,
}

impl Guard {
    /// Guards `inner`, which was built from the same `args`.
    pub fn new(inner: Box<dyn Method>, args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        config.check()?;
        let judge = Judge::new(args, config, &*inner);
        Ok(Self { inner, judge, watch: Watch::default(), report: Report::default() })
    }

    fn attempt(
        &mut self,
        images: &Tensor,
        (features, frozen): (&Features, &View),
        b: usize,
    ) -> Result<Attempt> {
        let skip = |reason| Some(Acted { action: Action::Skip, reason });
        if self.watch.is_paused() {
            let acted = self.watch.wait();
            return Ok(Attempt { step: None, is_learnt: false, acted });
        }
        let is_mixed = b < FEW || frozen.top <= self.judge.config.one_class;
        if !is_mixed && !self.judge.is_own {
            return self.unlearnt(images, features, skip(Reason::NoVariety));
        }
        let before = self.inner.save()?;
        let step = match self.inner.step_beside(images, features) {
            Err(Error::Diverged { .. }) => {
                return self.unlearnt(images, features, skip(Reason::NotFinite));
            }
            step => step?,
        };
        let view = View::new(&step.logits)?;
        let reason = if view.is_finite() {
            let moved = watch::distance(&before, &self.inner.save()?)?;
            self.watch.is_jump(moved, self.judge.config.jump).then_some(Reason::Jump)
        } else {
            Some(Reason::NotFinite)
        };
        let Some(reason) = reason else {
            return Ok(Attempt { step: Some((step, view)), is_learnt: true, acted: None });
        };
        self.inner.load(&before)?;
        self.unlearnt(images, features, skip(reason))
    }

    /// The method's answer without a step.
    fn unlearnt(
        &self,
        images: &Tensor,
        features: &Features,
        acted: Option<Acted>,
    ) -> Result<Attempt> {
        let logits = self.inner.predict_beside(images, features)?;
        let view = View::new(&logits)?;
        let is_finite = view.is_finite();
        let step = is_finite.then(|| (Step { logits, scalars: Vec::new(), prompt: None }, view));
        Ok(Attempt { step, is_learnt: false, acted })
    }

    /// A step after whose failure everything is as before.
    fn undoable_step(&mut self, images: &Tensor, is_lesson: bool) -> Result<Step> {
        let b = images::check(images, self.judge.frozen.spec())?;
        let before = (self.watch.clone(), self.judge.clone(), self.report.clone());
        self.try_step(&images.detach(), b, is_lesson)
            .inspect_err(|_| (self.watch, self.judge, self.report) = before)
    }

    /// `is_lesson` images are not the stream's: nothing is estimated from them for the account.
    fn try_step(&mut self, images: &Tensor, b: usize, is_lesson: bool) -> Result<Step> {
        let features = self.judge.source(images)?;
        let frozen = View::new(&features.logits)?;
        self.judge.runs.observe(frozen.predicted());
        let Attempt { step, is_learnt, mut acted } =
            self.attempt(images, (&features, &frozen), b)?;
        let mut answer = None;
        self.report.estimate = match step {
            None => self.judge.estimate(&features, [&frozen; 2])?,
            Some((mut step, adapted)) => {
                let estimate = self.judge.estimate(&features, [&frozen, &adapted])?;
                let gains = estimate.is_some_and(|[frozen, adapted]| adapted > frozen);
                let harm = self.judge.harm([&frozen, &adapted], gains, b);
                let seen = (harm, is_learnt);
                let undone = self.watch.judge(&mut *self.inner, &self.judge.config, seen)?;
                acted = acted.or(undone);
                if harm.is_some() {
                    self.judge.gain = 0.0;
                } else if is_learnt {
                    self.judge.follow(estimate);
                }
                let in_runs = self.judge.in_runs(gains);
                let is_doubted = in_runs || self.judge.has_own_classifier;
                let has_gain = self.judge.has_gain(is_doubted);
                if harm.is_none() && !self.watch.is_fresh() && has_gain {
                    let mut kept = 0;
                    if is_doubted {
                        let both = [(&features.logits, &frozen), (&step.logits, &adapted)];
                        (step.logits, kept) = self.judge.protected(both, in_runs)?;
                    }
                    answer = Some((step, kept));
                }
                estimate
            }
        };
        if is_lesson {
            self.report.estimate = None;
        }
        let (mut step, kept) = answer.unwrap_or_else(|| {
            (Step { logits: features.logits, scalars: Vec::new(), prompt: None }, b)
        });
        self.report.frozen_answer = kept == b;
        self.report.acted = acted;
        self.report.account.count([b, kept], self.report.estimate, acted);
        step.scalars.push(("frozen_answers", kept as f64 / b as f64));
        if let Some([frozen, adapted]) = self.report.estimate {
            step.scalars.push(("estimate_frozen", frozen));
            step.scalars.push(("estimate_adapted", adapted));
        }
        Ok(step)
    }
}

/// One state of a guarded method.
struct Reader {
    inner: Arc<dyn Predictor>,
    judge: Judge,
    is_trusted: bool,
}

impl Predictor for Reader {
    fn logits(&self, images: &Tensor) -> Result<Tensor> {
        let adapted = |frozen: &Features| self.inner.logits_beside(images, frozen);
        self.judge.answer(images, self.is_trusted, adapted)
    }
}

impl Method for Guard {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        self.undoable_step(images, false)
    }

    fn lesson(&mut self, images: &Tensor) -> Result<Step> {
        self.undoable_step(images, true)
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        let adapted = |frozen: &Features| self.inner.predict_beside(images, frozen);
        self.judge.answer(images, self.watch.is_trusted(), adapted)
    }

    fn predictor(&self) -> Option<Arc<dyn Predictor>> {
        let (judge, is_trusted) = (self.judge.clone(), self.watch.is_trusted());
        Some(Arc::new(Reader { inner: self.inner.predictor()?, judge, is_trusted }))
    }

    fn probe(&self, images: &Tensor) -> Result<Tensor> {
        self.judge.answer(images, self.watch.is_trusted(), |_| self.inner.probe(images))
    }

    fn prompt_learner(&self) -> Option<Box<dyn Method>> {
        self.inner.prompt_learner()
    }

    fn reset(&mut self) -> Result<()> {
        self.inner.reset()?;
        (self.watch, self.report) = (Watch::default(), Report::default());
        self.judge.runs = Correlation::new(self.judge.runs.classes());
        self.judge.gain = 0.0;
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = self.inner.save()?;
        let mut part = self.watch.save();
        part.nest("account", self.report.account.save());
        part.nest("runs", self.judge.runs.save()?);
        part.counters.insert("gain".into(), self.judge.gain.to_bits());
        state.nest(PART, part);
        Ok(state)
    }

    /// A state that was saved without a guard begins an empty account.
    fn load(&mut self, state: &State) -> Result<()> {
        let part = state.part(PART);
        let classes = self.judge.runs.classes();
        let (watch, account, runs, gain) = if part.counters.is_empty() {
            (Watch::default(), Account::default(), Correlation::new(classes), 0.0)
        } else {
            let account = Account::load(&part.part("account"))?;
            let runs = Correlation::load(&part.part("runs"), classes)?;
            (Watch::load(&part)?, account, runs, f64::from_bits(part.counter("gain")?))
        };
        self.inner.load(&without(state, PART))?;
        (self.watch, self.judge.runs, self.judge.gain) = (watch, runs, gain);
        self.report = Report { account, ..Report::default() };
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

    fn takes_any_stream(&self) -> bool {
        self.inner.takes_any_stream()
    }

    fn corrects_for_classes(&self) -> bool {
        self.inner.corrects_for_classes()
    }

    fn has_own_classifier(&self) -> bool {
        self.inner.has_own_classifier()
    }

    fn guard(&self) -> Option<&Report> {
        Some(&self.report)
    }
}
