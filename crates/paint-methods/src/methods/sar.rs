//! SAR: sharpness-aware and reliable entropy minimisation (Niu et al. 2023).
//!
//! Entropy minimisation collapses where gradients are large and minima sharp: unsure samples are left out, the step is
//! taken with the gradient found a little uphill, and a model that became sure of everything is put back to its source.
//! The prediction that counts is the first one.
//!
//! Symbols: `E_i` entropy, `E₀` its margin, `ρ` the length of the climb, `e_m` the moving average of the loss, `e₀` where
//! it counts as collapsed. Equation numbers are the paper's, as the authors' code cites them. For each batch:
//!
//! 1. `z = f(x)`; `R = {i : E_i < E₀}` (Eq. 2); `L₁ = mean over R of E_i`; gradients.
//! 2. Climb: `θ + ρ g / ‖g‖` (Eq. 4).
//! 3. There: `L₂ = mean of E_i over those of R that are still below E₀`; `e_m ← 0.9 e_m + 0.1 L₂`; gradients.
//! 4. A step from `θ` with these.
//! 5. If `e_m < e₀`, back to the source, optimizer included.
//!
//! # Fidelity
//! - Where no sample is left, the authors' loss is not a number but its gradient is zero, so that momentum still moves the
//!   parameters; so it does here, and `e_m` stays.
//! - `average_after_reset`: the authors' code means to forget `e_m` with a reset and then stores it again: `keep`, the
//!   default. `forget` is what the text and the benchmark library do.
//! - The authors leave out the last three blocks and the final norm of a transformer (`frozen_blocks`) and the last stage
//!   of a ResNet-50, by name; we do by role, and take the last stage of any residual network.
//! - `lr`: momentum SGD 1e-3 at batch 64 for transformers, 2.5e-4 for convolutional networks on ImageNet, 1e-3 at batch 200
//!   on CIFAR. All scaled to 50. The doubled rate for single images is not imitated.

use paint_nn::backbone::Spec;
use paint_nn::params::Trainable;
use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entropy_filter::Entropies;
use crate::entry::{MethodEntry, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::{CIFAR_BATCH, IMAGENET_BATCH, Preset, scaled};
use crate::settings::{is_share, not_negative, read, table};

const NAME: &str = "sar";

/// How much of `e_m` a batch keeps.
const SMOOTHING: f32 = 0.9;

/// What becomes of `e_m` when the model is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Average {
    Keep,
    Forget,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Where the values that are not given come from.
    preset: Preset,
    /// `E₀` as a share of `ln C`.
    e0: f64,
    /// `ρ`.
    rho: f64,
    /// `e₀`: a moving average below it puts the model back.
    reset_below: f64,
    /// What becomes of the moving average then.
    average_after_reset: Average,
    /// How many of a transformer's last blocks stay as they are, and with them the final norm.
    frozen_blocks: usize,
    /// The update rule.
    optimizer: Descent,
    /// Its rate.
    lr: f64,
}

impl Config {
    fn preset(preset: Preset) -> Self {
        let lr = match preset {
            Preset::VitImagenet | Preset::VitCifar10 => scaled(1e-3, IMAGENET_BATCH),
            Preset::CnnImagenet => scaled(2.5e-4, IMAGENET_BATCH),
            Preset::CnnCifar10 => scaled(1e-3, CIFAR_BATCH),
        };
        Self {
            preset,
            e0: 0.4,
            rho: 0.05,
            reset_below: 0.2,
            average_after_reset: Average::Keep,
            frozen_blocks: 3,
            optimizer: Descent::Momentum,
            lr,
        }
    }

    fn read(settings: &toml::Table) -> Result<Self> {
        read(NAME, settings, Self::preset, |c: &Self| {
            vec![
                (not_negative(c.lr), "lr must be 0 or more"),
                (is_share(c.e0), "e0 must lie in [0, 1]"),
                (not_negative(c.rho), "rho must be 0 or more"),
                (c.reset_below.is_finite(), "reset_below must be a finite number"),
            ]
        })
    }

    fn trained(&self, spec: &Spec) -> Trainable {
        let frozen = match spec.stages.as_slice() {
            [.., _, last] => *last,
            _ => self.frozen_blocks,
        };
        let last = Trainable::Blocks(spec.depth.saturating_sub(frozen)..spec.depth);
        Trainable::NormAffine.except(Trainable::Any(vec![last, Trainable::FinalNorm]))
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2302.12400",
    what: "lowers the entropy of sure samples, away from sharp minima, with a way back",
    needs_source: SourceNeed::None,
    presets: Presets::ByNetwork,
    build: |args, settings| Ok(Box::new(Deployed::new(Sar::new(args, Config::read(settings)?)?))),
    resolve: |settings| table(NAME, &Config::read(settings)?),
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
        let trained = config.trained(args.model.spec());
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
        let e0 = self.config.e0;
        // 1. The prediction and its sure samples.
        self.learner.track();
        let z = self.learner.logits(images)?;
        let entropies = Entropies::new(&z, e0)?;
        let z = z.detach();
        let reliable = entropies.reliable(0..z.shape()[0]);
        let loss = entropies.mean_of(&reliable)?;
        let first = self.learner.finite("the mean entropy", loss.item()?)?;
        drop(entropies);
        // 2. The climb, 3. the gradients there, 4. the step.
        let (mut second, mut still) = (0.0, Vec::new());
        self.learner.update_sharpness_aware(self.config.rho, &loss.backward()?, |learner| {
            let entropies = Entropies::new(&learner.logits(images)?, e0)?;
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
        // 5. The way back.
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
