//! ROID: certainty and diversity weighting, weight ensembling and prior correction (Marsden et al. 2024), with the
//! Kalman filter of CMF (Lee and Chang 2024) in place of the ensembling on request.
//!
//! Samples that are sure and unlike the usual prediction count most. Their loss is a likelihood ratio, whose gradient
//! does not fade, and a second term asks for the same prediction of an augmented view. After every step the weights are
//! drawn back to the source, and predictions are corrected for the classes that the batch seems to have. The prediction
//! that counts is the one made before the step.
//!
//! Symbols: `z` logits, `p = softmax(z)`, `p̄` the moving average of predictions, `E` entropy, `mm` the map of a
//! batch's values onto 0 to 1, `x'` an augmented view, `θ` the trained weights, `C` classes, `B` images. For each
//! batch:
//!
//! 1. `z = f(x)`.
//! 2. `d_i = mm(1 − cos(p̄, p_i))`; `S = {i : d_i ≥ mean(d)}`; `w_i = exp(3 d_i mm(−E_i))`; then
//!    `p̄ ← 0.9 p̄ + 0.1 mean(p)`, from `p̄ = 1/C`.
//! 3. `L = (1/B) Σ_S w_i SLR(z_i)`, with `SLR = −Σ_c p_c ln(p_c / (1 − p_c))`.
//! 4. `L ← L + (1/B) Σ_S w_i SCE(z_i, f(x'_i))`, the symmetric cross-entropy.
//! 5. One step on the normalisation layers.
//! 6. `θ ← 0.99 θ + 0.01 θ_src` (`filter = "ensemble"`), or the filter (`filter = "cmf"`).
//! 7. `π = mean(p)`, `s = max(1/B, 1/C) / max π`, `π' = (π + s) / (1 + s C)`; the prediction is `z + ln π'`.
//!
//! The filter keeps weights `h`, from the source, and their variance `P`, from 0, and has `q = 0.005 n / 38400`, `n`
//! the trained weights: `h ← 0.99 h + 0.01 θ_src`, `P ← 0.99² P + q`; `β = (1 − q) / (P + 1 − q)`, not below 0.89 and 1
//! from 0.9999 on; `h ← β h + (1 − β) θ`, `P ← β P`; `θ ← 0.99 θ + 0.01 h`.
//!
//! # Fidelity
//! - `prior`: the authors' code (mariodoebler/test-time-adaptation) multiplies *logits* by `π'`, which is `"logits"`.
//!   That ranks classes as published, but leaves nothing of their probabilities. The default, `"log"`, adds `ln π'`:
//!   the correction that multiplies probabilities. The two can differ in their first class: with mixed classes they
//!   were within 0.4 points on two ResNets, but with CIFAR-10-C sorted by class ResNet-26-GN has the published error of
//!   16 % with `"logits"`, and 25 % with `"log"` (`results/field.md`).
//! - A prediction without a step is not corrected: its images need not be the stream's.
//! - `weighting`, `consistency`: the authors' code has a switch for each; without weighting, `S` are all and `w` is 1.
//! - The view is CoTTA's without blur and pixel noise. The authors pad it by reflection, and this by its edge pixels.
//! - The authors' code divides by the batch size of its settings, which differs for a short last batch. Where all
//!   values of a batch are equal, as those of a single image are, `mm` is 0 / 0 there, and 0 here.
//! - `optimizer`, `lr`: SGD with momentum, 2.5e-4 on ImageNet for every network, Adam 1e-3 on CIFAR-10 for residual
//!   networks. No transformer is published there: it has ImageNet's. No rate is scaled with the batch size.
//! - CMF's variant `op`, which draws `θ` to the `h` before its update, is left out; the authors' default is this one.

mod kalman;
mod weights;

use std::sync::Arc;

use paint_nn::loss;
use paint_nn::params::Trainable;
use paint_settings::{
    Describe as _, above, at_least, between, choice, linear, logarithmic, settings,
};
use paint_tensor::Tensor;

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::draws::{ViewDraws, clear_view};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step, vector};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;
use kalman::Kalman;
use weights::{Weights, prior};

const NAME: &str = "roid";

/// The share of `p̄` that a batch keeps.
const SMOOTHING: f32 = 0.9;

choice! {
    /// What keeps the weights near the source.
    pub enum Filter {
        /// ROID's weight ensembling.
        Ensemble = "ensemble",
        /// CMF's Kalman filter.
        Cmf = "cmf",
    }
}

choice! {
    /// How predictions are corrected for the classes of a batch.
    pub enum PriorCorrection {
        /// By the logarithm of the prior.
        Log = "log",
        /// Logits times the prior, as in the authors' code.
        Logits = "logits",
        /// Not at all.
        None = "none",
    }
}

settings! {
    /// The settings of ROID.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// Whether samples are weighted, and the usual ones left out.
        pub weighting: bool,
        /// What the exponent of a weight is divided by; 1/3 makes it the 3 of step 2.
        #[within(above(0.0))]
        pub temperature: f64,
        /// Whether an augmented view has to be predicted alike.
        pub consistency: bool,
        /// What keeps the weights near the source.
        pub filter: Filter,
        /// The share of `θ` that the ensembling keeps of a step.
        #[within(between(0.0, 1.0))]
        #[tuned(linear(0.9, 1.0))]
        pub momentum: f64,
        /// `q` of CMF's filter, for a network of 38,400 trained weights; for others it is in proportion.
        #[within(at_least(0.0))]
        pub noise: f64,
        /// How predictions are corrected for the classes of a batch.
        pub prior: PriorCorrection,
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
        let (optimizer, lr) = match preset {
            Preset::CnnCifar10 => (Descent::Adam, 1e-3),
            _ => (Descent::Momentum, 2.5e-4),
        };
        Self {
            preset,
            weighting: true,
            temperature: 1.0 / 3.0,
            consistency: true,
            filter: Filter::Ensemble,
            momentum: 0.99,
            noise: 0.005,
            prior: PriorCorrection::Log,
            optimizer,
            lr,
        }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2306.00650",
    what: "weighted likelihood ratios and a view that must agree; weights drawn to the source, priors corrected",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Roid::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Roid {
    config: Config,
    learner: Learner,
    views: Arc<dyn ViewDraws>,
    kalman: Option<Kalman>,
    /// `p̄`.
    usual: Vec<f32>,
}

impl Roid {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let optimizer = config.optimizer.optimizer(Trainable::NormAffine, config.lr);
        let learner = Learner::new(NAME, args, Trainable::NormAffine, optimizer)?;
        let kalman = (config.filter == Filter::Cmf).then(|| Kalman::new(&learner, config.noise));
        let c = args.num_classes();
        let usual = vec![1.0 / c as f32; c];
        Ok(Self { config, learner, views: args.draws().views, kalman, usual })
    }

    /// Step 2.
    fn weigh(&mut self, p: &[f32], entropies: &[f32]) -> Weights {
        let c = self.usual.len();
        if !self.config.weighting {
            return Weights::even(entropies.len());
        }
        let weights = Weights::new(&self.usual, p, entropies, self.config.temperature);
        for (k, usual) in self.usual.iter_mut().enumerate() {
            let mean = p.iter().skip(k).step_by(c).sum::<f32>() / entropies.len() as f32;
            *usual = SMOOTHING * *usual + (1.0 - SMOOTHING) * mean;
        }
        weights
    }

    /// Step 6.
    fn draw_back(&mut self) -> Result<()> {
        if let Some(kalman) = &mut self.kalman {
            return kalman.filter(&mut self.learner);
        }
        let share = (1.0 - self.config.momentum) as f32;
        self.learner.replace(|_, value, source| Ok(value.lerp(source, share)?))
    }

    /// Step 7, for probabilities `p` of `z`.
    fn corrected(&self, z: &Tensor, p: &[f32]) -> Result<Tensor> {
        let c = self.usual.len();
        let row = |values: Vec<f32>| Tensor::from_vec(values, [1, c], z.device());
        Ok(match self.config.prior {
            PriorCorrection::Log => z.add(&row(prior(p, c).iter().map(|p| p.ln()).collect())?)?,
            PriorCorrection::Logits => z.mul(&row(prior(p, c))?)?,
            PriorCorrection::None => z.clone(),
        })
    }
}

impl Adapt for Roid {
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
        let [b, _] = z.dims2("logits")?;
        let p = z.detach().softmax()?.to_vec()?;
        // 2. The weights.
        let weights = self.weigh(&p, &loss::entropy(&z.detach())?.to_vec()?);
        let kept = weights.kept();
        let of = |values: Vec<f32>| Tensor::from_vec(values, [kept.len()], z.device());
        let weights = of(kept.iter().map(|&i| weights.values[i]).collect())?;
        let weighted = |each: &Tensor| each.mul(&weights)?.sum_all()?.scale(1.0 / b as f32);
        // 3. The likelihood ratios.
        let of_kept = z.gather(&kept)?;
        let mut loss = weighted(&loss::soft_likelihood_ratio(&of_kept)?)?;
        // 4. The view.
        if self.config.consistency {
            let view =
                clear_view(self.views.as_ref(), self.learner.step(), &images.gather(&kept)?)?;
            let z_view = self.learner.logits(&view)?;
            loss = loss.add(&weighted(&loss::symmetric_cross_entropy(&z_view, &of_kept)?)?)?;
        }
        let value = self.learner.finite("the loss", loss.item()?)?;
        // 5. One step, and 6. back towards the source.
        self.learner.update(&loss.backward()?)?;
        self.learner.freeze();
        self.draw_back()?;
        // 7. The prior.
        let logits = self.corrected(&z.detach(), &p)?;
        let scalars = vec![("loss", f64::from(value)), ("kept", kept.len() as f64)];
        Ok(Step { logits, scalars, prompt: None })
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        let usual =
            Tensor::from_vec(self.usual.clone(), [self.usual.len()], &self.learner.device())?;
        state.tensors.insert("usual".into(), usual);
        if let Some(kalman) = &self.kalman {
            state.nest("kalman", kalman.save());
        }
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.usual = vector(state, "usual", self.usual.len())?;
        if let Some(kalman) = &mut self.kalman {
            kalman.load(&state.part("kalman"))?;
        }
        Ok(())
    }
}
