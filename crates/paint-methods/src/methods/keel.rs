//! keel, a method of this project: tokens are moved back towards what they are like on clean images, as far as the
//! evidence goes. The forward-only form is one forward pass: no gradient, no parameter changes. In the gradient form a
//! second network learns beside it, and both predict.
//!
//! A corruption shifts the distribution of the tokens after every block. Knowing that distribution on clean images
//! ([`crate::statistics::SourceStatistics`]), a batch of a domain seen so far in `n` images is moved as follows.
//! Letters: `x` a token, `μ_s` its mean on clean images, `m` its mean in the domain, `D` width, `N` patches, `B` batch.
//!
//! 1. Running statistics of the domain, the batch included: `m ← m + (B/n)(m_B - m)`, second moments alike; `n` is
//!    bounded by `memory`, so that a domain may drift.
//! 2. Class tokens, after every block and channel by channel, with `σ` the deviation shrunk as in 5:
//!    `x ← x + w ((x - m) σ_s/σ + μ_s - x)`.
//! 3. The weight, by the positive-part rule of James and Stein: `w = max(0, 1 - e/d)` with
//!    `d = Σ_c (m - μ_s)²_c / C_c / D`, `C` the variance between clean images, and `e = 1/n + 1/n_s` what `d` would
//!    be by chance. Clean images are left alone, and evidence grows with `n`.
//! 4. Patches, after the blocks of the settings, in the `r` leading directions `U` of the clean covariance:
//!    `x ← x + s w (μ_s - m + Uᵀ (A - I) U (x - m))`.
//! 5. `Σ = (n Σ_t + n_v λ) / (n + n_v)`: the domain's covariance in those directions, shrunk towards the clean one,
//!    which is diagonal there: `λ`.
//! 6. `A = R (R Σ R)^(-½) R` with `R = λ^½`: of all maps that take the one covariance to the other that which moves
//!    tokens least. It is made anew when the domain's images have doubled, or grown by two hundred.
//!
//! Which domain? The key of an image is the mean and the log variance of each channel over its patches, of the
//! embedding and of block 0, standardised by clean images and clipped.
//!
//! 7. The mean key `k` of a batch, given domain `j`: `ln p(k|j) = -f/2 (d_j/v_j + ln v_j)`, `d_j` the mean squared
//!    distance to the domain's key, `v_j = s_j (1/B + 1/n_j + 0.03)`, `f = 12`; given a domain not met before,
//!    distance to the clean key and `v = 1/B + 1`. Thresholds follow from the batch size. `s_j` is the variance of the
//!    domain's keys: of a batch's about their mean, or about the domain's key where they are fewer than eight.
//! 8. The domain is the most probable state of a hidden Markov chain that changes once in a thousand images; where
//!    the unknown one is, it is added. Batches below 16 images add one when the last 16 images together say so.
//!    Beyond `capacity` the two nearest domains are joined. One state is that of clean images, with key 0 and
//!    `v = 1/B + 1/n_s + 0.03`: there the frozen model answers, and nothing is learnt. The last `n` images that were
//!    taken for clean are looked at together, with `v = 1/n + 1/n_s + 0.03 B/n` (as above while classes come in
//!    runs), and are a domain of their own where an unknown one fits better by more than a thousand. Images that do
//!    not follow the last ones (a probe) are taken for clean before they are seen.
//!
//! Classes that come in runs shift class tokens as a corruption does, and have to be told apart from it.
//!
//! 9. Equal neighbours among the predictions are counted against what independent draws would give, with a memory
//!    over batches: `z > 3`, and a tenth more than by chance; or the last hundreds are of few classes,
//!    `c < min(K, 8)/2` effective ones. From then on, and before sixteen neighbours have been seen (`c = 1`), class
//!    tokens stay as they are, and the evidence for patches is `e = 0.2/c + 1/n_s`: a stream of one class would be
//!    aligned until nothing of the class is left;
//! 10. from then on predictions become `z/T + ln(K π)` with the shares `π` of the classes in the batch by expectation
//!     and maximisation (Saerens et al. 2002), `T = 1.5`, where those explain the batch better than equal shares do
//!     by more than chance.
//!
//! The gradient form, `form = "gradient"`, leaves all of the above as it is and adds a copy of the network whose
//! first `trained_blocks` blocks `θ` learn. Losses through aligned tokens collapse: an aligned pass is sure of itself
//! whether it is right or not, and the losses only make it surer. So the copy runs without alignment, and the
//! predictions meet.
//!
//! 11. The statistic loss, the mean over blocks of the class tokens' distance and the patches':
//!     `L_stat = mean_c [((m - μ_s)_c / σ_s,c)² + ((s - σ_s)_c / σ_s,c)²]`, `m` and `s` those of the batch.
//! 12. One step on PAINT's losses with it, `L_mi + β L_ic + w_s L_stat`, by an Adam made anew, then a pull to the
//!     source: `θ ← (1 - κ) θ + κ θ_s`. Batches below `fewest_images`, and classes that come in runs (9), take no
//!     step.
//! 13. The prediction is the mean of the logits of both passes, which is that of their log-probabilities up to a
//!     constant for each image. While classes come in runs, it is the aligned pass's alone.
//!
//! Without source statistics there is nothing to align with or to learn from, whatever `form` says, and only the mean
//! logit is moved (`keel/recentre.rs`).
//!
//! 14. On a convolutional network the statistics of batch norms are mixed in place of all that (`keel/batch_norm.rs`),
//!     and both forms are the same. Without batch norms it is `source`.
//!
//! # Where the constants come from
//! All were chosen on four corruptions that no benchmark here uses (speckle noise, Gaussian blur, spatter, saturate)
//! and on conditions of our own (uniform noise, haze, posterised and dim images), never on the fifteen. The presets
//! differ in which patches move and how far: a ViT for 32x32 images gains most from half the way in the first six
//! blocks, where DeiT-Tiny loses, which gains from two fifths of the way after blocks 3 to 6. They differ in the form
//! too: on DeiT-Tiny the network that learns is worth more than alignment, and both together more than either; on the
//! small ViT alignment alone is better than both, at a fraction of the cost.

mod align;
mod batch_norm;
mod config;
mod domain;
mod gradient;
mod keys;
mod memory;
mod recentre;
mod statistic_loss;
mod sums;
#[cfg(test)]
mod tests;
mod transport;

use std::sync::Arc;

use paint_nn::backbone::{Backbone, Request};
use paint_settings::Describe as _;
use paint_tensor::{Device, Tensor};

use crate::build_args::BuildArgs;
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::images::{self, Check};
use crate::method::{Method, Predictor, State, Step};
use crate::settings::Settings;
use crate::stream::prior::{self, Correlation};
use crate::{Error, Result};
use align::{Found, Mode, Reach, Reference};
use batch_norm::{Running, Span};
pub use config::Config;
use config::FormKind;
use gradient::Gradient;
use memory::Memory;
use recentre::Recentre;

const NAME: &str = "keel";
/// At most so much of the variance between images comes with their class; half of it was measured on the embedded
/// model.
const CLASS_SHARE: f64 = 0.2;
/// The part of a state that holds the network that learns.
const LEARNER: &str = "learner";

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "none",
    what: "tokens moved towards clean statistics, as far as evidence goes; with or without a gradient step",
    needs_source: SourceNeed::Statistics,
    runs_on: Networks::All,
    works_on_single_images: true,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Keel::new(args, Config::read(settings)?)?)),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Keel {
    config: Config,
    model: Shared,
    classes: Option<Vec<usize>>,
    form: Form,
    correlation: Correlation,
    step: u64,
}

/// The network; a clone is a duplicate.
struct Shared(Box<dyn Backbone>);

impl Clone for Shared {
    fn clone(&self) -> Self {
        Self(self.0.duplicate())
    }
}

/// What is moved.
#[derive(Clone)]
enum Form {
    /// Tokens of a transformer, and the network that learns in the gradient form.
    Tokens { reference: Arc<Reference>, memory: Memory, gradient: Option<Box<Gradient>> },
    /// The logits of a transformer without source statistics.
    Logits(Recentre),
    /// Statistics of batch norms.
    BatchNorms(Running),
}

impl Keel {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let model = args.frozen_model();
        let classes = args.classes.map(<[usize]>::to_vec);
        let form = if model.vit_config().is_none() {
            Form::BatchNorms(Running::new(&*model))
        } else if let Some(statistics) = config.statistics(args)? {
            statistics.check(&*model)?;
            let gradient = match config.form {
                FormKind::Forward => None,
                FormKind::Gradient => Some(Gradient::new(args, &config, &statistics)?.into()),
            };
            let reference = Reference::new(statistics, &model.params().device())?.into();
            Form::Tokens { reference, memory: Memory::default(), gradient }
        } else {
            Form::Logits(Recentre::new(&*model, classes.as_deref())?)
        };
        Ok(Self {
            config,
            model: Shared(model),
            classes,
            form,
            correlation: Correlation::new(args.num_classes()),
            step: 0,
        })
    }

    /// The network that learns, where one does.
    fn gradient(&self) -> Option<&Gradient> {
        match &self.form {
            Form::Tokens { gradient, .. } => gradient.as_deref(),
            Form::Logits(_) | Form::BatchNorms(_) => None,
        }
    }

    /// Whether classes come in runs (Eq. 9).
    fn in_runs(&self) -> bool {
        self.config.prior && (self.correlation.holds() || self.correlation.is_concentrated())
    }

    /// Whether classes are known to be mixed.
    fn is_mixed(&self) -> bool {
        !self.config.prior || self.correlation.is_known() && !self.in_runs()
    }

    /// How far tokens are aligned.
    fn reach(&self) -> Reach {
        if self.is_mixed() {
            return Reach::Full;
        }
        let classes =
            if self.correlation.is_known() { self.correlation.effective_classes() } else { 1.0 };
        Reach::Patches { draws: classes / CLASS_SHARE }
    }

    /// The images that statistics of batch norms go back to.
    fn span(&self) -> Span {
        Span::new(&self.config, self.is_mixed())
    }

    /// Predicts a batch and learns from it; weights only where `tunes`.
    fn adapt(&mut self, images: &Tensor, check: Check, tunes: bool) -> Result<Step> {
        let correlated = self.in_runs();
        let (reach, span) = (self.reach(), self.span());
        let (model, classes) = (&mut *self.model.0, self.classes.as_deref());
        let (mut scalars, mut read) = (Vec::new(), None);
        let logits = match &mut self.form {
            Form::Tokens { reference, memory, gradient } => {
                let how = (Mode::Learn, reach);
                let embedding = model.embed(images)?;
                let b = check.finish()?;
                let batch = (&embedding, classes);
                let (features, Found { domain, weight, logits }) =
                    align::forward(model, reference, &self.config, memory, batch, how)?;
                scalars.push(("weight", weight));
                scalars.push(("domain", domain.map_or(-1.0, |id| id as f64)));
                scalars.push(("domains", memory.domains.len() as f64));
                match gradient.as_mut().filter(|_| !correlated && domain.is_some()) {
                    None => {
                        read = Some(logits);
                        features.logits
                    }
                    Some(gradient) => {
                        if tunes && b >= self.config.fewest_images {
                            scalars.extend(gradient.tune(&embedding)?);
                        }
                        joined(&features.logits, &gradient.logits(&embedding)?, &self.config)?
                    }
                }
            }
            Form::Logits(recentre) => {
                check.finish()?;
                recentre.step(plain(model, images, classes)?, correlated)?
            }
            Form::BatchNorms(running) if running.is_empty() => {
                check.finish()?;
                plain(model, images, classes)?
            }
            Form::BatchNorms(running) => {
                check.finish()?;
                running.step(model, (&self.config, span), (images, classes))?
            }
        };
        let rows = read.map_or_else(|| logits.to_vec(), Ok)?;
        if let Some(&value) = rows.iter().find(|z| !z.is_finite()) {
            return Err(Error::Diverged { what: "a logit", value, step: self.step });
        }
        let host = Tensor::from_vec(rows, logits.shape(), &Device::cpu())?;
        self.correlation.observe(&host.argmax()?);
        let span = self.span();
        if let Form::BatchNorms(running) = &self.form {
            running.follow(&mut *self.model.0, (&self.config, span))?;
        }
        let correlated = self.in_runs();
        scalars.push(("correlated", f64::from(u8::from(correlated))));
        let logits = if correlated {
            let corrected = prior::corrected(&host)?.to_vec()?;
            Tensor::from_vec(corrected, logits.shape(), logits.device())?
        } else {
            logits
        };
        self.step += 1;
        Ok(Step { logits, scalars, prompt: None })
    }
}

/// The prediction of both passes together (Eq. 13).
fn joined(aligned: &Tensor, learned: &Tensor, config: &Config) -> Result<Tensor> {
    Ok(if config.joint { aligned.lerp(learned, 0.5)? } else { learned.clone() })
}

fn plain(model: &dyn Backbone, images: &Tensor, classes: Option<&[usize]>) -> Result<Tensor> {
    Ok(model.forward(images, &Request { classes, ..Request::default() })?.logits)
}

impl Predictor for Keel {
    fn logits(&self, images: &Tensor) -> Result<Tensor> {
        self.predict(images)
    }
}

impl Method for Keel {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        let check = Check::begin(images, self.model.0.spec())?;
        let before = self.clone();
        self.adapt(&images.detach(), check, true).inspect_err(|_| *self = before)
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        images::check(images, self.model.0.spec())?;
        let (model, classes, images) = (&*self.model.0, self.classes.as_deref(), images.detach());
        match &self.form {
            Form::Tokens { reference, memory, gradient } => {
                let correlated = self.in_runs();
                let (embedding, mut memory) = (model.embed(&images)?, memory.clone());
                let (batch, how) = ((&embedding, classes), (Mode::Look, self.reach()));
                let (features, Found { domain, .. }) =
                    align::forward(model, reference, &self.config, &mut memory, batch, how)?;
                match gradient.as_ref().filter(|_| !correlated && domain.is_some()) {
                    None => Ok(features.logits),
                    Some(gradient) => {
                        joined(&features.logits, &gradient.logits(&embedding)?, &self.config)
                    }
                }
            }
            Form::Logits(recentre) => recentre.apply(&plain(model, &images, classes)?),
            Form::BatchNorms(_) => plain(model, &images, classes),
        }
    }

    fn predictor(&self) -> Option<Arc<dyn Predictor>> {
        Some(Arc::new(self.clone()))
    }

    fn probe(&self, images: &Tensor) -> Result<Tensor> {
        let check = Check::begin(images, self.model.0.spec())?;
        let mut other = self.clone();
        match &mut other.form {
            Form::Tokens { memory, .. } => memory.leave(),
            Form::BatchNorms(running) => running.leave(),
            Form::Logits(_) => {}
        }
        Ok(other.adapt(&images.detach(), check, false)?.logits)
    }

    fn reset(&mut self) -> Result<()> {
        (self.correlation, self.step) = (Correlation::new(self.correlation.classes()), 0);
        match &mut self.form {
            Form::Tokens { memory, gradient, .. } => {
                *memory = Memory::default();
                gradient.iter_mut().for_each(|gradient| gradient.reset());
            }
            Form::Logits(recentre) => recentre.reset(),
            Form::BatchNorms(running) => running.reset(&mut *self.model.0)?,
        }
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = State::default();
        state.counters.insert("step".into(), self.step);
        state.nest("correlation", self.correlation.save()?);
        let form = match &self.form {
            Form::Tokens { memory, gradient, .. } => {
                if let Some(gradient) = gradient {
                    state.nest(LEARNER, gradient.save());
                }
                memory.save()?
            }
            Form::Logits(recentre) => recentre.save()?,
            Form::BatchNorms(running) => running.save(),
        };
        state.nest("form", form);
        Ok(state)
    }

    fn load(&mut self, state: &State) -> Result<()> {
        let mut next = self.clone();
        next.step = state.counter("step")?;
        next.correlation =
            Correlation::load(&state.part("correlation"), next.correlation.classes())?;
        let (part, span) = (state.part("form"), next.span());
        match &mut next.form {
            Form::Tokens { reference, memory, gradient } => {
                *memory = Memory::load(&part, reference.place(), next.config.capacity)?;
                if let Some(gradient) = gradient {
                    gradient.load(&state.part(LEARNER))?;
                }
            }
            Form::Logits(recentre) => recentre.load(&part)?,
            Form::BatchNorms(running) => {
                running.load(&part, &mut *next.model.0, (&next.config, span))?;
            }
        }
        *self = next;
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        self.gradient().map_or_else(Vec::new, Gradient::trainable)
    }

    fn model(&self) -> Option<&dyn Backbone> {
        Some(self.gradient().map_or(&*self.model.0, Gradient::model))
    }

    fn takes_any_stream(&self) -> bool {
        true
    }

    fn corrects_for_classes(&self) -> bool {
        true
    }
}
