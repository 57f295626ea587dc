//! Published settings of the baselines, by kind of network and data.
//!
//! The papers tune with batches of 64 (ImageNet) and 200 (CIFAR); PAINT compares everything at 50. Rates are scaled
//! with the batch size, as the papers themselves do where they change it.

use paint_nn::backbone::Backbone;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::method::{parse, table};
use crate::{Error, Result};

/// The batch size that rates are scaled to.
const BATCH: f64 = 50.0;

/// The batch size of the published ImageNet settings.
pub(crate) const IMAGENET_BATCH: f64 = 64.0;

/// The batch size of the published CIFAR settings.
pub(crate) const CIFAR_BATCH: f64 = 200.0;

/// The longest side of the images that CIFAR's settings are taken for; `paint corrupt` draws the line there too.
const CIFAR_SIDE: usize = 64;

/// The benchmarks that a preset may name alone: the network says the rest.
pub(crate) const CIFAR10: &str = "cifar10";
pub(crate) const IMAGENET: &str = "imagenet";

/// Where the values that are not given come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Preset {
    /// A vision transformer on ImageNet-C or ImageNet-R.
    #[default]
    #[serde(alias = "imagenet")]
    VitImagenet,
    /// A vision transformer on CIFAR-10-C.
    #[serde(alias = "cifar10")]
    VitCifar10,
    /// A convolutional network on ImageNet-C or ImageNet-R.
    CnnImagenet,
    /// A convolutional network on CIFAR-10-C.
    CnnCifar10,
}

impl Preset {
    /// The one that was published for networks like this on a benchmark, or, where that is not known, on the one whose
    /// images are of its size.
    pub(crate) fn of(model: &dyn Backbone, benchmark: Option<&str>) -> Self {
        let is_small = model.spec().image_size.iter().all(|&side| side <= CIFAR_SIDE);
        let is_cifar = benchmark.map_or(is_small, |name| name == CIFAR10);
        match (model.vit_config().is_some(), is_cifar) {
            (true, true) => Self::VitCifar10,
            (true, false) => Self::VitImagenet,
            (false, true) => Self::CnnCifar10,
            (false, false) => Self::CnnImagenet,
        }
    }

    /// Whether the data are CIFAR's.
    pub(crate) fn is_cifar(self) -> bool {
        matches!(self, Self::VitCifar10 | Self::CnnCifar10)
    }
}

/// A rate published for batches of `batch`, at ours.
pub(crate) fn scaled(lr: f64, batch: f64) -> f64 {
    lr * BATCH / batch
}

/// The settings of a method: those given, the rest from the preset they name. `rules` says for each condition whether
/// it holds, and what to tell if it does not.
pub(crate) fn read<T, P>(
    method: &'static str,
    settings: &toml::Table,
    preset: impl Fn(P) -> T,
    rules: impl Fn(&T) -> Vec<(bool, &'static str)>,
) -> Result<T>
where
    T: Serialize + DeserializeOwned,
    P: Default + DeserializeOwned,
{
    #[derive(Deserialize)]
    struct Chosen<P: Default> {
        #[serde(default)]
        preset: P,
    }
    let chosen: Chosen<P> = parse(method, settings)?;
    let mut merged = table(method, &preset(chosen.preset))?;
    merged.extend(settings.clone());
    let config = parse(method, &merged)?;
    match rules(&config).into_iter().find(|(holds, _)| !holds) {
        Some((_, why)) => Err(Error::Config { method, why: why.to_owned() }),
        None => Ok(config),
    }
}

/// Whether a rate, weight or margin is one.
pub(crate) fn not_negative(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// Whether a share is one.
pub(crate) fn is_share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::toml;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        preset: Preset,
        lr: f64,
    }

    fn lr(settings: &toml::Table) -> Result<f64> {
        let preset = |preset: Preset| Config { preset, lr: f64::from(u8::from(preset.is_cifar())) };
        Ok(read("test", settings, preset, |c| vec![(c.lr < 9.0, "lr is too high")])?.lr)
    }

    #[test]
    fn a_value_that_is_not_given_comes_from_the_preset() {
        assert_eq!(lr(&toml! { preset = "cnn_cifar10" }).unwrap(), 1.0);
        assert_eq!(lr(&toml::Table::new()).unwrap(), 0.0);
        assert_eq!(lr(&toml! { preset = "cnn_cifar10" lr = 0.5 }).unwrap(), 0.5);
    }

    #[test]
    fn a_broken_rule_and_an_unknown_preset_are_told() {
        assert_eq!(
            lr(&toml! { lr = 10.0 }).unwrap_err().to_string(),
            "settings of test: lr is too high"
        );
        let message = lr(&toml! { preset = "resnet" }).unwrap_err().to_string();
        assert!(message.contains("vit_cifar10"), "{message}");
    }
}
