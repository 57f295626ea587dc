//! What an [`Adapter`] is opened from.

use paint_methods::{Registry, guard, stream};
use paint_run::config::{Method, Model, Source};
use paint_run::deployment::{AUTO, Config, Deployment};
use paint_run::{Draft, Session};

use crate::settings::Settings;
use crate::{Adapter, Result};

/// The model, the method and its settings; [`Builder::open`] makes an [`Adapter`] of them.
///
/// Settings are given by key, as on the command line, or typed. By key, what is not given comes from the preset for
/// the network; typed, every value is the one in the struct:
///
/// ```
/// use paint_tta::Adapter;
/// use paint_tta::settings::{Preset, Sar};
///
/// # fn main() -> paint_tta::Result<()> {
/// let by_key = Adapter::builder("embedded").method("sar").set("rho", 0.1).open()?;
/// let sar = Sar { rho: 0.1, ..Sar::preset(Preset::VitCifar10) };
/// let typed = Adapter::builder("embedded").settings(&sar)?.open()?;
/// assert_eq!(by_key.settings(), typed.settings());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    config: Config,
    methods: Registry,
}

impl Builder {
    pub(crate) fn new(model: Model) -> Self {
        let config = Config::new(model, Method::named(AUTO));
        Self { config, methods: Registry::default() }
    }

    /// From the document that `paint adapt --dry-run` prints: tables `model` and `method`, and what else there is to
    /// say.
    ///
    /// ```
    /// use paint_tta::Builder;
    ///
    /// # fn main() -> paint_tta::Result<()> {
    /// let text = "seed = 1\n[model]\nweights = 'embedded'\n[method]\nname = 'tent'\nlr = 0.01\n[guard]";
    /// let adapter = Builder::from_toml(text)?.open()?;
    /// assert_eq!(adapter.settings()["lr"].as_float(), Some(0.01));
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_toml(text: &str) -> Result<Self> {
        let config = Draft::parse(text, "adaptation")?.resolve_as()?;
        Ok(Self { config, methods: Registry::default() })
    }

    /// The method by its name, with its default settings. Default: `auto`, which chooses by the network
    /// as `paint adapt` does; [`Adapter::method`] names the choice.
    pub fn method(mut self, name: impl Into<String>) -> Self {
        self.config.method = Method::named(name);
        self
    }

    /// A method with typed settings, such as [`settings::Tent`](crate::settings::Tent).
    pub fn settings<S: Settings>(mut self, settings: &S) -> Result<Self> {
        self.config.method = Method::typed(settings)?;
        Ok(self)
    }

    /// One setting of the method by its key, as `--set method.KEY=VALUE` on the command line.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<toml::Value>) -> Self {
        self.config.method.settings.insert(key.into(), value.into());
        self
    }

    /// The methods that names are looked up among. Default: those of this library.
    pub fn methods(mut self, methods: Registry) -> Self {
        self.methods = methods;
        self
    }

    /// The seed of every random draw. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// `cpu`, or `cuda:0` with the feature `cuda`. Default: `cpu`.
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.config.device = device.into();
        self
    }

    /// The precision: `f32`, `tf32`, `bf16` or `fp8` on a GPU, or `int8` on a CPU. Default: `f32`.
    pub fn precision(mut self, precision: impl Into<String>) -> Self {
        self.config.precision = precision.into();
        self
    }

    /// Takes images as they come: single ones, short batches, runs of one class. Default: each batch as it is.
    pub fn stream(mut self, stream: stream::Config) -> Self {
        self.config.stream = Some(stream);
        self
    }

    /// Watches for harm without labels and undoes it; where adaptation does not help, the frozen model answers.
    /// Default: no guard.
    pub fn guard(mut self, guard: guard::Config) -> Self {
        self.config.guard = Some(guard);
        self
    }

    /// Images of the source domain, for the methods that need them before they are deployed.
    pub fn source(mut self, source: Source) -> Self {
        self.config.source = Some(source);
        self
    }

    /// Reads the weights and builds the method. Methods that train on source images do so here.
    pub fn open(self) -> Result<Adapter> {
        Ok(Adapter::new(Session::new(Deployment::open_with(self.config, &self.methods)?)?))
    }
}
