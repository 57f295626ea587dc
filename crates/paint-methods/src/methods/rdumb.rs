//! `RDumb`: ETA that starts again at regular intervals (Press et al. 2023).
//!
//! Adaptation gains most in its first steps, and every method without an anchor collapses sooner or later. A full reset
//! at a fixed interval keeps most of the former and ends the latter, without a test for either.
//!
//! Symbols: `T` the interval in batches, `t` the batch, from 0; the rest as in ETA. For each batch:
//!
//! 1. If `t` is a multiple of `T`, the network and its optimizer are those of the source, and `m` is forgotten.
//! 2. One step of ETA.
//!
//! # Fidelity
//! - `interval` is 1,000 batches, of 64 images in the paper. It counts batches, of whatever size, as in the authors'
//!   code (oripress/CCC).
//! - `e0`: the authors' code has `ln(1000)/2 − 1`, which is 0.355 of `ln C`, where ETA's has 0.4 `ln C`; the library of
//!   RMT's authors takes 0.4 for `RDumb` too. On ImageNet the presets take the former, on CIFAR-10 the latter.
//! - `d` is 0.05 on ImageNet; 0.4 on CIFAR-10 is that library's.
//! - `optimizer`, `lr`: SGD with momentum, 2.5e-4 on ImageNet for every network; Adam 1e-3 at batch size 200 on
//!   CIFAR-10 for residual networks, in that library. No transformer is published on CIFAR-10: it has ImageNet's. No
//!   rate is scaled with the batch size.

use paint_settings::{Describe as _, at_least, between, linear, logarithmic, settings};
use paint_tensor::Tensor;

use super::eata::{Eta, Selective};
use crate::Result;
use crate::build_args::BuildArgs;
use crate::deployed::{Adapt, Deployed};
use crate::entropy_filter::EntropyLoss;
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::{Descent, Learner};
use crate::method::{State, Step};
use crate::preset::{Preset, by_preset};
use crate::settings::Settings;

const NAME: &str = "rdumb";

settings! {
    /// The settings of `RDumb`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// The preset that gives the values of the other keys.
        pub preset: Preset,
        /// `T`: as many batches after each reset comes the next.
        #[within(at_least(1.0))]
        pub interval: u64,
        /// `E₀`, the entropy below which a sample is learnt from, as a share of `ln C`.
        #[within(between(0.0, 1.0))]
        #[tuned(linear(0.1, 0.8))]
        pub e0: f64,
        /// `d`, the cosine to the mean prediction below which a sample is learnt from.
        #[within(between(0.0, 1.0))]
        #[tuned(logarithmic(0.02, 1.0))]
        pub d: f64,
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
        let (e0, d) = if preset.is_cifar() { (0.4, 0.4) } else { (0.355, 0.05) };
        let (optimizer, lr) = match preset {
            Preset::CnnCifar10 => (Descent::Adam, 1e-3),
            _ => (Descent::Momentum, 2.5e-4),
        };
        Self { preset, interval: 1000, e0, d, optimizer, lr }
    }

    fn eta(&self) -> Eta {
        let Self { preset, e0, d, optimizer, lr, .. } = *self;
        Eta { e0, d, loss: EntropyLoss::Entropy, optimizer, lr, ..Eta::preset(preset) }
    }
}

by_preset!(Config, NAME);

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2306.05401",
    what: "ETA with a full reset at regular intervals",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| {
        Ok(Box::new(Deployed::new(RDumb::new(args, &Config::read(settings)?)?)))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct RDumb {
    /// `T`.
    interval: u64,
    eta: Selective<false>,
}

impl RDumb {
    fn new(args: &BuildArgs<'_>, config: &Config) -> Result<Self> {
        let eta = Selective::named(NAME, args, config.eta())?;
        Ok(Self { interval: config.interval, eta })
    }
}

impl Adapt for RDumb {
    fn learner(&self) -> &Learner {
        self.eta.learner()
    }

    fn learner_mut(&mut self) -> &mut Learner {
        self.eta.learner_mut()
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        // 1. The reset.
        let t = self.learner().step();
        let is_reset = t > 0 && t.is_multiple_of(self.interval);
        if is_reset {
            self.eta.begin_again();
        }
        // 2. ETA.
        let mut step = self.eta.adapt(images)?;
        step.scalars.push(("reset", f64::from(u8::from(is_reset))));
        Ok(step)
    }

    fn save_rest(&self) -> Result<State> {
        self.eta.save_rest()
    }

    fn load_rest(&mut self, state: &State) -> Result<()> {
        self.eta.load_rest(state)
    }
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;
    use paint_tensor::{Device, Tensor};
    use toml::{Table, toml};

    use crate::{BuildArgs, Method, by_name, tiny_vit};

    fn logits(method: &mut dyn Method, steps: u64) -> Vec<Vec<f32>> {
        let batch = |seed| {
            let mut rng = Seed(seed).derive("rdumb/images", &[]);
            let pixels = (0..6 * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
            Tensor::from_vec(pixels, [6, 3, 8, 12], &Device::cpu()).unwrap()
        };
        let mut step = |seed| method.step(&batch(seed % 3)).unwrap().logits.to_vec().unwrap();
        (0..steps).map(&mut step).collect()
    }

    fn run(name: &str, interval: Option<i64>, steps: u64) -> Vec<Vec<f32>> {
        let larger = [("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
        let vit = tiny_vit::build(tiny_vit::CONFIG, 3, &larger, &Device::cpu());
        let args = BuildArgs::new(&vit, Seed(0));
        let mut settings = toml! { e0 = 0.9 d = 0.9 lr = 0.01 };
        settings.extend(interval.into_iter().flat_map(|t| toml! { interval = t }));
        logits(&mut *by_name(name).unwrap().build(&args, &settings).unwrap(), steps)
    }

    #[test]
    fn an_interval_without_end_is_eta() {
        assert_eq!(run("rdumb", Some(i64::MAX), 6), run("eta", None, 6));
    }

    #[test]
    fn after_each_interval_it_is_as_at_the_start() {
        let found = run("rdumb", Some(3), 9);
        assert_eq!(found[3..6], found[..3]);
        assert_eq!(found[6..], found[..3]);
        assert_ne!(found[..3], run("rdumb", Some(2), 9)[..3], "a reset in between shows");
        assert_ne!(found[0], found[1]);
    }

    #[test]
    fn an_interval_of_no_batch_is_refused() {
        let resolve = |settings: &Table| by_name("rdumb").unwrap().resolve(settings);
        let message = resolve(&toml! { interval = 0 }).unwrap_err().to_string();
        assert!(message.contains("interval: expected 1 or more, got 0"), "{message}");
    }
}
