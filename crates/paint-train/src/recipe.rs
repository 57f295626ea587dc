//! Every hyper-parameter of a training, in one strict document, and the published starting points.

use paint_nn::backbone::Family;
use paint_settings::{
    Describe as _, above, at_least, between, check, choice, from_to_below, read, settings,
};

use crate::augment::{self, EdgeKind};
use crate::error::{Error, Result};
use crate::mixing;
use crate::schedule::{self, Shape};

/// The most epochs, and the largest batch.
const MOST: f64 = 1e6;

settings! {
    /// What decides a training besides images, network and seed.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Recipe {
        /// Passes over the images
        #[within(between(1.0, MOST))]
        pub epochs: usize,
        /// Batch size; what is left of an epoch goes unseen, as the next epoch is shuffled anew
        #[within(between(1.0, MOST))]
        pub batch_size: usize,
        /// Update rule
        pub optimizer: Optimizer,
        /// Highest learning rate; it is not scaled by the batch size
        #[within(above(0.0))]
        pub lr: f64,
        /// Weight decay
        #[within(at_least(0.0))]
        pub weight_decay: f64,
        /// What weight decay acts on
        pub decay: Decay,
        /// `β₁` of `AdamW`
        #[within(from_to_below(0.0, 1.0))]
        pub beta1: f64,
        /// `β₂` of `AdamW`
        #[within(from_to_below(0.0, 1.0))]
        pub beta2: f64,
        /// Momentum of SGD
        #[within(from_to_below(0.0, 1.0))]
        pub momentum: f64,
        /// Whether SGD looks one step ahead along the velocity
        pub nesterov: bool,
        /// Largest norm of all gradients together; 0 leaves them alone
        #[within(at_least(0.0))]
        pub clip: f64,
        /// Decay of the moving average of the weights, which is what is kept in the end; 0 keeps the weights themselves
        #[within(from_to_below(0.0, 1.0))]
        pub average: f64,
        /// `ε` of label smoothing, spread over all classes
        #[within(from_to_below(0.0, 1.0))]
        pub label_smoothing: f64,
        /// Rate of stochastic depth at the last block; vision transformers only
        #[within(from_to_below(0.0, 1.0))]
        pub drop_path: f64,
        /// Learning rate over time
        pub schedule: schedule::Config,
        /// How images are changed
        pub augment: augment::Config,
        /// How images are mixed
        pub mix: mixing::Config,
    }
}

choice! {
    /// How a gradient becomes an update.
    pub enum Optimizer {
        /// AdamW (Loshchilov & Hutter 2019)
        Adamw = "adamw",
        /// SGD with momentum
        Sgd = "sgd",
    }
}

choice! {
    /// What weight decay acts on.
    pub enum Decay {
        /// The weights of layers: neither norms nor biases, tokens and position embeddings
        Matrices = "matrices",
        /// Every parameter
        All = "all",
    }
}

/// A row of [`PRESETS`].
#[derive(Debug)]
pub struct Preset {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub what: &'static str,
    /// Where its values come from.
    pub source: &'static str,
    /// The recipe.
    pub recipe: fn() -> Recipe,
}

const VIT: Preset = Preset {
    name: "vit",
    what: "a vision transformer from scratch, small images",
    source: "DeiT's optimizer and mixing (Touvron et al. 2021), grey and solarized images of DeiT III (2022), CIFAR's \
             crop; what the embedded model was made with",
    recipe: vit,
};
const VIT_FINETUNE: Preset = Preset {
    name: "vit_finetune",
    what: "a vision transformer from given weights",
    source: "the recipe vit, shorter and with smaller rates: ours",
    recipe: tune,
};
const CNN: Preset = Preset {
    name: "cnn",
    what: "a residual network, from scratch or given weights",
    source: "He et al. 2016, Zagoruyko & Komodakis 2016",
    recipe: cnn,
};

/// Where recipes begin.
pub const PRESETS: &[Preset] = &[VIT, VIT_FINETUNE, CNN];

/// The usual one for a network with drawn or given weights.
pub fn preset_for(family: Family, given_weights: bool) -> &'static Preset {
    match (family, given_weights) {
        (Family::Transformer | Family::Windows, false) => &VIT,
        (Family::Transformer | Family::Windows, true) => &VIT_FINETUNE,
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

/// DeiT's optimizer and mixing (Touvron et al. 2021), grey and solarized images of DeiT III (2022), and CIFAR's crop:
/// what the embedded model was made with. Its blur is left out, and so is every jitter of brightness and contrast,
/// because adaptation is measured on those.
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

/// He et al. 2016 and Zagoruyko & Komodakis 2016: Nesterov's momentum, weight decay 5e-4, rate 0.1 in three steps of
/// 1/5.
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

impl Recipe {
    /// The recipe of a document; a key that is missing, unknown or senseless is named.
    pub fn from_toml(text: &str) -> Result<Self> {
        let table =
            text.parse().map_err(|error: toml::de::Error| Error::recipe(error.message()))?;
        let recipe: Self = read(table).map_err(|misread| Error::recipe(misread.to_string()))?;
        recipe.check()?;
        Ok(recipe)
    }

    /// The document.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::recipe(error.to_string()))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let table =
            toml::Table::try_from(self).map_err(|error| Error::recipe(error.to_string()))?;
        check(Self::KIND.keys(), &table).map_err(|error| Error::recipe(error.to_string()))?;
        let (warmup, epochs) = (self.schedule.warmup_epochs, self.epochs);
        if warmup > epochs as f64 {
            return Err(Error::recipe(format!(
                "schedule.warmup_epochs: expected no more than epochs, which is {epochs}, found {warmup}"
            )));
        }
        self.augment.check()
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
        let flip = message(&text.replace("flip = 0.5", "flip = 1.5"));
        assert!(flip.ends_with("augment.flip: expected 0 to 1, got 1.5"), "{flip}");
        let milestone = message(&text.replace("milestones = []", "milestones = [0.5, 1.5]"));
        assert!(
            milestone.ends_with("schedule.milestones: expected 0 to 1, got 1.5"),
            "{milestone}"
        );
    }
}
