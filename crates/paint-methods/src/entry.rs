//! A row of the table of methods: what a method is called, what it needs, and how it is built.

use std::collections::BTreeMap;
use std::fmt;

use paint_nn::backbone::{Backbone, Family};
use paint_settings::Key;

use crate::build_args::BuildArgs;
use crate::method::Method;
use crate::preset::{Benchmark, Preset};
use crate::preset_values::{self, PresetValue};
use crate::{Result, settings};

/// Which source data a method needs before it is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceNeed {
    /// None: the weights are enough.
    None,
    /// On a transformer, the token statistics of clean images, which lie beside the weights. No image is needed.
    Statistics,
    /// Images without labels.
    Unlabelled,
    /// Images with labels.
    Labelled,
}

impl SourceNeed {
    /// Whether source images are read before deployment.
    pub fn reads_images(self) -> bool {
        matches!(self, Self::Unlabelled | Self::Labelled)
    }
}

/// Which networks a method is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Networks {
    /// Any.
    All,
    /// Vision transformers; it refuses others.
    Transformers,
    /// Convolutional networks; it refuses others.
    Convolutional,
    /// Networks with batch norms; on others it changes nothing.
    BatchNorms,
}

/// The presets of a method: named sets of defaults, of which the setting `preset` chooses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presets {
    /// There are none, and no such setting.
    None,
    /// Published values, one set per kind of network and benchmark. Where the settings name none, the network and the
    /// benchmark decide.
    ByNetwork,
    /// The method's own, by name. Where the settings name none, the method has a default.
    Named(&'static [&'static str]),
}

impl Presets {
    /// The names that the setting `preset` takes.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::ByNetwork => Preset::NAMES,
            Self::Named(names) => names,
        }
    }
}

/// Builds a method from its settings.
pub type Build = fn(&BuildArgs<'_>, &toml::Table) -> Result<Box<dyn Method>>;

/// Checks settings, and writes every default out.
pub type Resolve = fn(&toml::Table) -> Result<toml::Table>;

/// A row of the table of methods.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct MethodEntry {
    /// The name in TOML, on the command line and in results.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// One line on what it does.
    pub what: &'static str,
    /// The source data it needs.
    pub needs_source: SourceNeed,
    /// The networks it is for.
    pub runs_on: Networks,
    /// Whether it works at batch 1: its rule needs no batch of several images, on any network it is for, so that single
    /// images leave it no more than a few points below the frozen model. Others need a
    /// [`Stream`](crate::stream::Stream), which makes batches of single images.
    pub works_on_single_images: bool,
    /// Its presets.
    pub presets: Presets,
    /// Its settings: name, range and meaning of each key.
    pub keys: &'static [Key],
    pub(crate) build: Build,
    pub(crate) resolve: Resolve,
}

impl fmt::Debug for MethodEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MethodEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl MethodEntry {
    /// A row for a method of your own, without paper, presets or need for source data.
    ///
    /// `build` refuses settings that it does not know; `resolve` does too, and returns them with every default written
    /// out, so that building from the result gives the same method. A type that implements [`settings::Settings`] does
    /// both.
    pub const fn new(name: &'static str, build: Build, resolve: Resolve) -> Self {
        Self {
            name,
            paper: "none",
            what: "",
            needs_source: SourceNeed::None,
            runs_on: Networks::All,
            works_on_single_images: false,
            presets: Presets::None,
            keys: &[],
            build,
            resolve,
        }
    }

    /// The row with a paper.
    #[must_use]
    pub const fn paper(mut self, paper: &'static str) -> Self {
        self.paper = paper;
        self
    }

    /// The row with one line on what the method does.
    #[must_use]
    pub const fn what(mut self, what: &'static str) -> Self {
        self.what = what;
        self
    }

    /// The row of a method that needs source data.
    #[must_use]
    pub const fn needs_source(mut self, need: SourceNeed) -> Self {
        self.needs_source = need;
        self
    }

    /// The row of a method that is not for every network.
    #[must_use]
    pub const fn runs_on(mut self, networks: Networks) -> Self {
        self.runs_on = networks;
        self
    }

    /// The row of a method that works at batch 1.
    #[must_use]
    pub const fn works_on_single_images(mut self) -> Self {
        self.works_on_single_images = true;
        self
    }

    /// The row of a method that has presets.
    #[must_use]
    pub const fn presets(mut self, presets: Presets) -> Self {
        self.presets = presets;
        self
    }

    /// The row of a method that describes its settings, for `paint explain`.
    #[must_use]
    pub const fn keys(mut self, keys: &'static [Key]) -> Self {
        self.keys = keys;
        self
    }

    /// The method with these settings; a key it does not know is refused by name.
    pub fn build(&self, args: &BuildArgs<'_>, settings: &toml::Table) -> Result<Box<dyn Method>> {
        (self.build)(args, settings)
    }

    /// The settings with every default written out, as they are saved beside a result. Building from them gives the
    /// same method.
    pub fn resolve(&self, settings: &toml::Table) -> Result<toml::Table> {
        (self.resolve)(settings)
    }

    /// The values of a preset with their sources, or of the method that has none. Empty for a row of another crate.
    pub fn preset_values(&self, preset: Option<&str>) -> Vec<PresetValue> {
        preset_values::of(self.name, preset)
    }

    /// The settings for a network on a benchmark, if that is known. A method whose presets are [`Presets::ByNetwork`]
    /// gets the one for this network, unless the settings name one; if they name a benchmark, that one counts. Other
    /// settings stay as they are, and so do those of a method that refuses the network.
    pub fn settings_for(
        &self,
        settings: &toml::Table,
        model: &dyn Backbone,
        benchmark: Option<&str>,
    ) -> Result<toml::Table> {
        self.resolve(settings)?;
        let mut settings = settings.clone();
        let is_refused =
            self.runs_on == Networks::Convolutional && model.family() != Family::Convolutional;
        if self.presets == Presets::ByNetwork && !is_refused {
            let given = settings.get(PRESET).and_then(toml::Value::as_str);
            let named = given.and_then(Benchmark::find);
            if given.is_none() || named.is_some() {
                let preset =
                    Preset::of(model, named.or_else(|| benchmark.and_then(Benchmark::find)));
                settings.extend(settings::table(self.name, &BTreeMap::from([(PRESET, preset)]))?);
            }
        }
        Ok(settings)
    }
}

/// The setting that names a preset.
pub const PRESET: &str = "preset";
