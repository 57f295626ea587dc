//! TENT: test-time entropy minimisation (Wang et al. 2021).
//!
//! Confident predictions are more often right than unsure ones. Each batch therefore lowers the entropy of its own
//! predictions, by training the scales and offsets of the normalisation layers. The prediction that counts is the one
//! made before the step.
//!
//! Symbols: `z` logits, `H` entropy. For each batch:
//!
//! 1. `z = f(x)`.
//! 2. `L = (1/B) Σ H(z_i)`.
//! 3. One step on the normalisation layers.
//!
//! # Fidelity
//! - The paper resets the model for each corruption. Here it is never reset, as continual adaptation requires, unless
//!   the caller does it.
//! - The authors' code finds batch norms only. On a transformer all layer norms train, as in SAR's comparison.
//! - `optimizer`, `lr`: Adam 1e-3 on CIFAR, SGD with momentum 2.5e-4 on ImageNet. For transformers it is SAR's 1e-3 at
//!   batch size 64, on CIFAR too, because no published rate was found; SAR's rule gives 7.8e-4 at batch size 50.
//! - `loss = "come"` minimises the entropy of an opinion instead (COME, Zhang et al. 2025, arXiv:2410.10894): `C` joins
//!   the evidence `e^z` as doubt, and no gradient flows along `z`. The authors write 1000 for `C` and add 1e-7 to
//!   probabilities; here `C` are the classes that compete, and nothing is added.

use paint_nn::params::Trainable;
use paint_settings::{Describe as _, at_least, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entropy_filter::EntropyLoss;
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::Step;
use crate::preset::{Preset, by_preset, from_64_to_50};
use crate::settings::Settings;

const NAME: &str = "tent";

settings! {
    /// The settings of TENT.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// The entropy that is minimised.
        pub loss: EntropyLoss,
        /// The optimizer.
        pub optimizer: Descent,
        /// Its learning rate.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-1))]
        pub lr: f64,
    }
}

/// Optimizer and learning rate, which ETA and EATA share.
pub(super) fn descent(preset: Preset) -> (Descent, f64) {
    match preset {
        Preset::VitImagenet | Preset::VitCifar10 => (Descent::Momentum, from_64_to_50(1e-3)),
        Preset::CnnImagenet => (Descent::Momentum, 2.5e-4),
        Preset::CnnCifar10 => (Descent::Adam, 1e-3),
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let (optimizer, lr) = descent(preset);
        Self { preset, loss: EntropyLoss::default(), optimizer, lr }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2006.10726",
    what: "minimises the entropy of its predictions by training the normalisation layers",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Tent::new(args, &Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Tent {
    loss: EntropyLoss,
    learner: Learner,
}

impl Tent {
    fn new(args: &BuildArgs<'_>, config: &Config) -> Result<Self> {
        let optimizer = config.optimizer.optimizer(Trainable::NormAffine, config.lr);
        let learner = Learner::new(NAME, args, Trainable::NormAffine, optimizer)?;
        Ok(Self { loss: config.loss, learner })
    }
}

impl Adapt for Tent {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. The prediction.
        self.learner.track();
        let z = self.learner.logits(images)?;
        // 2. Its entropy.
        let loss = self.loss.of(&z)?.mean_all()?;
        let value = self.learner.finite("the mean entropy", loss.item()?)?;
        // 3. One step.
        self.learner.update(&loss.backward()?)?;
        Ok(Step { logits: z.detach(), scalars: vec![("loss", f64::from(value))], prompt: None })
    }
}
