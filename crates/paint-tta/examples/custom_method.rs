//! A method of your own, in a crate of your own, beside those of this library in a benchmark.
//!
//! `balanced` keeps the running mean of its predictions and lowers the logits of the classes that it predicts too
//! often: `z'_c = z_c - strength ln p_c`. The network stays as it is.
//!
//! ```sh
//! cargo run --release -p paint-tta --example custom_method
//! ```

use std::error::Error;
use std::path::Path;

use paint_tta::Registry;
use paint_tta::bench::{Grid, Place, Protocol, Results, Variant, execute, results_terminal};
use paint_tta::method::{
    Backbone, BuildArgs, Method, MethodEntry, Request, Result, Settings, State, Step, Tensor, check,
};
use serde::{Deserialize, Serialize};

/// The row that makes the method known by its name.
pub(crate) const ROW: MethodEntry = MethodEntry::new(
    Config::METHOD,
    |args, settings| Ok(Box::new(Balanced::new(args, Config::read(settings)?)?)),
    |settings| Config::read(settings)?.table(),
)
.what("the frozen model, its logits balanced by the running mean of its predictions");

#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// How much of the imbalance is removed, from 0 to 1.
    pub(crate) strength: f64,
    /// The weight of the past in the running mean.
    pub(crate) momentum: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { strength: 0.5, momentum: 0.9 }
    }
}

impl Settings for Config {
    const METHOD: &'static str = "balanced";
}

struct Balanced {
    model: Box<dyn Backbone>,
    classes: Option<Vec<usize>>,
    config: Config,
    /// `p`, `[1, C]`; all classes are alike at first.
    mean: Tensor,
}

impl Balanced {
    fn new(args: &BuildArgs<'_>, config: Config) -> Result<Self> {
        let mut model = args.model.duplicate();
        model.params_mut().freeze();
        let classes = args.classes.map(<[usize]>::to_vec);
        let count = classes.as_ref().map_or(model.spec().num_classes, Vec::len);
        let mean = Tensor::full([1, count], 1.0 / count as f32, &model.params().device())?;
        Ok(Self { model, classes, config, mean })
    }

    fn logits(&self, images: &Tensor) -> Result<Tensor> {
        check(images, self.model.spec())?;
        let request = Request { classes: self.classes.as_deref(), ..Request::default() };
        Ok(self.model.forward(images, &request)?.logits)
    }

    fn balance(&self, logits: &Tensor, mean: &Tensor) -> Result<Tensor> {
        Ok(logits.sub(&mean.log()?.scale(self.config.strength as f32)?)?)
    }
}

impl Method for Balanced {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        let logits = self.logits(images)?;
        let batch = logits.softmax()?.mean(0)?.reshape(self.mean.shape())?;
        let mean = self.mean.lerp(&batch, 1.0 - self.config.momentum as f32)?;
        let step =
            Step { logits: self.balance(&logits, &mean)?, scalars: Vec::new(), prompt: None };
        // Last, so that a step that fails changes nothing.
        self.mean = mean;
        Ok(step)
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.balance(&self.logits(images)?, &self.mean)
    }

    fn reset(&mut self) -> Result<()> {
        let share = 1.0 / self.mean.shape()[1] as f32;
        self.mean = Tensor::full(self.mean.shape(), share, self.mean.device())?;
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = State::default();
        state.tensors.insert("mean".into(), self.mean.clone());
        Ok(state)
    }

    fn load(&mut self, state: &State) -> Result<()> {
        self.mean = state.tensor("mean")?.clone();
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The frozen model, TENT and `balanced` on so many images of two domains of the embedded benchmark.
pub(crate) fn compare(out: &Path, images: usize) -> std::result::Result<Results, Box<dyn Error>> {
    let methods = Registry::default().with(ROW)?;
    let place = Place { methods, ..Place::new(out, "embedded") };
    let mut protocol = Protocol::find("embedded")?;
    protocol.scenario.domains = Some(vec!["fog".into(), "contrast".into()]);
    protocol.scenario.limit = Some(images);
    let strong = Config { strength: 1.0, ..Config::default() };
    let variants = vec![
        Variant::plain("source"),
        Variant::plain("tent"),
        Variant::plain("balanced"),
        Variant::typed("strong", &strong)?,
    ];
    let grid = Grid::new(protocol.resolve(&place)?, variants, &place)?;
    let outcome = execute(&grid, 1, &std::sync::Arc::default(), &|_| ());
    Ok(Results::new(&grid, &outcome, "custom_method"))
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> std::result::Result<(), Box<dyn Error>> {
    println!("{}", results_terminal(&compare(Path::new("out/custom_method"), 200)?));
    Ok(())
}
