//! ETA and EATA: entropy minimisation on selected samples, without forgetting (Niu et al. 2022).
//!
//! Unsure samples give noisy gradients, and samples like those seen before give gradients that add nothing. Only
//! confident samples that are unlike the earlier ones are learned from, and the more confident ones weigh more. EATA
//! also pulls every parameter back to its source value, in proportion to its Fisher information. The prediction that
//! counts is the one made before the step.
//!
//! Symbols: `z` logits, `p = softmax(z)`, `E_i` entropy, `E₀` its margin, `m` the moving average of predictions, `d`
//! the margin of similarity, `α` the weight of the Fisher term, `F_j` the Fisher information of parameter `θ_j` (Eq.
//! 9; equation numbers are those that the authors' code cites). For each batch:
//!
//! 1. `z = f(x)`, `E_i = H(z_i)`.
//! 2. Reliable samples: `E_i < E₀` (Eq. 3).
//! 3. Of these, the samples with `|cos(m, p_i)| < d` are kept (Eq. 5); all of them while there is no `m`.
//! 4. `m ← 0.9 m + 0.1 mean(p)` over the kept samples (Eq. 4); the first time, `m` is their mean.
//! 5. `L = (1/n) Σ exp(E₀ − E_i) E_i` over the kept samples, without gradients through the weights.
//! 6. EATA: `L ← L + α Σ F_j (θ_j − θ_j^src)²` (Eq. 8).
//! 7. One step on the normalisation layers, if any sample was kept.
//!
//! # Fidelity
//! - `e0` is 0.4 of `ln C`; `d` is 0.05 on ImageNet and 0.4 on CIFAR-10; `alpha` is 2000 and 1. These are the papers'
//!   values, from the authors' code and, for CIFAR-10, from the library of RMT's authors.
//! - Fisher information: about 2,000 unlabelled source images in batches of 64 (`fisher_images`, `fisher_batch`). The
//!   authors take them from the ImageNet validation set; here the caller provides them.
//! - `optimizer`, `lr` are those of TENT.
//! - On a transformer all layer norms train, as in SAR's comparison.
//! - `loss = "come"` filters, weighs and minimises the entropy of an opinion instead (COME, Zhang et al. 2025,
//!   arXiv:2410.10894), as in TENT.

use paint_nn::params::Trainable;
use paint_settings::{Describe as _, at_least, between, linear, logarithmic, settings};
use paint_tensor::Tensor;

use super::tent::descent;
use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entropy_filter::{Entropies, EntropyLoss, mean_of};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::fisher::Fisher;
use crate::learner::{Descent, Learner};
use crate::method::{State, Step, vector};
use crate::preset::Preset;
use crate::settings::{Settings, read_with};

/// The settings of ETA.
pub type Eta = Config<false>;
/// The settings of EATA.
pub type Eata = Config<true>;

/// The share of `m` that a batch keeps.
const SMOOTHING: f32 = 0.9;

settings! {
    /// The settings of ETA and EATA; `FISHER` says whether the Fisher term takes part, as in EATA.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config<const FISHER: bool> {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `E₀`, the entropy below which a sample is learnt from, as a share of `ln C`.
        #[within(between(0.0, 1.0))]
        #[tuned(linear(0.1, 0.8))]
        pub e0: f64,
        /// `d`, the cosine to the mean prediction below which a sample is learnt from.
        #[within(between(0.0, 1.0))]
        #[tuned(logarithmic(0.02, 1.0))]
        pub d: f64,
        /// `α`, the weight of the Fisher term; 0 is ETA.
        #[within(at_least(0.0))]
        pub alpha: f64,
        /// The Fisher information is estimated from at most this many source images.
        #[within(at_least(1.0))]
        pub fisher_images: usize,
        /// The batch size of that estimate.
        #[within(at_least(1.0))]
        pub fisher_batch: usize,
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

impl<const FISHER: bool> Config<FISHER> {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let (optimizer, lr) = descent(preset);
        let (d, alpha) = if preset.is_cifar() { (0.4, 1.0) } else { (0.05, 2000.0) };
        let alpha = if FISHER { alpha } else { 0.0 };
        let loss = EntropyLoss::default();
        Self {
            preset,
            e0: 0.4,
            d,
            alpha,
            fisher_images: 2000,
            fisher_batch: 64,
            loss,
            optimizer,
            lr,
        }
    }
}

impl<const FISHER: bool> Default for Config<FISHER> {
    fn default() -> Self {
        Self::preset(Preset::default())
    }
}

impl<const FISHER: bool> Settings for Config<FISHER> {
    const METHOD: &'static str = if FISHER { "eata" } else { "eta" };

    fn read(settings: &toml::Table) -> Result<Self> {
        read_with(Self::METHOD, settings, Self::preset, |c: &Self| {
            vec![(FISHER || c.alpha == 0.0, "alpha is not 0: that is eata")]
        })
    }
}

const PAPER: &str = "arXiv:2204.02610";

pub(super) const ENTRY_ETA: MethodEntry = MethodEntry {
    name: Eta::METHOD,
    paper: PAPER,
    what: "TENT on samples that are confident and unlike earlier ones",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Eta::KIND.keys(),
    build: |args, settings| {
        Ok(Box::new(Deployed::new(Selective::new(args, Eta::read(settings)?)?)))
    },
    resolve: |settings| Eta::read(settings)?.table(),
};

pub(super) const ENTRY_EATA: MethodEntry = MethodEntry {
    name: Eata::METHOD,
    paper: PAPER,
    what: "ETA, with each parameter pulled back to the source by its Fisher information",
    needs_source: SourceNeed::Unlabelled,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Eata::KIND.keys(),
    build: |args, settings| {
        Ok(Box::new(Deployed::new(Selective::new(args, Eata::read(settings)?)?)))
    },
    resolve: |settings| Eata::read(settings)?.table(),
};

#[derive(Clone)]
pub(super) struct Selective<const FISHER: bool> {
    config: Config<FISHER>,
    learner: Learner,
    fisher: Option<Fisher>,
    /// `C`.
    classes: usize,
    /// `m`, `C` probabilities.
    mean_prediction: Option<Vec<f32>>,
}

impl<const FISHER: bool> Selective<FISHER> {
    fn new(args: &BuildArgs<'_>, config: Config<FISHER>) -> Result<Self> {
        Self::named(Config::<FISHER>::METHOD, args, config)
    }

    /// The same as part of a method of another name.
    pub(super) fn named(
        method: &'static str,
        args: &BuildArgs<'_>,
        config: Config<FISHER>,
    ) -> Result<Self> {
        let optimizer = config.optimizer.optimizer(Trainable::NormAffine, config.lr);
        let mut learner = Learner::new(method, args, Trainable::NormAffine, optimizer)?;
        let mut fisher = None;
        if config.alpha > 0.0 {
            let images = args.unlabelled(method)?;
            let images = images.slice(0, 0, config.fisher_images.min(images.shape()[0]))?;
            fisher = Some(Fisher::estimate(&mut learner, &images, config.fisher_batch)?);
        }
        Ok(Self { config, learner, fisher, classes: args.num_classes(), mean_prediction: None })
    }

    /// Resets the network to the source, and forgets the predictions so far. The count of batches goes on.
    pub(super) fn begin_again(&mut self) {
        self.learner.restore_source();
        self.mean_prediction = None;
    }

    /// The samples of `reliable` to keep (step 3), and the `m` that they lead to (step 4). `p` holds `[B, C]`
    /// probabilities.
    fn select_new(
        &self,
        reliable: Vec<usize>,
        p: &[f32],
        c: usize,
    ) -> (Vec<usize>, Option<Vec<f32>>) {
        let row = |i: usize| &p[i * c..(i + 1) * c];
        let unlike = |i: &usize| match &self.mean_prediction {
            Some(m) => f64::from(cosine(m, row(*i))).abs() < self.config.d,
            None => true,
        };
        let kept: Vec<usize> = reliable.into_iter().filter(unlike).collect();
        if kept.is_empty() {
            return (kept, self.mean_prediction.clone());
        }
        let mean = |k: usize| kept.iter().map(|&i| row(i)[k]).sum::<f32>() / kept.len() as f32;
        let next = |k: usize| match &self.mean_prediction {
            Some(m) => SMOOTHING * m[k] + (1.0 - SMOOTHING) * mean(k),
            None => mean(k),
        };
        let average = (0..c).map(next).collect();
        (kept, Some(average))
    }
}

impl<const FISHER: bool> Adapt for Selective<FISHER> {
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
        let [b, c] = z.dims2("logits")?;
        let entropies = Entropies::of(self.config.loss, &z, self.config.e0)?;
        // 2. Reliable samples.
        let reliable = entropies.reliable(0..b);
        let mut scalars = vec![("reliable", reliable.len() as f64)];
        // 3. Samples to keep, and 4. their average.
        let (kept, average) = self.select_new(reliable, &z.detach().softmax()?.to_vec()?, c);
        self.mean_prediction = average;
        scalars.push(("kept", kept.len() as f64));
        if !kept.is_empty() {
            // 5. The weighted entropy.
            let weight = |e: &f32| (entropies.margin - e).exp();
            let weights = entropies.values.iter().map(weight).collect();
            let weights = Tensor::from_vec(weights, [b], z.device())?;
            let mut loss = mean_of(&entropies.tensor.mul(&weights)?, &kept)?;
            // 6. The Fisher term.
            if let Some(fisher) = &self.fisher {
                let penalty = fisher.penalty(&self.learner)?.scale(self.config.alpha as f32)?;
                scalars.push(("loss_fisher", f64::from(penalty.item()?)));
                loss = loss.add(&penalty)?;
            }
            scalars.push(("loss", f64::from(self.learner.finite("the loss", loss.item()?)?)));
            // 7. One step.
            self.learner.update(&loss.backward()?)?;
        }
        Ok(Step { logits: z.detach(), scalars, prompt: None })
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        if let Some(m) = &self.mean_prediction {
            let m = Tensor::from_vec(m.clone(), [m.len()], &self.learner.device())?;
            state.tensors.insert("seen".into(), m);
        }
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        let is_there = state.tensors.contains_key("seen");
        let seen = is_there.then(|| vector(state, "seen", self.classes));
        self.mean_prediction = seen.transpose()?;
        Ok(())
    }
}

/// The cosine of two vectors, 0 where one of them is 0.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f32::MIN_POSITIVE)
}
