//! NEO: features re-centred at the origin (Murphy et al. 2026).
//!
//! In a network that is trained to the end the mean feature of clean images lies near the origin. A corruption moves
//! it, and taking the mean of the stream away moves it back. One vector is remembered, nothing trains, and no source
//! data is needed. The prediction that counts is made with the mean that the batch is part of.
//!
//! Symbols: `h` the feature that the classifier reads, `W` and `b` the classifier, `g` the mean of the stream, `a` its
//! rate, `n` the images so far, `B` those of the batch. For each batch:
//!
//! 1. `h = f(x)`.
//! 2. `g ← (1 − a) g + a mean(h)`; with `average = "cumulative"`, `a = B / (n + B)`.
//! 3. `z = W (h − g) + b`.
//!
//! # Fidelity
//! - `average`: the paper's first form is the mean of all images since a domain began, and its authors reset it where
//!   one ends. Their form for streams that change without notice is the moving average with `a = 0.1` (`rate`), from
//!   `g = 0`. The latter is the default, because no method here is told where a domain ends.
//! - The authors' code takes any network with a linear classifier. Batch norms use the statistics of training, as in
//!   the authors' main form.

use paint_nn::backbone::{BnMode, Features};
use paint_settings::{Describe as _, above_to, choice, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::head::Head;
use crate::learner::Learner;
use crate::method::{State, Step, vector};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;

const NAME: &str = "neo";

choice! {
    /// How the mean feature follows the stream.
    pub enum FeatureAverage {
        /// The mean of all images so far.
        Cumulative = "cumulative",
        /// A moving average over batches.
        Moving = "moving",
    }
}

settings! {
    /// The settings of NEO.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// How `g` follows the stream.
        pub average: FeatureAverage,
        /// `a`, the share of a batch in the moving average.
        #[within(above_to(0.0, 1.0))]
        #[tuned(logarithmic(0.01, 1.0))]
        pub rate: f64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        Self { preset, average: FeatureAverage::Moving, rate: 0.1 }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2510.05635",
    what: "takes the mean feature of the stream away before the classifier",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: true,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| Ok(Box::new(Deployed::new(Neo::new(args, Config::read(settings)?)?))),
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct Neo {
    config: Config,
    learner: Learner,
    head: Head,
    /// `g`, `[1, D]`.
    mean: Tensor,
    /// `n`.
    images: u64,
}

impl Neo {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let learner = Learner::frozen(args).with_batch_norm(BnMode::Running);
        let head = Head::of(NAME, args.model, args.classes)?;
        let mean = Tensor::zeros([1, learner.spec().feature_dim], &learner.device())?;
        Ok(Self { config, learner, head, mean, images: 0 })
    }

    /// Step 3.
    fn centred(&self, features: &Features) -> Result<Tensor> {
        self.head.logits(&features.pooled.sub(&self.mean)?)
    }
}

impl Adapt for Neo {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. The features.
        let features = self.learner.forward(self.learner.model(), images)?;
        // 2. Their mean.
        let b = images.shape()[0] as u64;
        let rate = match self.config.average {
            FeatureAverage::Cumulative => b as f64 / self.images.saturating_add(b) as f64,
            FeatureAverage::Moving => self.config.rate,
        };
        let batch = features.pooled.mean(0)?.reshape(self.mean.shape())?;
        self.mean = self.mean.lerp(&batch, rate as f32)?;
        self.images = self.images.saturating_add(b);
        // 3. The prediction.
        Ok(Step { logits: self.centred(&features)?, scalars: Vec::new(), prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.centred(&self.learner.forward(self.learner.model(), images)?)
    }

    fn save_rest(&self) -> Result<State> {
        let mut state = State::default();
        state.tensors.insert("mean".into(), self.mean.clone());
        state.counters.insert("images".into(), self.images);
        Ok(state)
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        let mean = vector(state, "mean", self.mean.elem_count())?;
        self.mean = Tensor::from_vec(mean, self.mean.shape(), &self.learner.device())?;
        self.images = state.counter("images")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::Backbone as _;
    use paint_rng::Seed;
    use paint_tensor::{Device, Tensor};
    use toml::toml;

    use crate::{BuildArgs, by_name, tiny_vit};

    /// `W (h − mean h) + b` has the mean `b`, whatever the network and the images.
    #[test]
    fn the_mean_logit_of_the_first_batch_is_the_bias() {
        let larger = [("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
        let mut vit = tiny_vit::build(tiny_vit::CONFIG, 3, &larger, &Device::cpu());
        let bias = vec![0.5, -1.0, 2.0, 0.0, 0.25];
        let id = vit.params().id("head.bias").unwrap();
        let value = Tensor::from_vec(bias.clone(), [5], &Device::cpu()).unwrap();
        vit.params_mut().set(id, &value).unwrap();
        let mut rng = Seed(1).derive("neo/images", &[]);
        let pixels = (0..6 * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
        let images = Tensor::from_vec(pixels, [6, 3, 8, 12], &Device::cpu()).unwrap();
        for settings in [toml! { average = "cumulative" }, toml! { rate = 1.0 }] {
            let args = BuildArgs::new(&vit, Seed(0));
            let mut method = by_name("neo").unwrap().build(&args, &settings).unwrap();
            let mean = method.step(&images).unwrap().logits.mean(0).unwrap().to_vec().unwrap();
            assert!(mean.iter().zip(&bias).all(|(a, b)| (a - b).abs() < 1e-4), "{mean:?}");
        }
    }
}
