//! BN adapt: batch norms with the statistics of the test batch (Schneider et al. 2020; Nado et al. 2020).
//!
//! A shifted input shifts the mean and the variance of every channel. A batch norm that takes both from the batch
//! instead of from training removes that part of the shift. Nothing trains, and nothing is remembered.
//!
//! Symbols: `f` the model, `z` logits. For each batch:
//!
//! 1. `z = f(x)`, where every batch norm uses the mean and the biased variance of the batch.
//!
//! # Fidelity
//! - Schneider et al. mix the statistics of the batch with those of training in a proportion that they tune (`N`).
//!   This is their `N = 0`, the form that every other method here starts from.
//! - A network without batch norms is unchanged, and the method is then the same as `source`.

use paint_settings::{Describe as _, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::Learner;
use crate::method::Step;
use crate::preset::Preset;
use crate::settings::Settings;

const NAME: &str = "bn_adapt";

settings! {
    /// The settings of BN adapt.
    #[derive(Debug, Clone, PartialEq, Default)]
    #[serde(default)]
    pub struct Config {
        /// Accepted as by every baseline; it changes nothing.
        pub preset: Preset,
    }
}

impl Settings for Config {
    const METHOD: &'static str = NAME;
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2006.16971",
    what: "the source model whose batch norms use the statistics of the batch",
    needs_source: SourceNeed::None,
    runs_on: Networks::BatchNorms,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| {
        Config::read(settings)?;
        Ok(Box::new(Deployed::new(BnAdapt { learner: Learner::frozen(args) })))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct BnAdapt {
    learner: Learner,
}

impl Adapt for BnAdapt {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        Ok(Step { logits: self.predict(images)?, scalars: Vec::new(), prompt: None })
    }
}
