//! A method as another crate would add it: with the public interface alone, and without presets.
//!
//! It keeps the moving average `m` of the mean logits of each batch and predicts `z − m`, so that no class is favoured
//! for long. The network stays as it is.

use paint_methods::settings::{Settings, parse};
use paint_methods::{BuildArgs, Error, Method, MethodEntry, Result, State, Step, images};
use paint_nn::backbone::{Backbone, Request};
use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

const NAME: &str = "balance";

#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// How much of `m` a batch keeps.
    momentum: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { momentum: 0.9 }
    }
}

impl Settings for Config {
    const METHOD: &'static str = NAME;

    fn read(table: &toml::Table) -> Result<Self> {
        let config: Self = parse(NAME, table)?;
        if !(0.0..=1.0).contains(&config.momentum) {
            return Err(Error::Config { method: NAME, why: "momentum must lie in [0, 1]".into() });
        }
        Ok(config)
    }
}

/// The row.
pub(crate) const ENTRY: MethodEntry = MethodEntry::new(
    NAME,
    |args, table| Ok(Box::new(Balance::new(args, &Config::read(table)?)?)),
    |table| Config::read(table)?.table(),
)
.what("takes the moving average of the logits away");

struct Balance {
    model: Box<dyn Backbone>,
    classes: Option<Vec<usize>>,
    momentum: f32,
    /// `m`, `[1, C]`.
    average: Tensor,
}

impl Balance {
    fn new(args: &BuildArgs<'_>, config: &Config) -> Result<Self> {
        let mut model = args.model.duplicate();
        model.params_mut().freeze();
        let c = args.classes.map_or(model.spec().num_classes, <[usize]>::len);
        let average = Tensor::zeros([1, c], &model.params().device())?;
        let classes = args.classes.map(<[usize]>::to_vec);
        Ok(Self { model, classes, momentum: config.momentum as f32, average })
    }

    fn logits(&self, images: &Tensor) -> Result<Tensor> {
        images::check(images, self.model.spec())?;
        let request = Request { classes: self.classes.as_deref(), ..Request::default() };
        Ok(self.model.forward(images, &request)?.logits)
    }
}

impl Method for Balance {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        let z = self.logits(images)?;
        let mean = z.mean(0)?.reshape(self.average.shape())?;
        self.average = self.average.lerp(&mean, 1.0 - self.momentum)?;
        Ok(Step { logits: z.sub(&self.average)?, scalars: Vec::new(), prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        Ok(self.logits(images)?.sub(&self.average)?)
    }

    fn reset(&mut self) -> Result<()> {
        self.average = Tensor::zeros(self.average.shape(), self.average.device())?;
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = State::default();
        state.tensors.insert("average".into(), self.average.clone());
        Ok(state)
    }

    fn load(&mut self, state: &State) -> Result<()> {
        self.average = state.tensor("average")?.clone();
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        Vec::new()
    }

    fn model(&self) -> Option<&dyn Backbone> {
        Some(self.model.as_ref())
    }
}
