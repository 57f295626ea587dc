//! A teacher that follows its student slowly: the moving average of its weights, as in CoTTA, RMT and `RoTTA`.

use paint_nn::backbone::Backbone;
use paint_nn::params::Trainable;

use crate::Result;
use crate::learner::{Learner, load_params, save_params};
use paint_nn::state::State;

/// A network whose weights are a moving average of another's.
pub(crate) struct Teacher {
    model: Box<dyn Backbone>,
    trained: Trainable,
    /// `m`, the share of itself that it keeps.
    momentum: f32,
}

impl Clone for Teacher {
    fn clone(&self) -> Self {
        Self {
            model: self.model.duplicate(),
            trained: self.trained.clone(),
            momentum: self.momentum,
        }
    }
}

impl Teacher {
    /// A teacher that starts as a copy of the learner.
    pub(crate) fn new(learner: &Learner, momentum: f64) -> Self {
        let mut model = learner.model().duplicate();
        model.params_mut().freeze();
        Self { model, trained: learner.trained().clone(), momentum: momentum as f32 }
    }

    /// Its network.
    pub(crate) fn model(&self) -> &dyn Backbone {
        self.model.as_ref()
    }

    /// Its network, to set the statistics of its batch norms.
    pub(crate) fn model_mut(&mut self) -> &mut dyn Backbone {
        self.model.as_mut()
    }

    /// `θ' ← m θ' + (1 − m) θ`.
    pub(crate) fn follow(&mut self, learner: &Learner) -> Result<()> {
        let params = self.model.params_mut();
        for id in params.select(&self.trained) {
            let student = learner.model().params()[id].detach();
            let value = params[id].lerp(&student, 1.0 - self.momentum)?;
            params.set(id, &value)?;
        }
        Ok(())
    }

    /// Its weights.
    pub(crate) fn save(&self) -> State {
        save_params(self.model.params(), &self.trained)
    }

    /// Continues from a state of [`Teacher::save`].
    pub(crate) fn load(&mut self, state: &State) -> Result<()> {
        load_params(self.model.params_mut(), &self.trained, state)
    }
}
