//! What a method asks of its network: how many images go forward and backward, and the attention of its last
//! prediction.
//!
//! A [`Watched`] model stands between a method and its backbone and changes nothing of what passes. Methods duplicate
//! the model they are given; all duplicates report to one [`Watch`], so that teachers and anchors are counted too. A
//! method that replays recorded passes works on an [unwatched](Backbone::unwatched) duplicate and reports them
//! itself.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::vit::VitConfig;
use super::{Attention, Backbone, BnMode, Family, Features, Request, Spec};
use crate::error::Result;
use crate::params::Params;

/// Images that passed through the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passes {
    /// Forward.
    pub forward: u64,
    /// Forward in a way that is differentiated.
    pub backward: u64,
}

/// Where the watched models of one method report to.
#[derive(Debug, Default)]
pub struct Watch {
    forward: AtomicU64,
    backward: AtomicU64,
    looking: AtomicBool,
    last: Mutex<Option<Features>>,
}

impl Watch {
    /// What passed since the last call.
    pub fn take(&self) -> Passes {
        Passes {
            forward: self.forward.swap(0, Ordering::Relaxed),
            backward: self.backward.swap(0, Ordering::Relaxed),
        }
    }

    /// The features of the last forward pass made in `work`, with attention maps, if the network has any, that a
    /// backward pass gives gradients.
    pub fn attention<T, E>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<Option<Features>, E> {
        self.looking.store(true, Ordering::Relaxed);
        let done = work();
        self.looking.store(false, Ordering::Relaxed);
        let last = mem::take(&mut *self.last.lock().unwrap_or_else(PoisonError::into_inner));
        done.map(|_| last)
    }
}

/// A model under watch.
pub struct Watched {
    inner: Box<dyn Backbone>,
    watch: Arc<Watch>,
}

impl Watched {
    /// A duplicate of `model` that reports to `watch`.
    pub fn new(model: &dyn Backbone, watch: Arc<Watch>) -> Self {
        Self { inner: model.duplicate(), watch }
    }

    fn watched(
        &self,
        images: usize,
        request: &Request<'_>,
        forward: impl FnOnce(&Request<'_>) -> Result<Features>,
    ) -> Result<Features> {
        let looking = self.watch.looking.load(Ordering::Relaxed);
        let has_attention = self.inner.vit_config().is_some();
        let wanted = looking && has_attention;
        let attention = if wanted { Attention::WithGradient } else { request.attention };
        let features = forward(&Request { attention, ..*request })?;
        self.note_pass(images, !looking && features.logits.requires_grad());
        if looking {
            let mut last = self.watch.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(features.clone());
        }
        Ok(features)
    }
}

impl Backbone for Watched {
    fn spec(&self) -> &Spec {
        self.inner.spec()
    }

    fn family(&self) -> Family {
        self.inner.family()
    }

    fn vit_config(&self) -> Option<&VitConfig> {
        self.inner.vit_config()
    }

    fn params(&self) -> &Params {
        self.inner.params()
    }

    fn params_mut(&mut self) -> &mut Params {
        self.inner.params_mut()
    }

    fn duplicate(&self) -> Box<dyn Backbone> {
        Box::new(Self { inner: self.inner.duplicate(), watch: Arc::clone(&self.watch) })
    }

    fn unwatched(&self) -> Box<dyn Backbone> {
        self.inner.duplicate()
    }

    fn note_pass(&self, images: usize, differentiated: bool) {
        self.watch.forward.fetch_add(images as u64, Ordering::Relaxed);
        if differentiated {
            self.watch.backward.fetch_add(images as u64, Ordering::Relaxed);
        }
    }

    fn set_batch_norm(&mut self, mode: BnMode) {
        self.inner.set_batch_norm(mode);
    }

    fn mixes_images(&self) -> bool {
        self.inner.mixes_images()
    }

    fn running_statistics(&self) -> Vec<(String, Tensor)> {
        self.inner.running_statistics()
    }

    fn set_running_statistics(&mut self, values: &BTreeMap<String, Tensor>) -> Result<()> {
        self.inner.set_running_statistics(values)
    }

    fn embed(&self, images: &Tensor) -> Result<Tensor> {
        self.inner.embed(images)
    }

    fn forward_embedded(&self, embedding: &Tensor, request: &Request<'_>) -> Result<Features> {
        let images = embedding.shape().first().copied().unwrap_or(0);
        self.watched(images, request, |request| self.inner.forward_embedded(embedding, request))
    }

    fn forward(&self, images: &Tensor, request: &Request<'_>) -> Result<Features> {
        let count = images.shape().first().copied().unwrap_or(0);
        self.watched(count, request, |request| self.inner.forward(images, request))
    }
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;
    use paint_tensor::Device;

    use super::*;
    use crate::backbone::vit::Vit;
    use crate::backbone::{BuildOptions, Weights, find};
    use crate::params::Trainable;

    fn tiny() -> Vit {
        let config = VitConfig { depth: 2, ..VitConfig::tiny_patch4_32() };
        let options = BuildOptions::new(&Device::cpu());
        Vit::build("test", config, Weights::Random(Seed(0)), &options).unwrap()
    }

    #[test]
    fn passes_of_all_duplicates_are_counted_and_nothing_changes() {
        let (model, watch) = (tiny(), Arc::new(Watch::default()));
        let watched = Watched::new(&model, Arc::clone(&watch));
        let images = Tensor::full([3, 3, 32, 32], 0.25, &Device::cpu()).unwrap();
        let request = Request::default();
        let plain = model.forward(&images, &request).unwrap().logits.to_vec().unwrap();
        let mut student = watched.duplicate();
        let seen = student.forward(&images, &request).unwrap().logits.to_vec().unwrap();
        assert_eq!(seen, plain);
        student.params_mut().track(&Trainable::Blocks(0..1));
        student.forward(&images, &request).unwrap();
        watched.forward(&images, &request).unwrap();
        watched.unwatched().forward(&images, &request).unwrap();
        watched.note_pass(5, true);
        assert_eq!(watch.take(), Passes { forward: 14, backward: 8 });
        assert_eq!(watch.take(), Passes::default());
    }

    #[test]
    fn the_last_prediction_can_be_looked_into() {
        let (model, watch) = (tiny(), Arc::new(Watch::default()));
        let watched = Watched::new(&model, Arc::clone(&watch));
        let images = Tensor::full([1, 3, 32, 32], 0.25, &Device::cpu()).unwrap();
        let look = || watched.forward(&images, &Request::default());
        let features = watch.attention(look).unwrap().unwrap();
        assert_eq!(features.attention.len(), 2);
        let gradients = features.logits.sum_all().unwrap().backward().unwrap();
        let gradient = features.attention[0].gradient(&gradients).unwrap().unwrap();
        assert_eq!(gradient.shape(), features.attention[0].map.shape());
        assert!(look().unwrap().attention.is_empty());
    }

    #[test]
    fn a_network_without_attention_is_looked_at_without_maps() {
        let options = BuildOptions::new(&Device::cpu());
        let entry = find("cifar_resnet20").unwrap();
        let (model, watch) =
            (entry.build(Weights::Random(Seed(0)), &options).unwrap(), Arc::new(Watch::default()));
        let watched = Watched::new(&*model, Arc::clone(&watch));
        let images = Tensor::full([1, 3, 32, 32], 0.25, &Device::cpu()).unwrap();
        let features = watch.attention(|| watched.forward(&images, &Request::default())).unwrap();
        assert!(features.unwrap().attention.is_empty());
    }
}
