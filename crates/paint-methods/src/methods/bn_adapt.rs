//! BN adapt: batch norms with the statistics of the test batch (Schneider et al. 2020; Nado et al. 2020).
//!
//! A shifted input shifts the mean and the variance of every channel. A batch norm that takes both from the batch
//! instead of from training removes that part of the shift. Nothing trains, and nothing is remembered.
//!
//! Symbols: `f` the model, `z` logits, `B` images of the batch, `N` images that the statistics of training count for,
//! `μ` and `v` mean and biased variance. For each batch:
//!
//! 1. `z = f(x)`, where every batch norm uses `μ = (N μ_train + B μ_batch) / (N + B)`, and `v` alike.
//!
//! # Fidelity
//! - `source_images` is `N`. 0, the default, takes the batch alone: the form of Nado et al., and the one that every
//!   other method here starts from. Schneider et al. tune `N`; the smaller the batch, the larger it has to be.
//! - A network without batch norms is unchanged, and the method is then the same as `source`.

use paint_nn::backbone::BnMode;
use paint_settings::{Describe as _, at_least, logarithmic, settings};
use paint_tensor::Tensor;

use crate::Result;
use crate::deployed::{Adapt, Deployed};
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::learner::Learner;
use crate::method::Step;
use crate::preset::Preset;
use crate::settings::{Settings, read};

const NAME: &str = "bn_adapt";

settings! {
    /// The settings of BN adapt.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Config {
        /// Accepted as by every baseline; it changes nothing.
        pub preset: Preset,
        /// `N`: the statistics of training count for as many images beside those of the batch.
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1.0, 256.0))]
        pub source_images: f64,
    }
}

impl Settings for Config {
    const METHOD: &'static str = NAME;

    fn read(settings: &toml::Table) -> Result<Self> {
        read(NAME, settings, |preset: Preset| Self { preset, ..Self::default() })
    }
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: NAME,
    paper: "arXiv:2006.16971",
    what: "the source model whose batch norms use the statistics of the batch",
    needs_source: SourceNeed::None,
    runs_on: Networks::BatchNorms,
    works_on_single_images: false,
    presets: Presets::ByNetwork,
    keys: Config::KIND.keys(),
    build: |args, settings| {
        let Config { source_images, .. } = Config::read(settings)?;
        Ok(Box::new(Deployed::new(BnAdapt { source_images, learner: Learner::frozen(args) })))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

#[derive(Clone)]
struct BnAdapt {
    /// `N`.
    source_images: f64,
    learner: Learner,
}

impl Adapt for BnAdapt {
    fn learner(&self) -> &Learner {
        &self.learner
    }

    fn learner_mut(&mut self) -> &mut Learner {
        &mut self.learner
    }

    fn adapt(&mut self, images: &Tensor) -> Result<Step> {
        Ok(Step { logits: self.predict(images)?, scalars: Vec::new(), prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        if self.source_images == 0.0 {
            return self.learner.logits(images);
        }
        let b = images.shape()[0] as f64;
        let mut model = self.learner.model().duplicate();
        model.set_batch_norm(BnMode::Mixed { batch: (b / (self.source_images + b)) as f32 });
        Ok(self.learner.forward(model.as_ref(), images)?.logits)
    }
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::cifar_resnet::{CifarResnetConfig, CifarVariant};
    use paint_nn::backbone::{Backbone as _, BnMode, BuildOptions, Request, Weights};
    use paint_rng::Seed;
    use paint_tensor::{Device, Tensor};
    use toml::{Table, toml};

    use crate::{BuildArgs, by_name};

    /// Six images of training against two of the batch are a quarter of the batch; none are the batch alone, and
    /// beyond all measure they are the source.
    #[test]
    fn statistics_of_training_count_for_as_many_images_as_are_asked_for() {
        let variant = CifarVariant::BatchNorm;
        let config = CifarResnetConfig { blocks: 1, width: 4, variant, num_classes: 5 };
        let options = BuildOptions::new(&Device::cpu());
        let network = config.build("tiny", Weights::Random(Seed(0)), &options).unwrap();
        let pixels = (0..2 * 3 * 32 * 32).map(|i| (i % 23) as f32 / 23.0).collect();
        let images = Tensor::from_vec(pixels, [2, 3, 32, 32], &Device::cpu()).unwrap();
        let logits = |name: &str, settings: &Table| {
            let args = BuildArgs::new(&network, Seed(0));
            let mut method = by_name(name).unwrap().build(&args, settings).unwrap();
            method.step(&images).unwrap().logits.to_vec().unwrap()
        };
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
        let source = logits("source", &Table::new());
        assert!(close(&logits("bn_adapt", &toml! { source_images = 1e12 }), &source));
        let batch = logits("bn_adapt", &Table::new());
        assert!(close(&logits("bn_adapt", &toml! { source_images = 1e-9 }), &batch));
        let between = logits("bn_adapt", &toml! { source_images = 6.0 });
        assert!(!close(&between, &batch) && !close(&between, &source));
        let mut quarter = network.duplicate();
        quarter.set_batch_norm(BnMode::Mixed { batch: 0.25 });
        let quarter = quarter.forward(&images, &Request::default()).unwrap().logits;
        assert_eq!(between, quarter.to_vec().unwrap());
    }
}
