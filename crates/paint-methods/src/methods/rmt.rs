//! RMT: robust mean teacher (Döbler et al. 2023).
//!
//! A symmetric cross-entropy makes a mean teacher robust to its own errors, a contrastive term pulls features towards
//! the source's class prototypes, and labelled source images are replayed so that the model does not drift away from
//! its task. The prediction that counts is the sum of the student's and the teacher's logits before the step.
//!
//! Symbols: `z`, `f` the student's logits and feature, `z'`, `f'` those of a view, `z_t` the teacher's logits, `m` its
//! momentum, `τ` temperature, `λ` the weights of the losses. Before deployment:
//!
//! 1. Class prototypes of the source, and a projector with random weights.
//! 2. Warm-up on source batches: one step each on `SCE(z, z_t)` at a rate that grows from 0, after which the teacher
//!    follows.
//!
//! For each batch:
//!
//! 3. `z, f` of `x`; `z', f'` of one view of `x`; `z_t` of `x`.
//! 4. `L_st = mean_i [½ SCE(z, z_t) + ½ SCE(z', z_t)]`.
//! 5. `L_cl`: the supervised contrastive loss over `{prototype, f, f'}` of each sample.
//! 6. `L_src`: cross-entropy of a labelled source batch, in a forward pass of its own.
//! 7. One step on `λ_st L_st + λ_cl L_cl + λ_src L_src`, after which the teacher follows.
//!
//! # Fidelity
//! - All `λ` are 1. `variant = "source_free"` is the authors' variant without replay (6) and without warm-up (2); its
//!   prototypes still come from labelled source images before deployment.
//! - Warm-up: 50,000 images (`warmup_images`), repeated if the source has fewer.
//! - A new order of the source images is drawn per epoch; the last batch of an epoch is short.
//! - A class without a source image has no prototype; the authors' code would divide by zero.
//! - `optimizer`, `lr`: Adam 1e-3 at batch size 200 on CIFAR, SGD with Nesterov momentum 0.01 at batch size 64 on
//!   ImageNet. No rate for transformers was found; they take CoTTA's.
//! - Neither the class token nor the position embedding trains, as in CoTTA. The authors train every parameter of a
//!   network, which is the same for the networks they use.

use std::sync::Arc;

use paint_nn::loss;
use paint_nn::params::Trainable;
use paint_settings::{Describe as _, at_least, between, choice, logarithmic, settings};
use paint_tensor::Tensor;
use serde::Deserialize;

use super::cotta::descent;
use crate::Result;
use crate::build_args::BuildArgs;
use crate::contrast::{Contrast, Projection};
use crate::deployed::{Adapt, Deployed};
use crate::draws::{OrderDraws, ViewDraws, padded_view};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::Preset;
use crate::settings::{Settings, parse, read_with};
use crate::source_data::Labelled;
use crate::teacher::Teacher;

const NAME: &str = "rmt";

choice! {
    /// Whether source images are available after deployment.
    #[derive(Default)]
    pub enum Variant {
        /// They are, and are replayed.
        #[default]
        Replay = "replay",
        /// They are used for the prototypes only.
        SourceFree = "source_free",
    }
}

settings! {
    /// The settings of RMT.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// Whether source images are replayed.
        pub variant: Variant,
        /// Prototypes and projector.
        pub contrast: Projection,
        /// How many source images the warm-up takes.
        pub warmup_images: usize,
        /// The batch size of warm-up and replay.
        #[within(at_least(1.0))]
        pub source_batch: usize,
        /// `λ_st`, the weight of the loss between student and teacher.
        #[within(at_least(0.0))]
        pub weight_teacher: f64,
        /// `λ_cl`, the weight of the contrastive loss.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(0.1, 10.0))]
        pub weight_contrast: f64,
        /// `λ_src`, the weight of the loss on source images.
        #[within(at_least(0.0))]
        pub weight_source: f64,
        /// `m`, the momentum of the teacher.
        #[within(between(0.0, 1.0))]
        pub momentum: f64,
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
    pub fn preset(preset: Preset, variant: Variant) -> Self {
        let (optimizer, lr) = descent(preset);
        let (warmup_images, weight_source) = match variant {
            Variant::Replay => (50_000, 1.0),
            Variant::SourceFree => (0, 0.0),
        };
        Self {
            preset,
            variant,
            contrast: Projection::default(),
            warmup_images,
            source_batch: 50,
            weight_teacher: 1.0,
            weight_contrast: 1.0,
            weight_source,
            momentum: 0.999,
            optimizer,
            lr,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::preset(Preset::default(), Variant::default())
    }
}

impl Settings for Config {
    const METHOD: &'static str = NAME;

    fn read(settings: &toml::Table) -> Result<Self> {
        #[derive(Deserialize)]
        struct Chosen {
            #[serde(default)]
            variant: Variant,
        }
        let Chosen { variant } = parse(NAME, settings)?;
        let preset = |preset| Self::preset(preset, variant);
        read_with(NAME, settings, preset, |c: &Self| {
            let free = c.warmup_images == 0 && c.weight_source == 0.0;
            vec![(
                c.variant == Variant::Replay || free,
                "the source-free variant has neither warmup_images nor weight_source",
            )]
        })
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2211.13081",
    what: "a mean teacher with symmetric cross-entropy, class prototypes and source replay",
    needs_source: SourceNeed::Labelled,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Rmt::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Rmt {
    config: Config,
    learner: Learner,
    teacher: Teacher,
    contrast: Contrast,
    /// The images to replay.
    source: Option<Labelled>,
    order: Arc<dyn OrderDraws>,
    views: Arc<dyn ViewDraws>,
}

impl Rmt {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let (source, draws) = (args.labelled(NAME)?, args.draws());
        let rule = config.optimizer.optimizer(Trainable::Layers, config.lr);
        let learner = Learner::new(NAME, args, Trainable::Layers, rule)?;
        // 1. Prototypes and projector.
        let rule = config.optimizer.optimizer(Trainable::All, config.lr);
        let contrast = Contrast::new(&learner, &source, &config.contrast, rule, &*draws.projector)?;
        let teacher = Teacher::new(&learner, config.momentum);
        let (order, views) = (draws.order, draws.views);
        let mut rmt = Self { config, learner, teacher, contrast, source: None, order, views };
        rmt.warm_up(&source)?;
        rmt.source = (rmt.config.weight_source > 0.0).then_some(source);
        Ok(rmt)
    }

    /// Steps of the warm-up.
    fn warmup_steps(&self) -> u64 {
        (self.config.warmup_images / self.config.source_batch) as u64
    }

    /// Step 2.
    fn warm_up(&mut self, source: &Labelled) -> Result<()> {
        let steps = self.warmup_steps();
        for number in 0..steps {
            let batch = self.config.source_batch;
            let (images, _) = source.shuffled(self.order.as_ref(), number, batch)?;
            let target = self.learner.forward(self.teacher.model(), &images)?.logits;
            self.learner.set_rate(self.config.lr * (number + 1) as f64 / steps as f64);
            self.learner.track();
            let z = self.learner.logits(&images)?;
            let loss = loss::symmetric_cross_entropy(&z, &target)?.mean_all()?;
            self.learner.finite("the loss of the warm-up", loss.item()?)?;
            self.learner.update(&loss.backward()?)?;
            self.learner.freeze();
            self.teacher.follow(&self.learner)?;
        }
        self.learner.set_rate(self.config.lr);
        Ok(())
    }

    /// Step 6, if source images are replayed.
    fn replay(&self) -> Result<Option<Tensor>> {
        let Some(source) = &self.source else { return Ok(None) };
        let number = self.warmup_steps() + self.learner.step();
        let (images, labels) =
            source.shuffled(self.order.as_ref(), number, self.config.source_batch)?;
        let z = self.learner.logits(&images)?;
        let loss = loss::cross_entropy(&z, &labels)?.mean_all()?;
        Ok(Some(loss.scale(self.config.weight_source as f32)?))
    }
}

impl Adapt for Rmt {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 3. Teacher, sample and view.
        let view = padded_view(self.views.as_ref(), self.learner.step(), images)?;
        let target = self.learner.forward(self.teacher.model(), images)?.logits;
        self.learner.track();
        self.contrast.track();
        let plain = self.learner.forward(self.learner.model(), images)?;
        let viewed = self.learner.forward(self.learner.model(), &view)?;
        let logits = plain.logits.detach().add(&target)?;
        // 4. The teacher's loss.
        let taught = |z: &Tensor| loss::symmetric_cross_entropy(z, &target);
        let taught =
            taught(&plain.logits)?.add(&taught(&viewed.logits)?)?.scale(0.5)?.mean_all()?;
        // 5. The contrastive loss.
        let contrastive = self.contrast.loss(&plain.pooled, &viewed.pooled)?;
        drop((plain, viewed));
        let mut scalars = vec![
            ("loss_teacher", f64::from(taught.item()?)),
            ("loss_contrast", f64::from(contrastive.item()?)),
        ];
        let loss = taught
            .scale(self.config.weight_teacher as f32)?
            .add(&contrastive.scale(self.config.weight_contrast as f32)?)?;
        self.learner.finite("the loss", loss.item()?)?;
        let mut gradients = loss.backward()?;
        // 6. Replay, after the first backward, so that its activations are alone in memory.
        if let Some(loss) = self.replay()? {
            let value = self.learner.finite("the loss of the source batch", loss.item()?)?;
            scalars.push(("loss_source", f64::from(value)));
            gradients.accumulate(loss.backward()?)?;
        }
        // 7. One step, and the teacher.
        self.learner.update(&gradients)?;
        self.learner.freeze();
        self.contrast.update(&gradients, &self.learner)?;
        self.teacher.follow(&self.learner)?;
        Ok(Step { logits, scalars, prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        let target = self.learner.forward(self.teacher.model(), images)?.logits;
        Ok(self.learner.logits(images)?.add(&target)?)
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = self.contrast.save();
        state.nest("teacher", self.teacher.save());
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.contrast.load(state)?;
        self.teacher.load(&state.part("teacher"))
    }

    fn trainable_rest(&self) -> Vec<String> {
        self.contrast.names()
    }
}
