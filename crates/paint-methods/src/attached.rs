//! Parameters that train beside a network, with an optimizer of their own: a projector, prompts in pixel space, or
//! small networks.

use paint_nn::optim::Optimizer;
use paint_nn::params::{Params, Trainable};
use paint_tensor::{Gradients, Tensor};

use crate::Result;
use crate::learner::{Learner, load_params, save_params, total};
use paint_nn::state::State;

/// Parameters beside a network.
#[derive(Debug, Clone)]
pub(crate) struct Attached {
    params: Params,
    optimizer: Optimizer,
}

impl Attached {
    /// Parameters with their first values; all of them train.
    pub(crate) fn new(params: Params, optimizer: Optimizer) -> Self {
        Self { params, optimizer }
    }

    /// The same values with another optimizer, which begins without a state.
    #[must_use]
    pub(crate) fn with_optimizer(self, optimizer: Optimizer) -> Self {
        Self { optimizer, ..self }
    }

    /// The parameter at this position.
    pub(crate) fn value(&self, number: usize) -> &Tensor {
        let id = self.params.select(&Trainable::All)[number];
        &self.params[id]
    }

    /// Lets gradients reach all of them.
    pub(crate) fn track(&mut self) {
        self.params.track(&Trainable::All);
    }

    /// One optimizer step, after which gradients reach nothing. A value that is not finite is an error of the learner's
    /// batch.
    pub(crate) fn update(&mut self, gradients: &Gradients, learner: &Learner) -> Result<()> {
        self.optimizer.step(&mut self.params, gradients)?;
        self.params.freeze();
        let total = total(&self.params, &Trainable::All, &learner.device())?;
        learner.finite("the sum of the parameters beside the network", total)?;
        Ok(())
    }

    /// Their names, each with a prefix.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        self.params.iter().map(|param| format!("{prefix}.{}", param.name())).collect()
    }

    /// Values and the state of the optimizer.
    pub(crate) fn save(&self) -> State {
        let mut state = State::default();
        state.nest("params", save_params(&self.params, &Trainable::All));
        state.nest("optimizer", self.optimizer.save());
        state
    }

    /// Continues from a state of [`Attached::save`].
    pub(crate) fn load(&mut self, state: &State) -> Result<()> {
        load_params(&mut self.params, &Trainable::All, &state.part("params"))?;
        Ok(self.optimizer.load(&state.part("optimizer"))?)
    }
}
