//! What the baselines share as methods: a batch is checked first, a step that fails is undone, and a reset restores the
//! method as it was deployed.

use std::sync::Arc;

use paint_nn::backbone::Backbone;
use paint_tensor::Tensor;

use crate::learner::Learner;
use crate::method::{Method, Predictor, State, Step};
use crate::{Result, images};

/// What distinguishes one baseline from another. A clone is a snapshot.
pub(crate) trait Adapt: Clone + Send + Sync + 'static {
    /// The network that learns.
    fn learner(&self) -> &Learner;

    /// The network that learns, mutably.
    fn learner_mut(&mut self) -> &mut Learner;

    /// Adapts to a batch that has been checked, and predicts it. After an error the caller restores a snapshot.
    fn adapt(&mut self, images: &Tensor) -> Result<Step>;

    /// `[B, C]` logits with the current state.
    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.learner().logits(images)
    }

    /// The state beside the network, its optimizer and the number of batches.
    fn save_rest(&self) -> Result<State> {
        Ok(State::default())
    }

    /// Continues from a state of [`Adapt::save_rest`].
    fn load_rest(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }

    /// The names of trained parameters that are not the network's.
    fn trainable_rest(&self) -> Vec<String> {
        Vec::new()
    }

    /// The adapted network.
    fn model(&self) -> Option<&dyn Backbone> {
        Some(self.learner().model())
    }

    /// Whether the logits of an image depend on the rest of its batch.
    fn mixes_images(&self) -> bool {
        self.model().is_some_and(Backbone::mixes_images)
    }

    /// Sets the true domain of the next batches.
    fn set_domain(&mut self, _domain: Option<usize>) {}

    /// Whether the classifier is the method's own.
    fn has_own_classifier(&self) -> bool {
        false
    }
}

/// A method, and a snapshot of it from its deployment.
pub(crate) struct Deployed<A> {
    initial: A,
    current: A,
}

impl<A: Adapt> Deployed<A> {
    /// Deploys a method.
    pub(crate) fn new(initial: A) -> Self {
        let current = initial.clone();
        Self { initial, current }
    }

    fn try_step(&mut self, images: &Tensor) -> Result<Step> {
        let step = self.current.adapt(&images.detach())?;
        self.current.learner_mut().finish()?;
        for value in step.logits.to_vec()? {
            self.current.learner().finite("a logit", value)?;
        }
        Ok(step)
    }
}

/// One state of a method.
struct Reader<A>(A);

impl<A: Adapt> Predictor for Reader<A> {
    fn logits(&self, images: &Tensor) -> Result<Tensor> {
        checked(&self.0, images)
    }
}

fn checked<A: Adapt>(method: &A, images: &Tensor) -> Result<Tensor> {
    images::check(images, method.learner().spec())?;
    method.predict(&images.detach())
}

impl<A: Adapt> Method for Deployed<A> {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        images::check(images, self.current.learner().spec())?;
        let before = self.current.clone();
        self.try_step(images).inspect_err(|_| self.current = before)
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        checked(&self.current, images)
    }

    fn predictor(&self) -> Option<Arc<dyn Predictor>> {
        Some(Arc::new(Reader(self.current.clone())))
    }

    fn reset(&mut self) -> Result<()> {
        self.current = self.initial.clone();
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = self.current.learner().save();
        let rest = self.current.save_rest()?;
        state.tensors.extend(rest.tensors);
        state.counters.extend(rest.counters);
        Ok(state)
    }

    fn load(&mut self, state: &State) -> Result<()> {
        let mut next = self.initial.clone();
        next.learner_mut().load(state)?;
        next.load_rest(state)?;
        self.current = next;
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        let learner = self.current.learner();
        let mut names = learner.model().params().names(learner.trained());
        names.extend(self.current.trainable_rest());
        names
    }

    fn model(&self) -> Option<&dyn Backbone> {
        self.current.model()
    }

    fn mixes_images(&self) -> bool {
        self.current.mixes_images()
    }

    fn set_domain(&mut self, domain: Option<usize>) {
        self.current.set_domain(domain);
    }

    fn has_own_classifier(&self) -> bool {
        self.current.has_own_classifier()
    }
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::vit::{Vit, VitConfig};
    use paint_nn::backbone::{BuildOptions, Weights};
    use paint_rng::Seed;
    use paint_tensor::{Device, Tensor};
    use toml::toml;

    use crate::{BuildArgs, Error, by_name};

    #[test]
    fn a_step_that_poisons_the_parameters_is_undone_and_says_so() {
        let config = VitConfig { depth: 1, ..VitConfig::tiny_patch4_32() };
        let options = BuildOptions::new(&Device::cpu());
        let vit = Vit::build("test", config, Weights::Random(Seed(0)), &options).unwrap();
        let pixels = (0..2 * 3 * 32 * 32).map(|i| (i % 7) as f32 / 7.0).collect();
        let images = Tensor::from_vec(pixels, [2, 3, 32, 32], &Device::cpu()).unwrap();
        let args = BuildArgs::new(&vit, Seed(0));
        let mut method = by_name("tent").unwrap().build(&args, &toml! { lr = 1e300 }).unwrap();
        let before = method.predict(&images).unwrap().to_vec().unwrap();
        assert!(matches!(method.step(&images), Err(Error::Diverged { step: 0, .. })));
        assert_eq!(method.predict(&images).unwrap().to_vec().unwrap(), before);
        assert!(method.save().unwrap().part("optimizer").tensors.is_empty());
    }
}
