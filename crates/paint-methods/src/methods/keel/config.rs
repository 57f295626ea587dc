//! The settings of keel.

use serde::{Deserialize, Serialize};

use super::NAME;
use crate::Result;
use crate::preset::Preset;
use crate::settings::{is_share, not_negative, read};

/// What `statistics` says in place of a file.
pub(super) const AUTO: &str = "auto";
pub(super) const NONE: &str = "none";

/// The settings. The presets differ in `first_block`, `blocks` and `strength` alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Where the values that are not given come from.
    pub(super) preset: Preset,
    /// The source statistics: a file of `paint stats`; `auto` for those that come with the weights, if any do; `none` for
    /// the form without.
    pub(super) statistics: String,
    /// The first block after which patches are aligned.
    pub(super) first_block: usize,
    /// After how many blocks they are.
    pub(super) blocks: usize,
    /// `s`, the most that patches are moved, as a share of the way (Eq. 4).
    pub(super) strength: f64,
    /// `n_v`: as many images the source's covariance counts for (Eq. 5).
    pub(super) shrinkage: f64,
    /// The most images that a domain's statistics remember.
    pub(super) memory: u64,
    /// The most domains; beyond, the nearest two become one.
    pub(super) capacity: usize,
    /// Whether predictions of a class-correlated stream are corrected for its classes (Eq. 10).
    pub(super) prior: bool,
    /// `n_0`: as many images the statistics of training count for, in batch norms (Eq. 11).
    pub(super) source_images: u64,
}

impl Config {
    fn preset(preset: Preset) -> Self {
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

    /// Reads settings: the preset they name, with every other key on top of it.
    pub(super) fn from_settings(settings: &toml::Table) -> Result<Self> {
        read(NAME, settings, Self::preset, Self::rules)
    }

    fn rules(&self) -> Vec<(bool, &'static str)> {
        vec![
            (is_share(self.strength), "strength must lie in [0, 1]"),
            (not_negative(self.shrinkage), "shrinkage must be 0 or more"),
            (self.memory > 0, "memory must be 1 or more"),
            (self.capacity > 1, "capacity must be 2 or more"),
            (!self.statistics.is_empty(), "statistics must be a file, \"auto\" or \"none\""),
        ]
    }
}
