//! The statistics of the batch in place of those of training (Schneider et al. 2020; Nado et al. 2020).
//!
//! A shifted input shifts the mean and variance of every channel, and a batch norm that takes both from the batch undoes
//! that much. Nothing trains and nothing is remembered.
//!
//! For each batch: `z = f(x)`, every batch norm with the batch's mean and biased variance.
//!
//! # Fidelity
//! - Schneider et al. mix the statistics with those of training in a proportion they tune (`N`); this is their `N = 0`,
//!   the form every other method here starts from.
//! - A network without batch norms is left as it is, and the method is then `source`.

use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Presets, SourceNeed};
use crate::learner::Learner;
use crate::method::Step;
use crate::preset::Preset;
use crate::settings::{parse, table};

const NAME: &str = "bn_adapt";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Accepted as every baseline does; there is nothing to set.
    preset: Preset,
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2006.16971",
    what: "the source model with the batch's own statistics in its batch norms",
    needs_source: SourceNeed::None,
    presets: Presets::ByNetwork,
    build: |args, settings| {
        parse::<Config>(NAME, settings)?;
        Ok(Box::new(Deployed::new(BnAdapt { learner: Learner::frozen(args) })))
    },
    resolve: |settings| table(NAME, &parse::<Config>(NAME, settings)?),
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
