//! T3A: a classifier made of the stream's own features (Iwasawa and Matsuo 2021).
//!
//! The rows of the classifier are the first templates of the classes. Features that were predicted with the least
//! entropy join them, and the mean of a class's templates replaces its row. Nothing trains. The prediction that counts
//! is made with the templates that the batch is part of.
//!
//! Symbols: `h` the feature that the classifier reads, `z = W h + b` the source's logits, `S_k` the templates of class
//! `k`, `M` their most. For each batch:
//!
//! 1. `h`, `z`, and for each image `ŷ = argmax z` and the entropy `H(z)`.
//! 2. `h` joins `S_ŷ`; of each `S_k` the `M` of least entropy stay.
//! 3. `w_k = Σ_{s ∈ S_k} s / ‖s‖`, and the prediction is `h · w_k / ‖w_k‖`.
//!
//! Before the first batch each row of `W` is a template of the class that it is itself predicted as.
//!
//! # Fidelity
//! - `supports` is `M`. The paper chooses it by validation among 1, 5, 20, 50, 100 and all, per dataset; 20 is the
//!   value of later comparisons on ImageNet-C. "All" is left out, because it has no bound.
//! - The prediction has no bias and the scale of `‖h‖`, as in the authors' code (matsuolab/T3A).
//! - Where no row is predicted as a class, it has no template, and its logit is 0 until one comes; as in that code.
//! - Batch norms use the statistics of training, as in that code.

use std::sync::Arc;

use paint_nn::backbone::{BnMode, Features};
use paint_nn::loss;
use paint_settings::{Describe as _, at_least, logarithmic, settings};
use paint_tensor::Tensor;

use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::head::Head;
use crate::learner::Learner;
use crate::method::{State, Step, vector};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;
use crate::{Error, Result};

const NAME: &str = "t3a";

settings! {
    /// The settings of T3A.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `M`, the most templates of a class.
        #[within(at_least(1.0))]
        #[tuned(logarithmic(1.0, 100.0))]
        pub supports: usize,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self { preset, supports: 20 }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "OpenReview:e_yvNqkJKAW",
    what: "replaces the classifier by the mean of its confident features, class by class",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: true,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(T3a::new(args, &Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

/// One template.
#[derive(Clone)]
struct Support {
    entropy: f32,
    /// `s / ‖s‖`.
    direction: Arc<[f32]>,
}

#[derive(Clone)]
struct T3a {
    learner: Learner,
    /// `M`.
    most: usize,
    /// `S_k` by class, the least entropy first.
    supports: Vec<Vec<Support>>,
}

impl T3a {
    fn new(args: &BuildArgs<'_>, config: &Config) -> Result<Self> {
        let learner = Learner::frozen(args).with_batch_norm(BnMode::Running);
        let head = Head::of(NAME, args.model, args.classes)?;
        let z = head.logits(&head.weight)?;
        let supports = vec![Vec::new(); args.num_classes()];
        let mut new = Self { learner, most: config.supports, supports };
        new.join(&head.weight, &z)?;
        Ok(new)
    }

    /// Step 2, for features `[N, D]` and logits `[N, C]`.
    fn join(&mut self, features: &Tensor, logits: &Tensor) -> Result<()> {
        let [_, width] = features.dims2("features")?;
        let directions = features.l2_normalize()?.to_vec()?;
        let entropies = loss::entropy(logits)?.to_vec()?;
        let classes = logits.argmax()?;
        for ((direction, entropy), &class) in directions.chunks(width).zip(entropies).zip(&classes)
        {
            self.supports[class].push(Support { entropy, direction: direction.into() });
        }
        for class in classes {
            let supports = &mut self.supports[class];
            supports.sort_by(|a, b| a.entropy.total_cmp(&b.entropy));
            supports.truncate(self.most);
        }
        Ok(())
    }

    /// Step 3.
    fn classify(&self, features: &Features) -> Result<Tensor> {
        let width = self.learner.spec().feature_dim;
        let mut sums = vec![0.0; self.supports.len() * width];
        for (supports, sum) in self.supports.iter().zip(sums.chunks_mut(width)) {
            for support in supports {
                sum.iter_mut().zip(&*support.direction).for_each(|(sum, x)| *sum += x);
            }
        }
        let sums = Tensor::from_vec(sums, [self.supports.len(), width], &self.learner.device())?;
        Ok(features.pooled.matmul(&sums.l2_normalize()?.transpose(0, 1)?)?)
    }
}

impl Adapt for T3a {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        let features = self.learner.forward(self.learner.model(), images)?;
        self.join(&features.pooled, &features.logits)?;
        let held = self.supports.iter().map(Vec::len).sum::<usize>();
        let scalars = vec![("supports", held as f64)];
        Ok(Step { logits: self.classify(&features)?, scalars, prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.classify(&self.learner.forward(self.learner.model(), images)?)
    }

    fn save_rest(&self) -> Result<State> {
        let (device, mut state) = (self.learner.device(), State::default());
        let all = || self.supports.iter().flatten();
        let entropies: Vec<f32> = all().map(|support| support.entropy).collect();
        let directions: Vec<f32> = all().flat_map(|support| support.direction.to_vec()).collect();
        let count = entropies.len();
        let shape = [count, self.learner.spec().feature_dim];
        state.tensors.insert("directions".into(), Tensor::from_vec(directions, shape, &device)?);
        state.tensors.insert("entropies".into(), Tensor::from_vec(entropies, [count], &device)?);
        for (class, supports) in self.supports.iter().enumerate() {
            state.counters.insert(format!("supports/{class:05}"), supports.len() as u64);
        }
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        let mut counts = Vec::with_capacity(self.supports.len());
        for class in 0..self.supports.len() {
            let count = state.counter(&format!("supports/{class:05}"))?;
            if count > self.most as u64 {
                let expected = format!("at most {} templates of class {class}", self.most);
                return Err(Error::State { expected, found: count.to_string() });
            }
            counts.push(count as usize);
        }
        let (count, width) = (counts.iter().sum::<usize>(), self.learner.spec().feature_dim);
        let entropies = vector(state, "entropies", count)?;
        let directions = vector(state, "directions", count * width)?;
        let pairs = entropies.into_iter().zip(directions.chunks(width));
        let mut all = pairs.map(|(entropy, row)| Support { entropy, direction: row.into() });
        self.supports = counts.iter().map(|&count| all.by_ref().take(count).collect()).collect();
        Ok(())
    }

    fn has_own_classifier(&self) -> bool {
        true
    }
}
