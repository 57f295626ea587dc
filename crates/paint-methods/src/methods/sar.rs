//! SAR: sharpness-aware and reliable entropy minimisation (Niu et al. 2023).
//!
//! Entropy minimisation collapses where gradients are large and minima are sharp. Unsure samples are left out, the
//! step uses the gradient found a little uphill, and a model that has become confident of everything is reset to the
//! source. The prediction that counts is the first one.
//!
//! Symbols: `E_i` entropy, `E₀` its margin, `ρ` the length of the climb, `e_m` the moving average of the loss, `e₀`
//! the value below which the model counts as collapsed. Equation numbers are those that the authors' code cites. For
//! each batch:
//!
//! 1. `z = f(x)`; `R = {i : E_i < E₀}` (Eq. 2); `L₁ = mean over R of E_i`, and its gradient `g`.
//! 2. Climb: `θ + ρ g / ‖g‖` (Eq. 4).
//! 3. There: `L₂` = mean of `E_i` over the samples of `R` that are still below `E₀`, and its gradient;
//!    `e_m ← 0.9 e_m + 0.1 L₂`.
//! 4. A step from `θ` with that gradient.
//! 5. If `e_m < e₀`, the model and its optimizer are reset to the source.
//!
//! # Fidelity
//! - If no sample is left, the authors' loss is NaN but its gradient is zero, so momentum still moves the parameters.
//!   The same happens here, and `e_m` stays.
//! - `average_after_reset`: the authors' code is meant to forget `e_m` with a reset, but stores it again. `keep`, the
//!   default, does the same; `forget` is what the paper and the library of RMT's authors do.
//! - The authors leave out the last three blocks and the final norm of a transformer (`frozen_blocks`) and the last
//!   stage of a ResNet-50, by name. Here it is by role, and the last stage of any residual network.
//! - `lr`: SGD with momentum, 2.5e-4 for convolutional networks on ImageNet and 1e-3 on CIFAR. For transformers the
//!   authors' rule is 1e-3 at batch size 64, in proportion at others: 7.8e-4 at 50. Their doubled rate for single
//!   images is not implemented.
//! - `loss = "come"` filters and minimises the entropy of an opinion instead (COME, Zhang et al. 2025,
//!   arXiv:2410.10894), as in TENT.

use paint_nn::backbone::Spec;
use paint_nn::params::Trainable;
use paint_settings::{Describe as _, at_least, between, choice, linear, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entropy_filter::{Entropies, EntropyLoss};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset, from_64_to_50};
use crate::settings::Settings;

const NAME: &str = "sar";

/// The share of `e_m` that a batch keeps.
const SMOOTHING: f32 = 0.9;

choice! {
    /// What happens to `e_m`, the moving average of the loss, when the model is reset.
    pub enum Average {
        /// It stays.
        Keep = "keep",
        /// It starts anew.
        Forget = "forget",
    }
}

settings! {
    /// The settings of SAR.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `E₀`, the entropy below which a sample is learnt from, as a share of `ln C`.
        #[within(between(0.0, 1.0))]
        #[tuned(linear(0.1, 0.8))]
        pub e0: f64,
        /// `ρ`, the length of the climb before the gradient is taken.
        #[within(at_least(0.0))]
        pub rho: f64,
        /// `e₀`: the model is reset if `e_m`, the moving average of the loss, falls below it.
        pub reset_below: f64,
        /// What happens to `e_m` then.
        pub average_after_reset: Average,
        /// How many of the last blocks of a transformer do not train; nor does its final norm.
        pub frozen_blocks: usize,
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

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let lr = match preset {
            Preset::VitImagenet | Preset::VitCifar10 => from_64_to_50(1e-3),
            Preset::CnnImagenet => 2.5e-4,
            Preset::CnnCifar10 => 1e-3,
        };
        Self {
            preset,
            e0: 0.4,
            rho: 0.05,
            reset_below: 0.2,
            average_after_reset: Average::Keep,
            frozen_blocks: 3,
            loss: EntropyLoss::default(),
            optimizer: Descent::Momentum,
            lr,
        }
    }
}

/// Scales and offsets of the norms, without those of the last `frozen` blocks of a transformer or the last stage of a
/// residual network, and without the final one.
pub(super) fn early_norms(spec: &Spec, frozen: usize) -> Trainable {
    let frozen = match spec.stages.as_slice() {
        [.., _, last] => *last,
        _ => frozen,
    };
    let last = Trainable::Blocks(spec.depth.saturating_sub(frozen)..spec.depth);
    Trainable::NormAffine.except(Trainable::Any(vec![last, Trainable::FinalNorm]))
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2302.12400",
    what: "TENT on confident samples, away from sharp minima, with a reset when it collapses",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Sar::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Sar {
    config: Config,
    learner: Learner,
    /// `e_m`.
    average: Option<f32>,
}

impl Sar {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let trained = early_norms(args.model.spec(), config.frozen_blocks);
        let optimizer = config.optimizer.optimizer(trained.clone(), config.lr);
        Ok(Self { learner: Learner::new(NAME, args, trained, optimizer)?, config, average: None })
    }
}

impl Adapt for Sar {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        let (e0, form) = (self.config.e0, self.config.loss);
        // 1. The prediction and its reliable samples.
        self.learner.track();
        let z = self.learner.logits(images)?;
        let entropies = Entropies::of(form, &z, e0)?;
        let z = z.detach();
        let reliable = entropies.reliable(0..z.shape()[0]);
        let loss = entropies.mean_of(&reliable)?;
        let first = self.learner.finite("the mean entropy", loss.item()?)?;
        drop(entropies);
        // 2. The climb, 3. the gradients there, 4. the step.
        let (mut second, mut still) = (0.0, Vec::new());
        self.learner.update_sharpness_aware(self.config.rho, &loss.backward()?, |learner| {
            let entropies = Entropies::of(form, &learner.logits(images)?, e0)?;
            still = entropies.reliable(reliable.iter().copied());
            let loss = entropies.mean_of(&still)?;
            second = learner.finite("the mean entropy uphill", loss.item()?)?;
            Ok(loss.backward()?)
        })?;
        if !still.is_empty() {
            let next = |e: f32| SMOOTHING * e + (1.0 - SMOOTHING) * second;
            self.average = Some(self.average.map_or(second, next));
        }
        let mut scalars = vec![
            ("loss", f64::from(first)),
            ("loss_uphill", f64::from(second)),
            ("reliable", reliable.len() as f64),
            ("left", (reliable.len() - still.len()) as f64),
        ];
        scalars.extend(self.average.map(|e| ("average", f64::from(e))));
        // 5. The reset.
        let collapsed = self.average.is_some_and(|e| f64::from(e) < self.config.reset_below);
        if collapsed {
            self.learner.restore_source();
            if self.config.average_after_reset == Average::Forget {
                self.average = None;
            }
        }
        scalars.push(("reset", f64::from(u8::from(collapsed))));
        Ok(Step { logits: z, scalars, prompt: None })
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        if let Some(e) = self.average {
            let e = Tensor::full([], e, &self.learner.device())?;
            state.tensors.insert("average".into(), e);
        }
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.average = state.tensors.get("average").map(Tensor::item).transpose()?;
        Ok(())
    }
}
