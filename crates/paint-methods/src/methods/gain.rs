//! GAIN: a Gaussian head that learns from the stream without gradients (2026).
//!
//! The network stays frozen. Each class is a normal distribution of features: its mean begins at the class's row of
//! the classifier and moves with the images that are taken for it, and all classes share one diagonal covariance.
//! The classifier's prediction and the Gaussian one are joined image by image, as far as the uncertainty of the class
//! means allows. One forward pass, and `O(K D)` numbers of state.
//!
//! Symbols: `z` features `[D]`, `s` the classifier's probabilities, `K` classes, `c_k` row `k` of the classifier, `κ₀`
//! how many images a row counts for. Sums over the images so far, by class: `n` and `n̂` weights, `U` of `z`, `Q` of
//! squared weights; `V` of `z²` over all classes. For each batch, with the sums from before it (in the first batch
//! `p* = s`):
//!
//! 1. `m_k = (κ₀ c_k + U_k)/κ_k` with `κ = κ₀ + n`; `v = (κ₀ + V - Σ_k U_k²/n_k) / (κ₀ + Σ_k (n_k - Q_k/n_k))`;
//!    `π_k ∝ κ_k / κ̂_k²` with `κ̂ = κ₀ + n̂`: a class that has been predicted often is expected less.
//! 2. `d_k = Σ_j (z - m_k)_j² / v_j`; `q̂_k ∝ π_k exp(-d_k/2)`; and with the uncertainty of the means
//!    `q̄_k ∝ π_k h_k^(-D/2) exp(-d_k/(2 h_k))`, `h_k = 1 + 1/κ_k`.
//! 3. `ξ_k = ln(q̂_k/s_k)`, `G = Σ_k q̄_k ξ_k`; `p* ∝ s^(1-λ) q̂^λ` with the `λ` in [0, 1] for which `E_p*[ξ] = G`.
//! 4. The sums: image `i` counts for class `k` with `w_k = ζ p*_k`, `ζ = s[argmax p*]`; `n̂` with `p*_k`.
//!
//! # Fidelity
//! - Written from the paper's equations; no code was found. All constants (`κ₀ = 3`, the unit covariance and equal
//!   classes at the start) are the paper's, for every preset.
//! - `anchors`: the paper takes a class mean to be at its row of the classifier, `rows`, the default. That is a
//!   mismatch of scale where features are much longer than rows: a class without images then seems far from every
//!   image. `rescaled` is ours: rows are stretched to the length that the features of the first batch have on average.
//! - The logits that are returned are the classifier's plus `λ ξ`; their softmax is `p*`.
//! - `π` expects balanced classes. On a stream sorted by class it pushes the wrong way, as the paper's own does.
//! - On a convolutional network, which the paper does not have, batch norms use the batch.

mod classes;
mod strength;

use paint_settings::{Describe as _, above, choice, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::head::Head;
use crate::learner::Learner;
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;
use classes::Classes;
use strength::strength;

const NAME: &str = "gain";

choice! {
    /// Where class means begin.
    pub enum Anchors {
        /// At the rows of the classifier.
        Rows = "rows",
        /// At the rows, stretched to the mean length of the first batch's features.
        Rescaled = "rescaled",
    }
}

settings! {
    /// The settings of GAIN.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// Accepted as by every baseline; the values are the same for all presets.
        pub preset: Preset,
        /// `κ₀`: as many images a row of the classifier counts for.
        #[within(above(0.0))]
        #[tuned(logarithmic(0.3, 100.0))]
        pub kappa: f64,
        /// Where class means begin.
        pub anchors: Anchors,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self { preset, kappa: 3.0, anchors: Anchors::Rows }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "GAIN, 2026",
    what: "a Gaussian head that learns class means from the stream, joined with the classifier; no gradients",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Gain::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Gain {
    config: Config,
    learner: Learner,
    classes: Classes,
}

/// The joined prediction of a batch.
struct Joined {
    /// `[B, K]`, flat.
    logits: Vec<f32>,
    /// The mean `λ`.
    strength: f64,
}

impl Gain {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let rows = Head::of(NAME, args.model, args.classes)?.weight;
        let classes = Classes::new(rows.to_vec()?, args.num_classes(), config.kappa);
        Ok(Self { config, learner: Learner::frozen(args), classes })
    }

    /// Steps 1 to 3 for features `[B, D]` and logits `[B, K]`, both flat.
    fn joined(&self, features: &[f32], logits: &[f32]) -> Joined {
        let (k, d) = (self.classes.count(), self.classes.width());
        if self.classes.is_empty() {
            return Joined { logits: logits.to_vec(), strength: 0.0 };
        }
        let model = self.classes.model();
        let mut joined = Joined { logits: Vec::with_capacity(logits.len()), strength: 0.0 };
        for (z, row) in features.chunks_exact(d).zip(logits.chunks_exact(k)) {
            let s = log_softmax(row.iter().map(|&z| f64::from(z)));
            let (plain, unsure) = model.posteriors(z);
            let xi: Vec<f64> = plain.iter().zip(&s).map(|(q, s)| q - s).collect();
            let goal = unsure.iter().zip(&xi).map(|(q, xi)| q.exp() * xi).sum();
            let lambda = strength(&s, &xi, goal);
            joined.strength += lambda;
            let moved = row.iter().zip(&xi).map(|(z, xi)| (f64::from(*z) + lambda * xi) as f32);
            joined.logits.extend(moved);
        }
        joined.strength /= (logits.len() / k) as f64;
        joined
    }
}

/// `ln softmax`.
fn log_softmax(z: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let largest = z.clone().fold(f64::NEG_INFINITY, f64::max);
    let total = z.clone().map(|z| (z - largest).exp()).sum::<f64>().ln() + largest;
    z.map(|z| z - total).collect()
}

impl Adapt for Gain {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        let seen = self.learner.forward(self.learner.source(), images)?;
        let (features, source) = (seen.pooled.to_vec()?, seen.logits.to_vec()?);
        let [_, k] = seen.logits.dims2("logits")?;
        let joined = self.joined(&features, &source);
        if self.classes.is_empty() && self.config.anchors == Anchors::Rescaled {
            self.classes.rescale(&features);
        }
        // 4. The sums.
        let d = self.classes.width();
        let rows = joined.logits.chunks_exact(k).zip(source.chunks_exact(k));
        for (z, (joined, source)) in features.chunks_exact(d).zip(rows) {
            let [p, s] = [joined, source].map(|row| log_softmax(row.iter().map(|&z| f64::from(z))));
            let top = (0..k).fold(0, |best, at| if p[at] > p[best] { at } else { best });
            self.classes.add(z, &p, s[top].exp());
        }
        let logits = Tensor::from_vec(joined.logits, seen.logits.shape(), seen.logits.device())?;
        Ok(Step { logits, scalars: vec![("strength", joined.strength)], prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        let seen = self.learner.forward(self.learner.source(), images)?;
        let joined = self.joined(&seen.pooled.to_vec()?, &seen.logits.to_vec()?);
        Ok(Tensor::from_vec(joined.logits, seen.logits.shape(), seen.logits.device())?)
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("classes", self.classes.save()?);
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.classes.load(&state.part("classes"))
    }

    fn has_own_classifier(&self) -> bool {
        true
    }
}
