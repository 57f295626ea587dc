//! The settings of keel.

use paint_settings::{at_least, between, choice, linear, logarithmic, settings};

use super::NAME;
use crate::Result;
use crate::build_args::BuildArgs;
use crate::preset::Preset;
use crate::settings::{Settings, read_with};
use crate::statistics::SourceStatistics;

/// What `statistics` says in place of a file.
const AUTO: &str = "auto";
const NONE: &str = "none";

choice! {
    /// The two forms.
    pub enum FormKind {
        /// One forward pass; no weight changes.
        Forward = "forward",
        /// The first blocks of a second network learn from every batch, and both predict.
        Gradient = "gradient",
    }
}

settings! {
    /// The settings of keel. The presets differ in `form`, `first_block`, `blocks`, `strength`, `lr` and
    /// `source_images` alone.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// Where the values that are not given come from.
        pub preset: Preset,
        /// Whether weights learn too.
        pub form: FormKind,
        /// The source statistics: a file of `paint stats`; `auto` for those that come with the weights, if any do;
        /// `none` for the form without.
        pub statistics: String,
        /// The first block after which patches are aligned.
        pub first_block: usize,
        /// After how many blocks they are.
        pub blocks: usize,
        /// `s`, the most that patches are moved, as a share of the way (Eq. 4).
        #[within(between(0.0, 1.0))]
        #[tuned(linear(0.0, 1.0))]
        pub strength: f64,
        /// `n_v`: as many images the source's covariance counts for (Eq. 5).
        #[within(at_least(0.0))]
        #[tuned(logarithmic(3.0, 300.0))]
        pub shrinkage: f64,
        /// The most images that a domain's statistics remember. In batch norms: the most that count while classes come in
        /// runs, and no fewer than 50.
        #[within(at_least(1.0))]
        pub memory: u64,
        /// The most domains; beyond, the nearest two become one.
        #[within(at_least(2.0))]
        pub capacity: usize,
        /// Whether predictions of a class-correlated stream are corrected for its classes (Eq. 10).
        pub prior: bool,
        /// How many blocks learn, from the first on (gradient form).
        #[within(at_least(1.0))]
        pub trained_blocks: usize,
        /// Their learning rate (Eq. 12).
        #[within(at_least(0.0))]
        #[tuned(logarithmic(1e-5, 1e-2))]
        pub lr: f64,
        /// Weight of `L_mi` in Eq. 12; 0 leaves it out.
        #[within(at_least(0.0))]
        pub information_weight: f64,
        /// `β`, weight of `L_ic` in Eq. 12; 0 leaves it out.
        #[within(at_least(0.0))]
        pub consistency_weight: f64,
        /// `w_s`, weight of `L_stat` in Eq. 12; 0 leaves it out.
        #[within(at_least(0.0))]
        pub statistic_weight: f64,
        /// `κ`, the share of the way back to the source after each step (Eq. 12).
        #[within(between(0.0, 1.0))]
        pub pull: f64,
        /// A batch of fewer images takes no step: its statistics say too little.
        pub fewest_images: usize,
        /// Whether the aligned pass has a say beside the network that learns (Eq. 13).
        pub joint: bool,
        /// `n_0`: as many images the statistics of training count for, in batch norms (Eq. 14).
        pub source_images: u64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let (form, first_block, blocks, strength, lr) = if preset.is_cifar() {
            (FormKind::Forward, 0, 6, 0.5, 2e-4)
        } else {
            (FormKind::Gradient, 3, 4, 0.4, 1.5e-4)
        };
        Self {
            preset,
            form,
            statistics: AUTO.to_owned(),
            first_block,
            blocks,
            strength,
            shrinkage: 30.0,
            memory: 500,
            capacity: 16,
            prior: true,
            trained_blocks: 6,
            lr,
            information_weight: 1.0,
            consistency_weight: 1.0,
            statistic_weight: 3.0,
            pull: 0.01,
            fewest_images: 16,
            joint: true,
            source_images: if preset.is_cnn() { 60 } else { 16 },
        }
    }

    /// The source statistics that the settings name.
    pub(super) fn statistics(&self, args: &BuildArgs<'_>) -> Result<Option<SourceStatistics>> {
        Ok(match self.statistics.as_str() {
            NONE => None,
            AUTO => args.source_statistics()?,
            path => Some(SourceStatistics::open(path)?),
        })
    }

    fn rules(&self) -> Vec<(bool, &'static str)> {
        vec![(!self.statistics.is_empty(), "statistics must be a file, \"auto\" or \"none\"")]
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::preset(Preset::default())
    }
}

impl Settings for Config {
    const METHOD: &'static str = NAME;

    fn read(settings: &toml::Table) -> Result<Self> {
        read_with(NAME, settings, Self::preset, Self::rules)
    }
}
