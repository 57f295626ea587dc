//! What the baselines have in common as methods: a batch is checked, an adaptation that fails is undone, and a reset
//! brings back the method as it was deployed.

use paint_nn::backbone::Backbone;
use paint_tensor::Tensor;

use crate::learner::Learner;
use crate::method::{Method, State, Step};
use crate::{Result, images};

/// The part of a method that is its own. A clone is a snapshot.
pub(crate) trait Adapt: Clone + Send {
    /// The network that learns.
    fn learner(&self) -> &Learner;

    /// The network that learns, to change it.
    fn learner_mut(&mut self) -> &mut Learner;

    /// Adapts to a batch that has been checked, and predicts it. An error may leave anything behind.
    fn adapt(&mut self, images: &Tensor) -> Result<Step>;

    /// `[B, C]` logits with the present state.
    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        self.learner().logits(images)
    }

    /// What changes beside the network, its optimizer and the count of batches.
    fn save_rest(&self) -> Result<State> {
        Ok(State::default())
    }

    /// Continues from what [`Adapt::save_rest`] gave.
    fn load_rest(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }

    /// Names of trained parameters beside the network's.
    fn trainable_rest(&self) -> Vec<String> {
        Vec::new()
    }

    /// The network that training changes.
    fn model(&self) -> Option<&dyn Backbone> {
        Some(self.learner().model())
    }

    /// The true domain of the batches to come.
    fn set_domain(&mut self, _domain: Option<usize>) {}
}

/// A method, and what it was when it was deployed.
pub(crate) struct Deployed<A> {
    fresh: A,
    now: A,
}

impl<A: Adapt> Deployed<A> {
    /// Deploys.
    pub(crate) fn new(fresh: A) -> Self {
        let now = fresh.clone();
        Self { fresh, now }
    }

    fn try_step(&mut self, images: &Tensor) -> Result<Step> {
        let step = self.now.adapt(&images.detach())?;
        self.now.learner_mut().finish()?;
        for value in step.logits.to_vec()? {
            self.now.learner().finite("a logit", value)?;
        }
        Ok(step)
    }
}

impl<A: Adapt> Method for Deployed<A> {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        images::check(images, self.now.learner().spec())?;
        let before = self.now.clone();
        self.try_step(images).inspect_err(|_| self.now = before)
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        images::check(images, self.now.learner().spec())?;
        self.now.predict(&images.detach())
    }

    fn reset(&mut self) -> Result<()> {
        self.now = self.fresh.clone();
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = self.now.learner().save();
        let rest = self.now.save_rest()?;
        state.tensors.extend(rest.tensors);
        state.counters.extend(rest.counters);
        Ok(state)
    }

    fn load(&mut self, state: &State) -> Result<()> {
        let mut next = self.fresh.clone();
        next.learner_mut().load(state)?;
        next.load_rest(state)?;
        self.now = next;
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        let learner = self.now.learner();
        let mut names = learner.model().params().names(learner.trained());
        names.extend(self.now.trainable_rest());
        names
    }

    fn model(&self) -> Option<&dyn Backbone> {
        self.now.model()
    }

    fn set_domain(&mut self, domain: Option<usize>) {
        self.now.set_domain(domain);
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
