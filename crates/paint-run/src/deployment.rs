//! A source model with its preprocessing, and the method that adapts it: what every use of adaptation opens first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use paint_methods::{
    BuildArgs, Method, MethodEntry, Registry, State, StatisticsFrom, Wrap, guard, stream,
};
use paint_nn::backbone::Backbone;
use paint_rng::Seed;
use paint_tensor::Device;
use serde::{Deserialize, Serialize};

use crate::config::{self, Model, Source};
use crate::model::embedded;
use crate::source::SourceImages;
use crate::watch::{Watch, Watched};
use crate::{Error, Result, classes, model};

/// What is deployed. A measured run has the same keys and more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Every random draw derives from it. Default: 0.
    #[serde(default)]
    pub seed: u64,
    /// Where the model lives. Default: `cpu`.
    #[serde(default = "config::default_device")]
    pub device: String,
    /// The precision: `f32`, `tf32`, `bf16` or `fp8` on a GPU, or `int8` on a CPU. Default: `f32`.
    #[serde(
        default = "config::default_precision",
        skip_serializing_if = "config::is_default_precision"
    )]
    pub precision: String,
    /// The weights.
    pub model: Model,
    /// What adapts.
    pub method: config::Method,
    /// Images of the source domain; a method that does not look at any leaves them unread. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Images as they come: single ones, short batches, runs of one class. Default: each batch as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<stream::Config>,
    /// What notices harm without labels and undoes it. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<guard::Config>,
}

impl From<&config::Config> for Config {
    /// The part of a measured run that says what adapts what.
    fn from(run: &config::Config) -> Self {
        Self {
            seed: run.seed,
            device: run.device.clone(),
            precision: run.precision.clone(),
            model: run.model.clone(),
            method: run.method.clone(),
            source: run.source.clone(),
            stream: run.stream,
            guard: run.guard,
        }
    }
}

impl Config {
    /// These weights and this method with its default settings, on the CPU.
    pub fn new(model: Model, method: config::Method) -> Self {
        let (device, precision) = (config::default_device(), config::default_precision());
        Self { seed: 0, device, precision, model, method, source: None, stream: None, guard: None }
    }

    /// What stands around the method.
    pub(crate) fn wrap(&self) -> Wrap {
        Wrap { stream: self.stream, guard: self.guard }
    }

    /// Every value under its dotted key.
    pub(crate) fn leaves(&self) -> Result<BTreeMap<String, String>> {
        let text = toml::to_string(self).map_err(|error| Error::config(error.to_string()))?;
        config::leaves(&text)
    }

    /// The device, opened. A method that is not known and settings that it refuses are reported first: nothing large
    /// has been read yet.
    pub(crate) fn check(&self, methods: &Registry) -> Result<Device> {
        if self.method.name != AUTO {
            methods.find(&self.method.name)?.resolve(&self.method.settings)?;
        }
        self.wrap().check()?;
        Ok(Device::open(&self.device, self.precision.parse()?)?)
    }
}

/// In place of a method's name: the one that does best with the network at hand.
pub const AUTO: &str = "auto";

/// keel, the best on transformers (results/keel.md); PAINT on a transformer without source
/// statistics, where keel has little to go by.
fn best_for(model: &dyn Backbone, weights: &Path) -> &'static str {
    let has_statistics =
        weights == Path::new(embedded::NAME) || model::statistics_beside(weights).is_some();
    if model.vit_config().is_some() && !has_statistics { "paint" } else { "keel" }
}

/// A model and a method, open.
pub struct Deployment {
    /// The configuration with every default written out.
    pub config: Config,
    model: Box<dyn Backbone>,
    method: MethodEntry,
    /// The model's classes that compete; all if none.
    classes: Option<Vec<usize>>,
    source: Option<SourceImages>,
    device: Device,
    watch: Arc<Watch>,
}

/// What a deployment finds around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    /// Where the method's name is looked up.
    pub(crate) methods: &'a Registry,
    /// The benchmark whose published settings methods take.
    pub(crate) benchmark: Option<&'a str>,
    /// The model's classes that compete; all if none.
    pub(crate) classes: Option<&'a [usize]>,
}

impl Deployment {
    /// Opens what `config` names. Nothing is written.
    pub fn open(config: Config) -> Result<Self> {
        Self::open_with(config, &Registry::default())
    }

    /// The same for a method that may be one of your own.
    pub fn open_with(mut config: Config, methods: &Registry) -> Result<Self> {
        let device = config.check(methods)?;
        let source = config.source.as_mut().map(|source| (&source.name, &mut source.options));
        classes::name(&config.model.weights, source)?;
        Self::open_on(config, device, Stage { methods, benchmark: None, classes: None })
    }

    pub(crate) fn open_on(mut config: Config, device: Device, stage: Stage<'_>) -> Result<Self> {
        let model = model::open(&mut config.model, &device)?;
        if config.method.name == AUTO {
            best_for(&*model, &config.model.weights).clone_into(&mut config.method.name);
        }
        let method = *stage.methods.find(&config.method.name)?;
        let settings = method.settings_for(&config.method.settings, &*model, stage.benchmark)?;
        config.method.settings = method.resolve(&settings)?;
        // Only for methods that look: one configuration can serve all.
        let wanted = config.source.as_ref().filter(|_| method.needs_source.reads_images());
        let shared = (stage.classes, config.model.resize);
        let open = |source| SourceImages::open(source, config.seed, model.spec(), shared, &device);
        let source = wanted.map(open).transpose()?;
        let classes = stage.classes.map(<[usize]>::to_vec);
        Ok(Self { config, model, method, classes, source, device, watch: Arc::default() })
    }

    /// The method in its first state. One that trains on source images before it is deployed takes its time here.
    pub fn method(&self) -> Result<Box<dyn Method>> {
        let classes = self.classes.as_deref();
        let source = self.source.as_ref().map(SourceImages::data);
        let watched = Watched::new(&*self.model, Arc::clone(&self.watch));
        let weights = &self.config.model.weights;
        let beside = model::statistics_beside(weights);
        let statistics = if weights == Path::new(embedded::NAME) {
            Some(StatisticsFrom::Bytes(embedded::STATISTICS))
        } else {
            beside.as_deref().map(StatisticsFrom::File)
        };
        let seed = Seed(self.config.seed);
        let args = BuildArgs { classes, source, statistics, ..BuildArgs::new(&watched, seed) };
        let method = self.method.build(&args, &self.config.method.settings);
        let method = method.map_err(|error| match error {
            paint_methods::Error::NoSource { .. } => Error::NoSource { why: error.to_string() },
            other => other.into(),
        })?;
        Ok(self.config.wrap().around(method, &args)?)
    }

    /// A state as the method of this deployment reads it, whether or not it was saved under the same guard.
    pub(crate) fn fitted(&self, state: State) -> State {
        self.config.wrap().fitted(state)
    }

    /// The source model.
    pub fn model(&self) -> &dyn Backbone {
        &*self.model
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many source images the method looks at before it is deployed.
    pub fn source_images(&self) -> Option<usize> {
        self.source.as_ref().map(SourceImages::count)
    }

    /// What the methods made here ask of their network.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }
}
