//! A slow change from each corruption to the next.
//!
//! Between two neighbours of the sequence there are five visits. The first corruption goes through severities 5 to 1,
//! the second through 1 to 5, and the share of images from the second rises from 10 to 90 %.

use super::{SampleRef, Stream, plan::Plan};
use crate::corruption::Corruption;
use crate::{Error, Result};

impl Plan<'_> {
    /// Every pair of neighbours, visited at five mixtures.
    pub(super) fn ramp(&self) -> Result<Stream> {
        let names = self.names()?;
        if names.len() < 2 {
            return Err(Error::Argument {
                what: "domains of a ramp",
                expected: "two or more".into(),
                got: names.len().to_string(),
            });
        }
        let mut batches = Vec::new();
        for pair in names.windows(2) {
            for step in 1..=Corruption::MAX_SEVERITY {
                let falling = self.find_severe(&pair[0], Corruption::MAX_SEVERITY + 1 - step)?;
                let rising = self.find_severe(&pair[1], step)?;
                let segment = batches.last().map_or(0, |last: &super::BatchPlan| last.segment + 1);
                let samples = self.mixture([falling, rising], share(step), segment);
                batches.extend(self.batches(&samples, segment));
            }
        }
        self.non_empty(batches)
    }

    /// The images of a visit, each from the second domain with probability `share` and otherwise from the first.
    fn mixture(&self, domains: [usize; 2], share: f64, segment: usize) -> Vec<SampleRef> {
        let mut rng = self.seed.derive("scenario/ramp", &[segment as u64]);
        let pick = |sample: SampleRef| {
            let is_second = rng.uniform() < share;
            SampleRef { domain: domains[usize::from(is_second)], ..sample }
        };
        self.samples(domains[0], segment).into_iter().map(pick).collect()
    }
}

/// The share of the second corruption in a visit: 10, 30, 50, 70 and 90 %.
fn share(step: u8) -> f64 {
    (f64::from(step) - 0.5) / f64::from(Corruption::MAX_SEVERITY)
}
