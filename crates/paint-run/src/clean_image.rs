//! The clean image that a corrupted one of the stream was made from.

use paint_data::{Dataset, Sample, SampleRef};

use crate::probe::{Probe, clean_domain};
use crate::{Experiment, Result};

/// A clean image at the model's size.
pub struct CleanImage {
    /// The image and its label.
    pub sample: Sample,
    /// The number of its domain, for an oracle.
    pub domain: usize,
}

impl Experiment {
    /// The clean image that an image of the stream was made from. Known where images are corrupted on the fly, except
    /// for clean ones, and where clean images were given beside the dataset (`probe.data`), as many as the image's
    /// domain has and with the same labels in the same order.
    pub fn clean_image(&self, at: SampleRef) -> Result<Option<CleanImage>> {
        let stream = &*self.dataset;
        let found = if self.config.data.corrupt.is_some() {
            let clean = clean_domain(stream).filter(|clean| *clean != at.domain);
            clean.map(|domain| (stream, domain, domain))
        } else {
            let given = self.probe.as_ref().and_then(Probe::given);
            let given = given.filter(|given| are_alike((stream, at.domain), *given));
            given.map(|(data, domain)| (data, domain, stream.domains().len()))
        };
        let read = |(data, from, domain): (&dyn Dataset, usize, usize)| -> Result<CleanImage> {
            Ok(CleanImage { sample: data.sample(from, at.index)?, domain })
        };
        found.map(read).transpose()
    }
}

/// Whether two domains have as many images, with the same labels.
fn are_alike(a: (&dyn Dataset, usize), b: (&dyn Dataset, usize)) -> bool {
    let labels = |(data, domain): (&dyn Dataset, usize), at| data.label(domain, at);
    let len = a.0.len(a.1);
    len == b.0.len(b.1) && (0..len).all(|at| labels(a, at) == labels(b, at))
}
