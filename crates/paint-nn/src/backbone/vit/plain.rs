//! Plain forward passes of a network that does not learn, which a device may record and replay: one image keeps the
//! host busier than a GPU.

use std::fmt;

use paint_tensor::{Routine, Tensor};

use super::Vit;
use crate::backbone::{Attention, Backbone, Features, LastBlock, Pooling, Request};
use crate::error::Result;
use crate::params::Param;

/// Equal passes in a row before one is recorded. A network that learns between every few of them gains nothing by it.
const PATIENCE: u32 = 4;

/// The replays of one network. A duplicate, which may come to other weights, has its own.
pub(super) struct Plain(Routine);

impl Default for Plain {
    fn default() -> Self {
        Self(Routine::after(PATIENCE))
    }
}

impl Clone for Plain {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plain").field(&self.0.is_recorded()).finish()
    }
}

impl Plain {
    /// The features that `model` gives for images when it is asked for nothing else.
    pub(super) fn features(&self, model: &Vit, images: &Tensor) -> Result<Features> {
        let request = Request::default();
        let compute = |images: &[Tensor]| -> Result<Vec<Tensor>> {
            let features = model.forward_embedded(&model.embed(&images[0])?, &request)?;
            Ok(vec![features.pooled, features.logits])
        };
        let weights = model.params().iter().map(Param::tensor);
        let given = self.0.run_with(&[images], weights, compute)?;
        let [pooled, logits] = [0, 1].map(|at| given[at].clone());
        Ok(Features { pooled, logits, attention: Vec::new(), statistics: Vec::new() })
    }
}

/// Whether a pass is the same every time: nothing is differentiated, and nothing but the features is asked for.
pub(super) fn is_plain(model: &Vit, images: &Tensor, request: &Request<'_>) -> bool {
    let Request {
        prompt: None,
        position: _,
        pooling: Pooling::Cls,
        patches: None,
        classes: None,
        attention: Attention::Omit,
        branches: [],
        batch_size: _,
        statistics: _,
        last_block: LastBlock::Pooled,
        after_block: None,
    } = request
    else {
        return false;
    };
    let learns = model.params().iter().any(|param| param.tensor().requires_grad());
    !images.requires_grad() && !learns
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;
    use paint_tensor::Device;

    use super::super::VitConfig;
    use super::*;
    use crate::backbone::{BuildOptions, Weights};

    /// On the device that `PAINT_TEST_DEVICE` names: a GPU records plain passes, the CPU computes them every time.
    #[test]
    fn a_plain_pass_has_the_bits_of_its_parts_whatever_came_before() {
        let device = std::env::var("PAINT_TEST_DEVICE")
            .map_or_else(|_| Device::cpu(), |name| Device::from_name(&name).unwrap());
        let config = VitConfig { depth: 2, ..VitConfig::tiny_patch4_32() };
        let options = BuildOptions::new(&device);
        let build =
            |seed| Vit::build("test", config, Weights::Random(Seed(seed)), &options).unwrap();
        let (mut model, other) = (build(0), build(1));
        let pixels = |seed: usize| {
            let values = (0..2 * 3 * 32 * 32).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 101.0);
            Tensor::from_vec(values.collect(), [2, 3, 32, 32], &device).unwrap()
        };
        let check = |model: &Vit, images: &Tensor, request: &Request<'_>| {
            let parts = model.forward_embedded(&model.embed(images).unwrap(), request).unwrap();
            let whole = model.forward(images, request).unwrap();
            assert_eq!(whole.logits.to_vec().unwrap(), parts.logits.to_vec().unwrap());
            assert_eq!(whole.pooled.to_vec().unwrap(), parts.pooled.to_vec().unwrap());
        };
        let classes = Request { classes: Some(&[3, 1]), ..Request::default() };
        let id = model.params().id("blocks.0.mlp.fc1.weight").unwrap();
        let weights = [&model, &other].map(|model| model.params()[id].clone());
        for round in 0..3 {
            for weight in &weights {
                model.params_mut().set(id, weight).unwrap();
                for step in 0..8 {
                    check(&model, &pixels(step + round), &Request::default());
                }
                assert_eq!(model.plain.0.is_recorded(), device.memory().is_some());
                check(&model, &pixels(0), &classes);
                check(&model.clone(), &pixels(1), &Request::default());
            }
        }
    }
}
