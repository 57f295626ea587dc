//! SANTA: source-anchored, target-aligned adaptation (Chakrabarty et al. 2023).
//!
//! The frozen source anchors the predictions for a sample and for its view, and a contrastive term pulls the features
//! of both towards the nearest class prototype of the source. Only the normalisation layers and a projector train.
//! The prediction that counts is the one made before the step.
//!
//! Symbols: `z`, `f` logits and feature of a sample, `z'`, `f'` those of its view, `z_a` the source's logits, `τ`
//! temperature. For each batch:
//!
//! 1. `z, f` of `x`; `z', f'` of one view of `x`; `z_a` of `x`.
//! 2. `L_sa = mean_i [½ CE(z_a, softmax(z)) + ½ CE(z_a, softmax(z'))]`, with gradients through the softmax.
//! 3. `L_cl`: the supervised contrastive loss over `{prototype, f, f'}` of each sample.
//! 4. One step on `L_sa + L_cl`.
//!
//! # Fidelity
//! - The prototypes need labelled source images once, before deployment: at most `contrast.images`, in batches of
//!   `contrast.batch` (for the authors 100,000 and the batch size of the test).
//! - A class without a source image has no prototype; the authors' code would divide by zero.
//! - `optimizer`, `lr`: Adam 1e-3 at batch size 200 on CIFAR, SGD with Nesterov momentum 0.01 at batch size 64 on
//!   ImageNet. No rate for transformers was found; they take CoTTA's.
//! - On a transformer all layer norms train, as in SAR's comparison.

use std::sync::Arc;

use paint_nn::loss;
use paint_nn::params::Trainable;
use paint_settings::{Describe as _, at_least, logarithmic, settings};
use paint_tensor::Tensor;

use super::cotta::descent;
use crate::Result;
use crate::build_args::BuildArgs;
use crate::contrast::{Contrast, Projection};
use crate::deployed::{Adapt, Deployed};
use crate::draws::{ViewDraws, padded_view};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;

const NAME: &str = "santa";

settings! {
    /// The settings of SANTA.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// Prototypes and projector.
        pub contrast: Projection,
        /// The optimizer, for the projector too.
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
        let (optimizer, lr) = descent(preset);
        Self { preset, contrast: Projection::default(), optimizer, lr }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "OpenReview:V7guVYzvE4",
    what: "stays near the source's predictions and aligns features with its class prototypes",
    needs_source: SourceNeed::Labelled,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| {
        Ok(Box::new(Deployed::new(Santa::new(args, &Config::read(settings)?)?)))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Santa {
    learner: Learner,
    contrast: Contrast,
    views: Arc<dyn ViewDraws>,
}

impl Santa {
    fn new(args: &BuildArgs<'_>, config: &Config) -> Result<Self> {
        let (source, draws) = (args.labelled(NAME)?, args.draws());
        let rule = config.optimizer.optimizer(Trainable::NormAffine, config.lr);
        let learner = Learner::new(NAME, args, Trainable::NormAffine, rule)?;
        let rule = config.optimizer.optimizer(Trainable::All, config.lr);
        let contrast = Contrast::new(&learner, &source, &config.contrast, rule, &*draws.projector)?;
        Ok(Self { learner, contrast, views: draws.views })
    }
}

impl Adapt for Santa {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. Sample, view and anchor.
        let view = padded_view(self.views.as_ref(), self.learner.step(), images)?;
        let anchor = self.learner.forward(self.learner.source(), images)?.logits;
        self.learner.track();
        self.contrast.track();
        let plain = self.learner.forward(self.learner.model(), images)?;
        let viewed = self.learner.forward(self.learner.model(), &view)?;
        // 2. The anchor's loss.
        let held = |z: &Tensor| loss::cross_entropy_soft(&anchor, &z.softmax()?);
        let anchored = held(&plain.logits)?.add(&held(&viewed.logits)?)?.scale(0.5)?.mean_all()?;
        // 3. The contrastive loss.
        let contrastive = self.contrast.loss(&plain.pooled, &viewed.pooled)?;
        // 4. One step.
        let loss = anchored.add(&contrastive)?;
        self.learner.finite("the loss", loss.item()?)?;
        let gradients = loss.backward()?;
        self.learner.update(&gradients)?;
        self.contrast.update(&gradients, &self.learner)?;
        let scalars = vec![
            ("loss_anchor", f64::from(anchored.item()?)),
            ("loss_contrast", f64::from(contrastive.item()?)),
        ];
        Ok(Step { logits: plain.logits.detach(), scalars, prompt: None })
    }

    fn save_rest(&self) -> Result<State> {
        Ok(self.contrast.save())
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.contrast.load(state)
    }

    fn trainable_rest(&self) -> Vec<String> {
        self.contrast.names()
    }
}
