//! TENT: test-time entropy minimisation (Wang et al. 2021).
//!
//! A prediction that is sure is more often right, so each batch lowers the entropy of its own predictions through the
//! scales and offsets of the norms. The prediction that counts is the one before the step.
//!
//! Symbols: `z` logits, `H` entropy. For each batch:
//!
//! 1. `z = f(x)`.
//! 2. `L = (1/B) Σ H(z_i)`.
//! 3. One step on the norms.
//!
//! # Fidelity
//! - The paper starts anew for each corruption; here nothing is reset, as continual adaptation asks, unless the caller
//!   does it.
//! - The authors' code finds batch norms only. On a transformer all layer norms train, as in SAR's comparison.
//! - `optimizer`, `lr`: Adam 1e-3 at batch 200 on CIFAR, momentum SGD 2.5e-4 at batch 64 on ImageNet. The rate for a
//!   transformer is SAR's 1e-3 at batch 64, for CIFAR too, where no published one was found. All scaled to 50.

use paint_nn::loss;
use paint_nn::params::Trainable;
use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::Step;
use crate::preset::{CIFAR_BATCH, IMAGENET_BATCH, Preset, scaled};
use crate::settings::{not_negative, read, table};

const NAME: &str = "tent";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Where the values that are not given come from.
    preset: Preset,
    /// The update rule.
    optimizer: Descent,
    /// Its rate.
    lr: f64,
}

/// The update rule and its rate, which ETA and EATA share.
pub(super) fn descent(preset: Preset) -> (Descent, f64) {
    match preset {
        Preset::VitImagenet | Preset::VitCifar10 => {
            (Descent::Momentum, scaled(1e-3, IMAGENET_BATCH))
        }
        Preset::CnnImagenet => (Descent::Momentum, scaled(2.5e-4, IMAGENET_BATCH)),
        Preset::CnnCifar10 => (Descent::Adam, scaled(1e-3, CIFAR_BATCH)),
    }
}

impl Config {
    fn preset(preset: Preset) -> Self {
        let (optimizer, lr) = descent(preset);
        Self { preset, optimizer, lr }
    }

    fn read(settings: &toml::Table) -> Result<Self> {
        read(NAME, settings, Self::preset, |c: &Self| {
            vec![(not_negative(c.lr), "lr must be 0 or more")]
        })
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2006.10726",
    what: "lowers the entropy of its predictions through the norms",
    needs_source: SourceNeed::None,
    presets: Presets::ByNetwork,
    build: |args, settings| Ok(Box::new(Deployed::new(Tent::new(args, &Config::read(settings)?)?))),
    resolve: |settings| table(NAME, &Config::read(settings)?),
};

#[derive(Clone)]
struct Tent {
    learner: Learner,
}

impl Tent {
    fn new(args: &BuildArgs<'_>, config: &Config) -> Result<Self> {
        let optimizer = config.optimizer.optimizer(Trainable::NormAffine, config.lr);
        Ok(Self { learner: Learner::new(NAME, args, Trainable::NormAffine, optimizer)? })
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
        let loss = loss::mean_entropy(&z)?;
        let value = self.learner.finite("the mean entropy", loss.item()?)?;
        // 3. One step.
        self.learner.update(&loss.backward()?)?;
        Ok(Step { logits: z.detach(), scalars: vec![("loss", f64::from(value))], prompt: None })
    }
}
