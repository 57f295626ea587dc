//! Every hyper-parameter of a training, in one strict document, and the published starting points.

use paint_nn::backbone::Family;
use serde::{Deserialize, Serialize};

use crate::augment::{self, EdgeKind};
use crate::error::{Error, Result};
use crate::mixing;
use crate::schedule::{self, Shape};

/// What decides a training besides images, network and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Passes over the images.
    pub epochs: usize,
    /// Images of a step; what is left of an epoch goes unseen, as the next epoch is shuffled anew.
    pub batch_size: usize,
    /// How a gradient becomes an update.
    pub optimizer: Optimizer,
    /// The highest learning rate; it is not scaled by the batch.
    pub lr: f64,
    /// The weight decay.
    pub weight_decay: f64,
    /// What it acts on.
    pub decay: Decay,
    /// `β₁` of `AdamW`.
    pub beta1: f64,
    /// `β₂` of `AdamW`.
    pub beta2: f64,
    /// Of SGD.
    pub momentum: f64,
    /// Of SGD: looks one step ahead along the velocity.
    pub nesterov: bool,
    /// The largest norm of all gradients together; 0 leaves them alone.
    pub clip: f64,
    /// Decay of the moving average of the weights, which is what is kept in the end; 0 keeps the weights themselves.
    pub average: f64,
    /// `ε`, spread over all classes.
    pub label_smoothing: f64,
    /// The rate of stochastic depth at the last block; vision transformers alone.
    pub drop_path: f64,
    /// The learning rate over time.
    pub schedule: schedule::Config,
    /// How images are changed.
    pub augment: augment::Config,
    /// How they are mixed.
    pub mix: mixing::Config,
}

/// How a gradient becomes an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    /// Loshchilov & Hutter 2019.
    Adamw,
    /// With momentum.
    Sgd,
}

/// What weight decay acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// The weights of layers: neither norms nor biases, tokens and position embeddings.
    Matrices,
    /// Every parameter.
    All,
}

/// A row of [`PRESETS`].
#[derive(Debug)]
pub struct Preset {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub what: &'static str,
    /// The recipe.
    pub recipe: fn() -> Recipe,
}

const VIT: Preset =
    Preset { name: "vit", what: "a vision transformer from scratch, small images", recipe: vit };
const VIT_FINETUNE: Preset =
    Preset { name: "vit_finetune", what: "a vision transformer from given weights", recipe: tune };
const CNN: Preset =
    Preset { name: "cnn", what: "a residual network, from scratch or given weights", recipe: cnn };

/// Where recipes begin.
pub const PRESETS: &[Preset] = &[VIT, VIT_FINETUNE, CNN];

/// The usual one for a network with drawn or given weights.
pub fn preset_for(family: Family, given_weights: bool) -> &'static Preset {
    match (family, given_weights) {
        (Family::Transformer, false) => &VIT,
        (Family::Transformer, true) => &VIT_FINETUNE,
        (Family::Convolutional, _) => &CNN,
    }
}

/// The row of a name.
pub fn preset(name: &str) -> Result<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        Error::recipe(format!("preset: expected one of {}, got {name:?}", known.join(", ")))
    })
}

/// The images as they are.
pub(crate) fn plain_augment() -> augment::Config {
    augment::Config {
        pad: 0,
        edge: EdgeKind::Zeros,
        scale: 1.0,
        flip: 0.0,
        rotate: 0.0,
        brightness: 0.0,
        contrast: 0.0,
        saturation: 0.0,
        grey: 0.0,
        solarize: 0.0,
        erase: 0.0,
    }
}

/// DeiT's optimizer and mixing (Touvron et al. 2021), grey and solarized images of DeiT III (2022), and CIFAR's crop: what
/// the embedded model was made with. Its blur is left out, and so is every jitter of brightness and contrast, because
/// adaptation is measured on those.
fn vit() -> Recipe {
    Recipe {
        epochs: 500,
        batch_size: 512,
        optimizer: Optimizer::Adamw,
        lr: 1e-3,
        weight_decay: 0.05,
        decay: Decay::Matrices,
        beta1: 0.9,
        beta2: 0.999,
        momentum: 0.9,
        nesterov: false,
        clip: 1.0,
        average: 0.9998,
        label_smoothing: 0.1,
        drop_path: 0.1,
        schedule: schedule::Config {
            shape: Shape::Cosine,
            warmup_epochs: 10.0,
            final_lr: 1e-5,
            milestones: vec![],
            gamma: 1.0,
        },
        augment: augment::Config {
            pad: 4,
            flip: 0.5,
            grey: 0.1,
            solarize: 0.1,
            erase: 0.25,
            ..plain_augment()
        },
        mix: mixing::Config { mixup: 0.8, cutmix: 1.0, switch: 0.5, chance: 0.8 },
    }
}

fn tune() -> Recipe {
    Recipe {
        epochs: 10,
        batch_size: 128,
        lr: 5e-5,
        weight_decay: 0.01,
        average: 0.999,
        schedule: schedule::Config { warmup_epochs: 1.0, final_lr: 1e-6, ..vit().schedule },
        augment: augment::Config { pad: 4, flip: 0.5, ..plain_augment() },
        mix: mixing::Config { mixup: 0.0, cutmix: 1.0, switch: 1.0, chance: 0.5 },
        ..vit()
    }
}

/// He et al. 2016 and Zagoruyko & Komodakis 2016: Nesterov's momentum, weight decay 5e-4, rate 0.1 in three steps of 1/5.
fn cnn() -> Recipe {
    Recipe {
        epochs: 200,
        batch_size: 128,
        optimizer: Optimizer::Sgd,
        lr: 0.1,
        weight_decay: 5e-4,
        decay: Decay::All,
        nesterov: true,
        clip: 0.0,
        average: 0.0,
        label_smoothing: 0.0,
        drop_path: 0.0,
        schedule: schedule::Config {
            shape: Shape::Step,
            warmup_epochs: 0.0,
            final_lr: 0.0,
            milestones: vec![0.3, 0.6, 0.8],
            gamma: 0.2,
        },
        augment: augment::Config { pad: 4, flip: 0.5, ..plain_augment() },
        mix: mixing::Config { mixup: 0.0, cutmix: 0.0, switch: 0.5, chance: 1.0 },
        ..vit()
    }
}

/// The most epochs, and images of a step.
const MOST: usize = 1_000_000;

/// A number that is 0 or more, and no infinity.
pub(crate) fn not_negative(x: f64) -> bool {
    x >= 0.0 && x.is_finite()
}

impl Recipe {
    /// The recipe of a document; a key that is missing, unknown or senseless is named.
    pub fn from_toml(text: &str) -> Result<Self> {
        let recipe: Self = toml::from_str(text).map_err(|error| Error::recipe(error.message()))?;
        recipe.check()?;
        Ok(recipe)
    }

    /// The document.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::recipe(error.to_string()))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let warmup = format!(
            "schedule.warmup_epochs: expected no more than epochs, which is {}, found {}",
            self.epochs, self.schedule.warmup_epochs
        );
        for (holds, why) in [
            ((1..=MOST).contains(&self.epochs), "epochs: expected 1 to 1,000,000"),
            ((1..=MOST).contains(&self.batch_size), "batch_size: expected 1 to 1,000,000"),
            (self.schedule.warmup_epochs <= self.epochs as f64, warmup.as_str()),
            (self.lr > 0.0 && self.lr.is_finite(), "lr: expected a number above 0"),
            (not_negative(self.weight_decay), "weight_decay: expected 0 or more"),
            (not_negative(self.clip), "clip: expected 0 or more"),
            ((0.0..1.0).contains(&self.average), "average: expected 0 to 1, below 1"),
            ((0.0..1.0).contains(&self.beta1), "beta1: expected 0 to 1, below 1"),
            ((0.0..1.0).contains(&self.beta2), "beta2: expected 0 to 1, below 1"),
            ((0.0..1.0).contains(&self.momentum), "momentum: expected 0 to 1, below 1"),
            ((0.0..1.0).contains(&self.label_smoothing), "label_smoothing: expected 0 to 1"),
            ((0.0..1.0).contains(&self.drop_path), "drop_path: expected 0 to 1, below 1"),
        ] {
            if !holds {
                return Err(Error::recipe(why));
            }
        }
        self.schedule.check()?;
        self.augment.check()?;
        self.mix.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_survives_its_document() {
        for row in PRESETS {
            let recipe = (preset(row.name).unwrap().recipe)();
            assert_eq!(Recipe::from_toml(&recipe.to_toml().unwrap()).unwrap(), recipe);
        }
        assert!(preset("mlp").unwrap_err().to_string().contains("vit_finetune"));
    }

    #[test]
    fn an_unknown_missing_or_senseless_key_is_named() {
        let text = vit().to_toml().unwrap();
        let message = |text: &str| Recipe::from_toml(text).unwrap_err().to_string();
        assert!(message(&text.replace("clip", "clipping")).contains("clipping"));
        assert!(message(&text.replace("pad = 4\n", "")).contains("pad"));
        assert!(message(&text.replace("drop_path = 0.1", "drop_path = 1.0")).contains("drop_path"));
        assert!(message(&text.replace("lr = 0.001", "lr = -1.0")).contains("lr"));
        let short = message(&text.replace("warmup_epochs = 10.0", "warmup_epochs = 9999.0"));
        assert!(short.contains(&format!("which is {}, found 9999", vit().epochs)), "{short}");
        assert!(message(&text.replace("beta1 = 0.9", "beta1 = nan")).contains("beta1"));
    }
}
