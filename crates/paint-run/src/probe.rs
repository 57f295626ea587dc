//! What adaptation does to what the model knew before: after every visit the present state predicts the clean source
//! images again, and the domains visited so far. Predicting changes nothing, so the stream goes on as if nobody had
//! looked.
//!
//! A method with prompts meets clean images as a domain of its own, and a prompt that no step has tuned is not what the
//! paper means by one for the source. With `learn`, a copy of the method also tunes that prompt on the clean images,
//! without their labels, and predicts them once more; the network stays as the stream left it.
//!
//! The other way of the field (EATA), clean images as visits of their own with adaptation left on, is a `custom`
//! scenario.

use std::sync::Arc;

use paint_data::{Dataset, Loader, ReadAhead, SampleRef, Stream, dataset};
use paint_methods::Method;
use paint_rng::Seed;
use paint_tensor::Device;
use serde::{Deserialize, Serialize};

use crate::metric::{Glance, Score};
use crate::upload::Uploads;
use crate::{Error, Result, fit};

/// The most batches that a prompt is learnt from.
const MOST_LESSONS: usize = 10_000;

/// The name of the domain of clean images.
pub const CLEAN: &str = "clean";

/// The domain of clean images, if a dataset has one.
pub fn clean_domain(data: &dyn Dataset) -> Option<usize> {
    data.domains().iter().position(|domain| domain.name == CLEAN)
}

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Clean source images. Default: none.
    pub clean: usize,
    /// Images of each domain visited so far, the present one included. Default: none.
    pub previous: usize,
    /// Batches of the clean images, round and round, that a prompt is learnt from after each visit. Default: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub learn: usize,
    /// Where the clean images come from, if the stream's dataset has no domain called `clean`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<dataset::Config>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A configuration opened.
pub struct Probe {
    config: Config,
    stream: Arc<dyn Dataset>,
    clean: Option<(Arc<dyn Dataset>, usize)>,
    batch_size: usize,
    device: Device,
}

impl Probe {
    /// Opens `config` beside the dataset of a stream; `fit` brings images to the model's size.
    pub(crate) fn open(
        config: &Config,
        stream: &Arc<dyn Dataset>,
        batch_size: usize,
        device: &Device,
        fit: impl FnOnce(Arc<dyn Dataset>, &dataset::Options) -> Result<Arc<dyn Dataset>>,
    ) -> Result<Self> {
        let of = |data: &Arc<dyn Dataset>| Some((Arc::clone(data), clean_domain(&**data)?));
        let clean = match &config.data {
            Some(other) => of(&fit(other.open(Seed(0))?.into(), &other.options)?),
            None => of(stream),
        };
        if config.clean > 0 && clean.is_none() {
            return Err(Error::config(
                "probe.clean: the dataset has no domain called \"clean\"; give --clean-data, or probe.data.name and probe.data.path",
            ));
        }
        if config.learn > MOST_LESSONS {
            let got = config.learn;
            return Err(Error::config(format!(
                "probe.learn: expected at most {MOST_LESSONS}, got {got}"
            )));
        }
        if config.learn > 0 && config.clean == 0 {
            return Err(Error::config(
                "probe.learn: there is nothing to learn from, probe.clean is 0",
            ));
        }
        let (config, stream, device) = (config.clone(), Arc::clone(stream), device.clone());
        Ok(Self { config, stream, clean, batch_size, device })
    }

    /// The clean images that were given beside the stream's dataset, and their domain.
    pub(crate) fn given(&self) -> Option<(&dyn Dataset, usize)> {
        let (data, domain) = self.clean.as_ref().filter(|_| self.config.data.is_some())?;
        Some((&**data, *domain))
    }

    /// Looks, after a visit; `seen` are the domains visited so far.
    pub(crate) fn look(
        &self,
        method: &mut dyn Method,
        after: usize,
        seen: &[usize],
    ) -> Result<Glance> {
        let percent = |(right, of): (usize, usize)| 100.0 * right as f64 / of.max(1) as f64;
        let mut glance = Glance { after, clean: None, learnt: None, previous: None };
        if let Some((data, domain)) = self.clean.as_ref().filter(|_| self.config.clean > 0) {
            // An oracle is told a domain it has no prompt for.
            let told = self.stream.domains().len();
            let counts = self.count(method, data, *domain, told, self.config.clean)?;
            glance.clean = Some(percent(counts));
            if let Some(mut copy) = method.prompt_learner().filter(|_| self.config.learn > 0) {
                self.teach(&mut *copy, data, *domain)?;
                let counts = self.count(&mut *copy, data, *domain, told, self.config.clean)?;
                glance.learnt = Some(percent(counts));
            }
        }
        if self.config.previous > 0 {
            let mut sum = (0, 0);
            for &domain in seen {
                let (right, of) =
                    self.count(method, &self.stream, domain, domain, self.config.previous)?;
                sum = (sum.0 + right, sum.1 + of);
            }
            glance.previous = Some(percent(sum));
        }
        Ok(glance)
    }

    /// Adapts a copy to the first images of a domain.
    fn teach(&self, copy: &mut dyn Method, data: &Arc<dyn Dataset>, domain: usize) -> Result<()> {
        let images = self.config.clean.min(data.len(domain));
        let batch_size = self.batch_size.min(images);
        let samples: Vec<SampleRef> = (0..self.config.learn * batch_size)
            .map(|at| SampleRef { domain, index: at % images })
            .collect();
        let stream = Stream::of(&samples, batch_size);
        for batch in
            Uploads::new(Loader::new(Arc::clone(data), stream, ReadAhead::default()), &self.device)
        {
            fit::step(copy, &batch?.images)?;
        }
        Ok(())
    }

    /// How many of the first images of a domain are predicted right, and of how many.
    fn count(
        &self,
        method: &mut dyn Method,
        data: &Arc<dyn Dataset>,
        domain: usize,
        told: usize,
        limit: usize,
    ) -> Result<(usize, usize)> {
        let samples: Vec<SampleRef> =
            (0..limit.min(data.len(domain))).map(|index| SampleRef { domain, index }).collect();
        let stream = Stream::of(&samples, self.batch_size);
        let loader = Loader::new(Arc::clone(data), stream, ReadAhead::default());
        method.set_domain(Some(told));
        let mut right = 0;
        for batch in Uploads::new(loader, &self.device) {
            let batch = batch?;
            let logits = method.probe(&batch.images)?;
            let classes = logits.shape().last().copied().unwrap_or(1);
            let rows = logits.to_vec()?;
            let scores = rows
                .chunks_exact(classes)
                .zip(batch.labels)
                .map(|(row, label)| Score::of(row, label));
            right += scores.filter(|score| score.correct == Some(true)).count();
        }
        Ok((right, samples.len()))
    }
}

#[cfg(test)]
mod tests {
    use paint_data::{Domain, Image, Info, Sample, dataset::Memory};
    use paint_methods::{Error as MethodError, State, Step};
    use paint_tensor::Tensor;

    use super::*;

    const CLASSES: usize = 4;

    /// Predicts for every image the number of steps so far.
    struct Counting(usize);

    impl Method for Counting {
        fn step(&mut self, images: &Tensor) -> paint_methods::Result<Step> {
            assert!(images.shape()[0] <= 3, "the same image twice");
            self.0 += 1;
            Ok(Step { logits: self.predict(images)?, scalars: Vec::new(), prompt: None })
        }

        fn predict(&self, images: &Tensor) -> paint_methods::Result<Tensor> {
            let row = (0..CLASSES).map(|class| f32::from(u8::from(class == self.0)));
            let b = images.shape()[0];
            let rows = row.collect::<Vec<_>>().repeat(b);
            Ok(Tensor::from_vec(rows, [b, CLASSES], images.device())?)
        }

        fn prompt_learner(&self) -> Option<Box<dyn Method>> {
            Some(Box::new(Self(self.0)))
        }

        fn reset(&mut self) -> paint_methods::Result<()> {
            self.0 = 0;
            Ok(())
        }

        fn save(&self) -> paint_methods::Result<State> {
            Ok(State::default())
        }

        fn load(&mut self, _state: &State) -> paint_methods::Result<()> {
            Err(MethodError::NoDomain)
        }

        fn trainable(&self) -> Vec<String> {
            Vec::new()
        }
    }

    /// Three clean images of class 2.
    fn data() -> Arc<dyn Dataset> {
        let info =
            Info { name: "memory", num_classes: CLASSES, class_indices: None, class_names: None };
        let sample = Sample { image: Image::new(2, 1, vec![9; 6]).unwrap(), label: Some(2) };
        Arc::new(Memory::new(info, vec![(Domain::clean(), vec![sample; 3])]).unwrap())
    }

    fn open(config: &Config, batch_size: usize) -> Result<Probe> {
        Probe::open(config, &data(), batch_size, &Device::cpu(), |data, _| Ok(data))
    }

    #[test]
    fn a_copy_takes_as_many_steps_as_batches_are_asked_for_and_the_method_takes_none() {
        // Batches of two reach around the three images, and one of five is cut to them.
        for (learn, batch_size, seen) in [(2, 2, 100.0), (3, 2, 0.0), (2, 5, 100.0)] {
            let config = Config { clean: 3, learn, ..Config::default() };
            let mut method = Counting(0);
            let probe = open(&config, batch_size).unwrap();
            let glance = probe.look(&mut method, 0, &[]).unwrap();
            assert_eq!((glance.clean, glance.learnt), (Some(0.0), Some(seen)), "{learn}");
            assert_eq!(method.0, 0);
        }
        let config = Config { clean: 3, ..Config::default() };
        let glance = open(&config, 2).unwrap().look(&mut Counting(2), 0, &[]).unwrap();
        assert_eq!((glance.clean, glance.learnt), (Some(100.0), None));
    }

    #[test]
    fn learning_needs_clean_images_and_no_learning_leaves_no_key() {
        let error = open(&Config { learn: 1, ..Config::default() }, 2).err().unwrap().to_string();
        assert!(error.contains("probe.learn"), "{error}");
        assert!(!toml::to_string(&Config::default()).unwrap().contains("learn"));
    }
}
