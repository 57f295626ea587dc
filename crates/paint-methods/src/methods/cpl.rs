//! CPL: conjugate pseudo labels (Goyal et al. 2022).
//!
//! The best loss without labels follows from the loss that the source was trained with: its convex conjugate gives
//! the soft label that a prediction stands for. For cross-entropy that label is `softmax(z)`, and the loss is the
//! entropy; for `PolyLoss` it solves a small linear system. The prediction is made after the step.
//!
//! Symbols: `z` logits, `T` temperature, `ε` the weight of `PolyLoss`. For each batch:
//!
//! 1. `z = f(x) / T`.
//! 2. The conjugate loss of `z`, with gradients through the label too.
//! 3. One step on the normalisation layers.
//! 4. The prediction, with the updated layers.
//!
//! # Fidelity
//! - The authors reset the model for each corruption; here it is reset only if the caller does it.
//! - `source_loss`: which loss the source was trained with is a fact about the weights. With cross-entropy, the
//!   default, the method differs from TENT by its optimizer and its order alone. With `poly`, `eps` is 6 on CIFAR and
//!   8 on ImageNet.
//! - `lr`: SGD with Nesterov momentum, 1e-3 (on ImageNet-R the authors use 2.5e-3; set it). The authors adapt batch
//!   norms; on a transformer we take the layer norms.

use paint_nn::loss;
use paint_nn::params::Trainable;
use paint_settings::{Describe as _, above, at_least, choice, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::Step;
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;

const NAME: &str = "cpl";

choice! {
    /// The loss that the source was trained with.
    pub enum SourceLoss {
        /// Cross-entropy.
        CrossEntropy = "cross_entropy",
        /// `PolyLoss`.
        Poly = "poly",
    }
}

settings! {
    /// The settings of CPL.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// The loss that the source was trained with.
        pub source_loss: SourceLoss,
        /// `ε`, the weight of `PolyLoss`; with `source_loss = "poly"` only.
        #[within(at_least(0.0))]
        pub eps: f64,
        /// `T`, the temperature that logits are divided by.
        #[within(above(0.0))]
        #[tuned(logarithmic(0.25, 4.0))]
        pub temperature: f64,
        /// The optimizer.
        pub optimizer: Descent,
        /// Its learning rate.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-1))]
        pub lr: f64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self {
            preset,
            source_loss: SourceLoss::CrossEntropy,
            eps: if preset.is_cifar() { 6.0 } else { 8.0 },
            temperature: 1.0,
            optimizer: Descent::Nesterov,
            lr: 1e-3,
        }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2207.09640",
    what: "minimises the conjugate of the source's training loss by training the normalisation layers",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Cpl::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Cpl {
    config: Config,
    learner: Learner,
}

impl Cpl {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let optimizer = config.optimizer.optimizer(Trainable::NormAffine, config.lr);
        let learner = Learner::new(NAME, args, Trainable::NormAffine, optimizer)?;
        Ok(Self { config, learner })
    }
}

impl Adapt for Cpl {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. The prediction.
        self.learner.track();
        let z = self.learner.logits(images)?.scale((1.0 / self.config.temperature) as f32)?;
        // 2. The conjugate loss.
        let loss = match self.config.source_loss {
            SourceLoss::CrossEntropy => loss::mean_entropy(&z)?,
            SourceLoss::Poly => loss::poly_conjugate(&z, self.config.eps as f32)?.mean_all()?,
        };
        drop(z);
        let value = self.learner.finite("the conjugate loss", loss.item()?)?;
        // 3. One step.
        self.learner.update(&loss.backward()?)?;
        self.learner.freeze();
        // 4. The prediction that counts.
        let logits = self.learner.logits(images)?;
        Ok(Step { logits, scalars: vec![("loss", f64::from(value))], prompt: None })
    }
}
