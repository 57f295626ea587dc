//! `RoTTA`: robust statistics, a class-balanced memory and a slow teacher (Yuan et al. 2023).
//!
//! A stream in which neighbours are alike misleads batch norms and every loss on a batch. So batch norms take moving
//! statistics, the student learns from a memory whose predicted classes are balanced, and recent samples count more.
//! The prediction that counts is the teacher's, and one image at a time is as good as a batch.
//!
//! Symbols: `θ` student, `θ'` teacher, `α` the rate of the statistics, `ν` that of the teacher, `N` the capacity of the
//! memory, `A` the age of a sample in images, `x'` an augmented view. For each batch:
//!
//! 1. `z̄ = f_θ'(x)`, where batch norms use the teacher's moving statistics.
//! 2. Each image joins the memory with its class and entropy by `z̄`, if it is worth more than what would have to go
//!    (`balanced_memory.rs`). After every `N_u` images of the stream, steps 3 to 5 for the samples `m` of the memory:
//! 3. `f_θ'(m)` and `f_θ(m')`, where every batch norm uses `(1 − α)` of its network's moving statistics and `α` of
//!    those of the samples, and that mix becomes the moving statistics.
//! 4. `L = (1/|m|) Σ E(A_i) CE(f_θ'(m_i), f_θ(m'_i))` with `E(A) = e^(−A/N) / (1 + e^(−A/N))` ; one step on
//!    the normalisation layers.
//! 5. `θ' ← (1 − ν) θ' + ν θ`.
//!
//! # Fidelity
//! - `capacity` and `update_every` are 64, `alpha` 0.05, `nu` 0.001, and timeliness and uncertainty count alike in the
//!   memory, as in the authors' code (BIT-DA/RoTTA).
//! - A network without batch norms has no statistics to make robust. What is left on a transformer is the memory and
//!   the teacher, with all layer norms training, as in the library of RMT's authors; the paper has no transformer.
//! - `optimizer`, `lr`: Adam 1e-3 in the authors' code, and in that library on ImageNet too. No transformer is
//!   published: it has the same. No rate is scaled with the batch size.
//! - The authors add 1e-6 to probabilities before the logarithm of an uncertainty; here nothing is added.
//! - The views are CoTTA's, as in that library; the authors' own have the same operations.
//! - It takes any stream as it comes, because its memory is for that; `[stream]` leaves it alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use paint_nn::backbone::{Backbone, BnMode, Features, Request, Statistics};
use paint_nn::loss;
use paint_nn::params::Trainable;
use paint_settings::{Describe as _, at_least, between, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::balanced_memory::{Admission, Memory};
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::draws::{ViewDraws, padded_view};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;
use crate::teacher::Teacher;

const NAME: &str = "rotta";

settings! {
    /// The settings of `RoTTA`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `N`, the images of the memory.
        #[within(at_least(1.0))]
        pub capacity: usize,
        /// `N_u`: a step after as many images of the stream.
        #[within(at_least(1.0))]
        pub update_every: u64,
        /// `α`, the rate at which statistics follow the memory.
        #[within(between(0.0, 1.0))]
        #[tuned(logarithmic(0.01, 0.5))]
        pub alpha: f64,
        /// `ν`, the rate at which the teacher follows the student.
        #[within(between(0.0, 1.0))]
        #[tuned(logarithmic(1e-4, 1e-1))]
        pub nu: f64,
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
        let (optimizer, lr) = (Descent::Adam, 1e-3);
        Self { preset, capacity: 64, update_every: 64, alpha: 0.05, nu: 0.001, optimizer, lr }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2303.13899",
    what: "a slow teacher and its student on a class-balanced memory; batch norms with moving statistics",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: true,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Rotta::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Rotta {
    config: Config,
    learner: Learner,
    teacher: Teacher,
    views: Arc<dyn ViewDraws>,
    memory: Memory,
    /// Images of the stream so far.
    images: u64,
}

impl Rotta {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let optimizer = config.optimizer.optimizer(Trainable::NormAffine, config.lr);
        let learner = Learner::new(NAME, args, Trainable::NormAffine, optimizer)?;
        let learner = learner.with_batch_norm(BnMode::Running);
        let teacher = Teacher::new(&learner, 1.0 - config.nu);
        let memory = Memory::new(config.capacity, args.num_classes(), Admission::Quota);
        Ok(Self { config, learner, teacher, views: args.draws().views, memory, images: 0 })
    }

    /// Steps 3 to 5. Gives the loss.
    fn learn(&mut self) -> Result<f32> {
        let (images, ages) = self.memory.lesson()?;
        // 3. Both networks, with robust statistics.
        let alpha = self.config.alpha as f32;
        let number = self.images / self.config.update_every - 1;
        let view = padded_view(self.views.as_ref(), number, &images)?;
        let classes = self.learner.classes();
        let target = robust(self.teacher.model_mut(), &images, classes.as_deref(), alpha)?.logits;
        self.learner.track();
        let z = robust(self.learner.model_mut(), &view, classes.as_deref(), alpha)?.logits;
        // 4. The loss and its step.
        let timeliness = |age: &u64| {
            let faded = (-(*age as f64) / self.config.capacity as f64).exp();
            (faded / (1.0 + faded)) as f32
        };
        let weights = ages.iter().map(timeliness).collect();
        let weights = Tensor::from_vec(weights, [ages.len()], z.device())?;
        let loss = loss::cross_entropy_soft(&z, &target.softmax()?)?.mul(&weights)?.mean_all()?;
        let value = self.learner.finite("the loss", loss.item()?)?;
        self.learner.update(&loss.backward()?)?;
        self.learner.freeze();
        // 5. The teacher follows.
        self.teacher.follow(&self.learner)?;
        Ok(value)
    }
}

/// A pass in which batch norms mix the statistics of the images into their own, which take the mix over.
fn robust(
    network: &mut dyn Backbone,
    images: &Tensor,
    classes: Option<&[usize]>,
    alpha: f32,
) -> Result<Features> {
    let request = Request { classes, statistics: Statistics::Keep, ..Request::default() };
    network.set_batch_norm(BnMode::Mixed { batch: alpha });
    let features = network.forward(images, &request);
    network.set_batch_norm(BnMode::Running);
    let mut features = features?;
    let mut running: BTreeMap<String, Tensor> = network.running_statistics().into_iter().collect();
    for (name, moments) in std::mem::take(&mut features.statistics) {
        for (what, new) in [("running_mean", moments.mean), ("running_var", moments.variance)] {
            if let Some(value) = running.get_mut(&format!("{name}.{what}")) {
                *value = value.lerp(&new, alpha)?;
            }
        }
    }
    network.set_running_statistics(&running)?;
    Ok(features)
}

/// The statistics of a network's batch norms.
fn statistics(network: &dyn Backbone) -> State {
    State { tensors: network.running_statistics().into_iter().collect(), ..State::default() }
}

impl Adapt for Rotta {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. The prediction.
        let logits = self.predict(images)?;
        let [b, c] = logits.dims2("logits")?;
        // 2. The memory.
        let (classes, entropies) = (logits.argmax()?, loss::entropy(&logits)?.to_vec()?);
        let mut losses = Vec::new();
        for i in 0..b {
            let uncertainty = entropies[i] / (c as f32).ln();
            self.memory.add(images.slice(0, i, 1)?, classes[i], uncertainty);
            self.images = self.images.saturating_add(1);
            if self.images.is_multiple_of(self.config.update_every) {
                losses.push(self.learn()?);
            }
        }
        let mut scalars = vec![("updates", losses.len() as f64)];
        scalars.extend(losses.last().map(|loss| ("loss", f64::from(*loss))));
        Ok(Step { logits, scalars, prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        Ok(self.learner.forward(self.teacher.model(), images)?.logits)
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("teacher", self.teacher.save());
        state.nest("teacher_norms", statistics(self.teacher.model()));
        state.nest("student_norms", statistics(self.learner.model()));
        state.nest("memory", self.memory.save()?);
        state.counters.insert("images".into(), self.images);
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.teacher.load(&state.part("teacher"))?;
        let norms = ["teacher_norms", "student_norms"].map(|part| state.part(part).tensors);
        self.teacher.model_mut().set_running_statistics(&norms[0])?;
        self.learner.model_mut().set_running_statistics(&norms[1])?;
        self.memory.load(&state.part("memory"))?;
        self.images = state.counter("images")?;
        Ok(())
    }
}
