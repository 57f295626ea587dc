//! What adaptation does to what the model knew before: after every visit the present state predicts the clean source
//! images again, and the domains visited so far. Predicting changes nothing, so the stream goes on as if nobody had
//! looked.
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
use crate::{Error, Result};

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
    /// Where the clean images come from, if the stream's dataset has no domain called `clean`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<dataset::Config>,
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
        let mut glance = Glance { after, clean: None, previous: None };
        if let Some((data, domain)) = self.clean.as_ref().filter(|_| self.config.clean > 0) {
            // An oracle is told a domain it has no prompt for.
            let told = self.stream.domains().len();
            let counts = self.count(method, data, *domain, told, self.config.clean)?;
            glance.clean = Some(percent(counts));
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
