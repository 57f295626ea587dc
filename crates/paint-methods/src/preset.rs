//! The presets of the baselines: published values by kind of network and benchmark.
//!
//! The papers use batches of 64 (ImageNet) and 200 (CIFAR); PAINT compares everything at 50. Rates are used as
//! published. They follow the batch size only where the authors' own rule says so: for transformers, from SAR on.

use paint_nn::backbone::Backbone;
use paint_settings::choice;

/// The longest side of the images that CIFAR's settings are taken for; `paint corrupt` draws the line there too.
const CIFAR_SIDE: usize = 64;

/// A benchmark with published settings. A preset may name it alone: the network decides the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Cifar10,
    Imagenet,
}

impl Benchmark {
    pub(crate) const ALL: [Self; 2] = [Self::Cifar10, Self::Imagenet];

    /// Its name in settings and in the table of datasets.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cifar10 => "cifar10",
            Self::Imagenet => "imagenet",
        }
    }

    /// The benchmark of a name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|benchmark| benchmark.name() == name)
    }

    /// The benchmark whose images have the size that the network takes.
    fn by_size(model: &dyn Backbone) -> Self {
        let is_small = model.spec().image_size.iter().all(|&side| side <= CIFAR_SIDE);
        if is_small { Self::Cifar10 } else { Self::Imagenet }
    }
}

choice! {
    /// Published values of the baselines, by kind of network and benchmark, for batches of 50. Settings by name take
    /// those of their network; typed settings say which.
    #[derive(Default)]
    pub enum Preset {
        /// A vision transformer on ImageNet-C or ImageNet-R.
        #[default]
        #[serde(alias = "imagenet")]
        VitImagenet = "vit_imagenet",
        /// A vision transformer on CIFAR-10-C.
        #[serde(alias = "cifar10")]
        VitCifar10 = "vit_cifar10",
        /// A convolutional network on ImageNet-C or ImageNet-R.
        CnnImagenet = "cnn_imagenet",
        /// A convolutional network on CIFAR-10-C.
        CnnCifar10 = "cnn_cifar10",
    }
}

impl Preset {
    /// The names in settings.
    pub(crate) const NAMES: &'static [&'static str] =
        &["vit_imagenet", "vit_cifar10", "cnn_imagenet", "cnn_cifar10"];

    /// The preset for a network on a benchmark; without one, on the benchmark whose images have the network's size.
    pub(crate) fn of(model: &dyn Backbone, benchmark: Option<Benchmark>) -> Self {
        let benchmark = benchmark.unwrap_or_else(|| Benchmark::by_size(model));
        match (model.vit_config().is_some(), benchmark) {
            (true, Benchmark::Cifar10) => Self::VitCifar10,
            (true, Benchmark::Imagenet) => Self::VitImagenet,
            (false, Benchmark::Cifar10) => Self::CnnCifar10,
            (false, Benchmark::Imagenet) => Self::CnnImagenet,
        }
    }

    /// Whether the data are CIFAR's.
    pub(crate) fn is_cifar(self) -> bool {
        matches!(self, Self::VitCifar10 | Self::CnnCifar10)
    }

    pub(crate) fn is_cnn(self) -> bool {
        matches!(self, Self::CnnImagenet | Self::CnnCifar10)
    }
}

/// A transformer's rate, published for batches of 64, at batches of 50: SAR's authors and those who followed them make
/// it proportional to the batch size.
pub(crate) fn from_64_to_50(lr: f64) -> f64 {
    lr * 50.0 / 64.0
}

/// [`Default`] and [`Settings`](crate::settings::Settings) of a baseline whose `Config::preset` gives every value.
macro_rules! by_preset {
    ($config:ty, $method:expr) => {
        impl Default for $config {
            fn default() -> Self {
                Self::preset($crate::preset::Preset::default())
            }
        }

        impl $crate::settings::Settings for $config {
            const METHOD: &'static str = $method;

            fn read(settings: &toml::Table) -> $crate::Result<Self> {
                $crate::settings::read($method, settings, Self::preset)
            }
        }
    };
}
pub(crate) use by_preset;
