//! The contrastive part of RMT and SANTA: in the space of a small projector, the features of a sample and of its view
//! and the nearest prototype are pulled together, away from those of the other samples.

use paint_nn::loss;
use paint_nn::optim::Optimizer;
use paint_nn::params::{Params, Part, Role, Slot};
use paint_settings::{at_least, settings};
use paint_tensor::{Gradients, Tensor};

use paint_nn::state::State;

use crate::Result;
use crate::attached::Attached;
use crate::draws::ProjectorDraws;
use crate::learner::Learner;
use crate::prototypes::Prototypes;
use crate::source_data::Labelled;

settings! {
    /// The settings of prototypes and projector, the `contrast` table of a method.
    #[derive(Debug, Clone, PartialEq)]
    #[serde(default)]
    pub struct Projection {
        /// The prototypes are estimated from at most this many source images.
        #[within(at_least(1.0))]
        pub images: usize,
        /// The batch size of that estimate.
        #[within(at_least(1.0))]
        pub batch: usize,
        /// The width of both layers of the projector.
        #[within(at_least(1.0))]
        pub width: usize,
        /// `τ`, the temperature of the contrastive loss.
        #[within(at_least(1e-6))]
        pub temperature: f64,
    }
}

impl Default for Projection {
    /// The values of RMT's and SANTA's authors, with our batch size.
    fn default() -> Self {
        Self { images: 100_000, batch: 50, width: 128, temperature: 0.1 }
    }
}

/// Prototypes, and the projector `D → width → ReLU → width`.
#[derive(Clone)]
pub(crate) struct Contrast {
    prototypes: Prototypes,
    projector: Attached,
    temperature: f32,
}

impl Contrast {
    /// The prototypes of the learner's source, and a projector whose first values are uniform in `±1/√inputs`, as
    /// those of a linear layer in PyTorch.
    pub(crate) fn new(
        learner: &Learner,
        source: &Labelled,
        how: &Projection,
        optimizer: Optimizer,
        draws: &dyn ProjectorDraws,
    ) -> Result<Self> {
        let prototypes = Prototypes::estimate(learner, source, how.images, how.batch)?;
        let (mut params, device, d) =
            (Params::default(), learner.device(), learner.spec().feature_dim);
        for (layer, part, inputs) in [("fc1", Part::Fc1, d), ("fc2", Part::Fc2, how.width)] {
            let bound = 1.0 / (inputs as f32).sqrt();
            for (name, slot, shape) in [
                ("weight", Slot::Weight, vec![how.width, inputs]),
                ("bias", Slot::Bias, vec![how.width]),
            ] {
                let start = draws.projector(params.len(), shape.iter().product());
                let start = start.into_iter().map(|u| bound * (2.0 * u - 1.0)).collect();
                let role = Role::Block { index: 0, part, slot };
                let tensor = Tensor::from_vec(start, shape, &device)?;
                params.insert(format!("{layer}.{name}"), role, tensor)?;
            }
        }
        let projector = Attached::new(params, optimizer);
        Ok(Self { prototypes, projector, temperature: how.temperature as f32 })
    }

    /// Lets gradients reach the projector.
    pub(crate) fn track(&mut self) {
        self.projector.track();
    }

    /// The supervised contrastive loss over `3B` rows, where the three of a sample are positives.
    /// Features of the samples and of their views, `[B, D]` each → `[]`
    pub(crate) fn loss(&self, features: &Tensor, of_views: &Tensor) -> Result<Tensor> {
        let [b, _] = features.dims2("features")?;
        let nearest = self.prototypes.nearest(features)?;
        let rows = Tensor::concat(&[&nearest, features, of_views], 0)?; // [3B, D]
        let layer = |x: &Tensor, number: usize| {
            x.linear(self.projector.value(number), Some(self.projector.value(number + 1)))
        };
        let projected = layer(&layer(&rows, 0)?.relu()?, 2)?;
        let samples: Vec<usize> = (0..3 * b).map(|row| row % b).collect();
        Ok(loss::supervised_contrastive(&projected, &samples, self.temperature)?)
    }

    /// One step of the projector.
    pub(crate) fn update(&mut self, gradients: &Gradients, learner: &Learner) -> Result<()> {
        self.projector.update(gradients, learner)
    }

    /// The names of what trains.
    pub(crate) fn names(&self) -> Vec<String> {
        self.projector.names("projector")
    }

    /// The projector and the state of its optimizer.
    pub(crate) fn save(&self) -> State {
        let mut state = State::default();
        state.nest("projector", self.projector.save());
        state
    }

    /// Continues from a state of [`Contrast::save`].
    pub(crate) fn load(&mut self, state: &State) -> Result<()> {
        self.projector.load(&state.part("projector"))
    }
}
