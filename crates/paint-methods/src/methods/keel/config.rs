//! The settings of keel.

use paint_settings::{at_least, between, settings};

use super::NAME;
use crate::Result;
use crate::preset::Preset;
use crate::settings::{Settings, read_with};

/// What `statistics` says in place of a file.
pub(super) const AUTO: &str = "auto";
pub(super) const NONE: &str = "none";

settings! {
    /// The settings of keel. The presets differ in `first_block`, `blocks` and `strength` alone.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// Where the values that are not given come from.
        pub preset: Preset,
        /// The source statistics: a file of `paint stats`; `auto` for those that come with the weights, if any do;
        /// `none` for the form without.
        pub statistics: String,
        /// The first block after which patches are aligned.
        pub first_block: usize,
        /// After how many blocks they are.
        pub blocks: usize,
        /// `s`, the most that patches are moved, as a share of the way (Eq. 4).
        #[within(between(0.0, 1.0))]
        pub strength: f64,
        /// `n_v`: as many images the source's covariance counts for (Eq. 5).
        #[within(at_least(0.0))]
        pub shrinkage: f64,
        /// The most images that a domain's statistics remember.
        #[within(at_least(1.0))]
        pub memory: u64,
        /// The most domains; beyond, the nearest two become one.
        #[within(at_least(2.0))]
        pub capacity: usize,
        /// Whether predictions of a class-correlated stream are corrected for its classes (Eq. 10).
        pub prior: bool,
        /// `n_0`: as many images the statistics of training count for, in batch norms (Eq. 11).
        pub source_images: u64,
    }
}

impl Config {
    /// The values of a preset.
    pub fn preset(preset: Preset) -> Self {
        let (first_block, blocks, strength) =
            if preset.is_cifar() { (0, 6, 0.5) } else { (3, 4, 0.2) };
        Self {
            preset,
            statistics: AUTO.to_owned(),
            first_block,
            blocks,
            strength,
            shrinkage: 30.0,
            memory: 500,
            capacity: 16,
            prior: true,
            source_images: 16,
        }
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
