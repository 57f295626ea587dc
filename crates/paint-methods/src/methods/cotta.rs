//! CoTTA: continual test-time adaptation (Wang et al. 2022).
//!
//! A slowly moving teacher gives better labels than the model itself, even more so averaged over augmented views when
//! the source is unsure. Parameters that are reset to the source at random keep it from being forgotten. The
//! prediction that counts is the teacher's, before the step.
//!
//! Symbols: `θ` student, `θ'` teacher, `z̄` the teacher's logits, `c` the source's mean confidence, `p_th` its
//! threshold, `N` the number of views, `m` the teacher's momentum, `r` the share of parameters that is restored. For
//! each batch:
//!
//! 1. `z = f_θ(x)`.
//! 2. `c = mean_i max softmax(f_source(x_i))`.
//! 3. `z̄` is the mean of the teacher's logits over `N` views if `c < p_th`, otherwise its logits for `x`.
//! 4. `L` = cross-entropy of `z` with `softmax(z̄)`, or its symmetric form; one step on all layers.
//! 5. `θ' ← m θ' + (1 − m) θ`.
//! 6. Each element of `θ` is restored to the source with probability `r`.
//!
//! # Fidelity
//! - `loss`: the authors use the plain form in their CIFAR code and the symmetric one in their ImageNet code; so do the
//!   presets.
//! - `threshold`: 0.92 on CIFAR and 0.1 on ImageNet; `restored`: 0.01 and 0.001.
//! - The CIFAR code makes the views even if it does not use them, which changes nothing.
//! - `optimizer`, `lr`: Adam 1e-3 on CIFAR, SGD with Nesterov momentum 0.01 on ImageNet. A transformer on ImageNet
//!   takes 1e-4, as in `ViDA`, because it collapses at 0.01. For a transformer on CIFAR no rate at a similar batch
//!   size is published; ours is a quarter of the residual networks', since our batches are a quarter of theirs.
//! - Neither the class token nor the position embedding trains, as in the authors' choice of `weight` and `bias`.
//! - A prediction without a step averages the same views that the next step would use.

use std::sync::Arc;

use paint_nn::backbone::Request;
use paint_nn::loss;
use paint_nn::params::Trainable;
use paint_settings::{Describe as _, at_least, between, choice, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::draws::{RestoreDraws, ViewDraws, padded_views};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;
use crate::teacher::Teacher;

const NAME: &str = "cotta";

/// Pixels times features that go through a GPU at once, over all views: 32 views of 50 small images with 64 features.
const TOGETHER: usize = 32 * 50 * 32 * 32 * 64;

choice! {
    /// The loss between student and teacher.
    pub enum TeacherLoss {
        /// Cross-entropy with the teacher's probabilities.
        CrossEntropy = "cross_entropy",
        /// Its mean with the same in the other direction.
        Symmetric = "symmetric",
    }
}

settings! {
    /// The settings of CoTTA.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `N`, the number of augmented views that the teacher averages.
        #[within(at_least(1.0))]
        pub views: usize,
        /// `p_th`, the mean confidence of the source below which views are averaged.
        #[within(at_least(0.0))]
        pub threshold: f64,
        /// `m`, the momentum of the teacher.
        #[within(between(0.0, 1.0))]
        pub momentum: f64,
        /// `r`, the share of parameters that a step restores to the source.
        #[within(between(0.0, 1.0))]
        #[tuned(logarithmic(1e-4, 1e-1))]
        pub restored: f64,
        /// The loss between student and teacher.
        pub loss: TeacherLoss,
        /// The optimizer.
        pub optimizer: Descent,
        /// Its learning rate.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-1))]
        pub lr: f64,
    }
}

/// Optimizer and learning rate, which RMT and SANTA share.
pub(super) fn descent(preset: Preset) -> (Descent, f64) {
    match preset {
        Preset::VitImagenet => (Descent::Nesterov, 1e-4),
        Preset::CnnImagenet => (Descent::Nesterov, 0.01),
        Preset::VitCifar10 => (Descent::Adam, 2.5e-4),
        Preset::CnnCifar10 => (Descent::Adam, 1e-3),
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let (optimizer, lr) = descent(preset);
        let (threshold, restored, loss) = if preset.is_cifar() {
            (0.92, 0.01, TeacherLoss::CrossEntropy)
        } else {
            (0.1, 0.001, TeacherLoss::Symmetric)
        };
        Self { preset, views: 32, threshold, momentum: 0.999, restored, loss, optimizer, lr }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2203.13591",
    what: "a slow teacher, averaged over views if the source is unsure; parameters are restored at random",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Cotta::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Cotta {
    config: Config,
    learner: Learner,
    teacher: Teacher,
    views: Arc<dyn ViewDraws>,
    restoring: Arc<dyn RestoreDraws>,
}

impl Cotta {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let optimizer = config.optimizer.optimizer(Trainable::Layers, config.lr);
        let learner = Learner::new(NAME, args, Trainable::Layers, optimizer)?;
        let teacher = Teacher::new(&learner, config.momentum);
        let draws = args.draws();
        Ok(Self { config, learner, teacher, views: draws.views, restoring: draws.restoring })
    }

    /// `z̄`, and whether it was averaged over views (steps 2 and 3).
    fn target(&self, images: &Tensor) -> Result<(Tensor, bool)> {
        let p = self.learner.forward(self.learner.source(), images)?.logits.softmax()?;
        let confidence = p.pick(&p.argmax()?)?.mean_all()?.item()?;
        if f64::from(confidence) >= self.config.threshold {
            return Ok((self.learner.forward(self.teacher.model(), images)?.logits, false));
        }
        Ok((self.averaged(images, self.views_together(images)?)?, true))
    }

    /// The mean of the teacher's logits over `N` views, so many of which go through it together.
    fn averaged(&self, images: &Tensor, together: usize) -> Result<Tensor> {
        let views = self.config.views as u64;
        let mut sum: Option<Tensor> = None;
        let end = (self.learner.step() + 1) * views;
        for first in (end - views..end).step_by(together) {
            let numbers = first..end.min(first + together as u64);
            let count = (numbers.end - numbers.start) as usize;
            let views = padded_views(self.views.as_ref(), numbers, images)?;
            // Batch norms see each view alone.
            let request = Request { batch_size: Some(images.shape()[0]), ..self.learner.request() };
            let z = self.teacher.model().forward(&views, &request)?.logits;
            let [rows, classes] = z.dims2("logits")?;
            let z = z.reshape([count, rows / count, classes])?.sum(0)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&z)?,
                None => z,
            });
        }
        let sum = sum.expect("views is above 0: the settings are checked");
        Ok(sum.scale(1.0 / views as f32)?)
    }

    /// How many views that is; on the CPU one fills the cache.
    fn views_together(&self, images: &Tensor) -> Result<usize> {
        let [b, _, h, w] = images.dims4("images")?;
        let one = b * h * w * self.learner.spec().feature_dim;
        let on_cpu = images.device().memory().is_none();
        Ok(if on_cpu { 1 } else { (TOGETHER / one.max(1)).max(1) })
    }

    /// Step 6.
    fn restore(&mut self) -> Result<()> {
        let (step, share) = (self.learner.step(), self.config.restored);
        let draws = self.restoring.as_ref();
        self.learner.replace(|number, value, source| {
            let places = draws.restored(step, number, value.elem_count(), share);
            Ok(value.restore(source, &places)?)
        })
    }
}

impl Adapt for Cotta {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // Steps 2 and 3 come before 1, so that no activations wait in memory while the views are made.
        let (target, averaged) = self.target(images)?;
        // 1. The student.
        self.learner.track();
        let z = self.learner.logits(images)?;
        // 4. The loss and its step.
        let loss = match self.config.loss {
            TeacherLoss::CrossEntropy => loss::cross_entropy_soft(&z, &target.softmax()?)?,
            TeacherLoss::Symmetric => loss::symmetric_cross_entropy(&z, &target)?,
        };
        drop(z);
        let loss = loss.mean_all()?;
        let value = self.learner.finite("the loss", loss.item()?)?;
        self.learner.update(&loss.backward()?)?;
        self.learner.freeze();
        // 5. The teacher follows.
        self.teacher.follow(&self.learner)?;
        // 6. Restoring.
        self.restore()?;
        let scalars = vec![("loss", f64::from(value)), ("averaged", f64::from(u8::from(averaged)))];
        Ok(Step { logits: target, scalars, prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        Ok(self.target(images)?.0)
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("teacher", self.teacher.save());
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.teacher.load(&state.part("teacher"))
    }
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::cifar_resnet::{CifarResnetConfig, CifarVariant};
    use paint_nn::backbone::{Backbone as _, BnMode, BuildOptions, Weights};
    use paint_rng::Seed;
    use paint_tensor::{Device, Tensor};

    use super::*;

    #[test]
    fn views_that_go_through_the_teacher_together_do_not_see_each_other() {
        let variant = CifarVariant::BatchNorm;
        let network = CifarResnetConfig { blocks: 1, width: 4, variant, num_classes: 5 };
        let options = BuildOptions::new(&Device::cpu());
        let mut network = network.build("tiny", Weights::Random(Seed(0)), &options).unwrap();
        network.set_batch_norm(BnMode::Batch);
        let config = Config { views: 4, ..Config::preset(Preset::CnnCifar10) };
        let cotta = Cotta::new(&BuildArgs::new(&network, Seed(0)), config).unwrap();
        let pixels = (0..3 * 3 * 32 * 32).map(|i| (i % 23) as f32 / 23.0).collect();
        let images = Tensor::from_vec(pixels, [3, 3, 32, 32], &Device::cpu()).unwrap();
        let averaged = |together| cotta.averaged(&images, together).unwrap().to_vec().unwrap();
        let alone = averaged(1);
        for together in [2, 3, 4] {
            for (together, alone) in averaged(together).iter().zip(&alone) {
                // Logits of order one behind batch norms that sum in another order.
                assert!((together - alone).abs() < 1e-4, "{together} {alone}");
            }
        }
    }
}
