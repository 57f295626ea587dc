//! Source: the model as it was trained, without adaptation. Every other method is compared with it.
//!
//! Symbols: `f` the model with the running statistics of its batch norms, `z` logits. For each batch:
//!
//! 1. `z = f(x)`.
//!
//! # Fidelity
//! There is no paper and nothing to set.

use std::sync::Arc;

use paint_nn::backbone::{Backbone, Request};
use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::build_args::BuildArgs;
use crate::entry::{MethodEntry, Networks, Presets, SourceNeed};
use crate::images::Check;
use crate::method::{Method, Predictor, State, Step};
use crate::settings::Settings;

/// The source model has no settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Settings for Config {
    const METHOD: &'static str = "source";
}

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "source",
    paper: "none",
    what: "the source model, frozen",
    needs_source: SourceNeed::None,
    runs_on: Networks::All,
    works_on_single_images: true,
    presets: Presets::None,
    keys: &[],
    build: |args, settings| {
        Config::read(settings)?;
        Ok(Box::new(Source::new(args)))
    },
    resolve: |settings| Config::read(settings)?.table(),
};

struct Source {
    model: Box<dyn Backbone>,
    classes: Option<Vec<usize>>,
}

impl Source {
    fn new(args: &BuildArgs<'_>) -> Self {
        let model = args.frozen_model();
        Self { model, classes: args.classes.map(<[usize]>::to_vec) }
    }
}

impl Predictor for Source {
    fn logits(&self, images: &Tensor) -> Result<Tensor> {
        let check = Check::begin(images, self.model.spec())?;
        let request = Request { classes: self.classes.as_deref(), ..Request::default() };
        let logits = self.model.forward(images, &request)?.logits;
        check.finish()?;
        Ok(logits)
    }
}

impl Method for Source {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        Ok(Step { logits: self.predict(images)?, scalars: Vec::new(), prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.logits(images)
    }

    fn predictor(&self) -> Option<Arc<dyn Predictor>> {
        Some(Arc::new(Self { model: self.model.duplicate(), classes: self.classes.clone() }))
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    fn save(&self) -> Result<State> {
        Ok(State::default())
    }

    fn load(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        Vec::new()
    }

    fn model(&self) -> Option<&dyn Backbone> {
        Some(self.model.as_ref())
    }
}
