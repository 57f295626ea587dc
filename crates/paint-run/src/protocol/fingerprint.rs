//! What fills in a protocol when data and weights are there.

use paint_data::{Dataset, Stream};
use paint_rng::Seed;

use super::{Place, Protocol, digest};
use crate::experiment::Experiment;
use crate::{Error, Result};

impl Protocol {
    /// This protocol with everything it leaves open taken from the data and the weights at `place`.
    pub fn resolve(&self, place: &Place) -> Result<Self> {
        let mut config = self.config(place);
        // Corruption on the fly draws from the seed; the fingerprint must not.
        config.seed = 0;
        config.probe = None;
        config.scenario.order = self.orders.first().cloned().or(config.scenario.order);
        let experiment = Experiment::open(config)?;
        let preprocess = &experiment.model.spec().preprocess;
        let mut resolved = self.clone();
        // Places of files belong to the machine, not to the protocol.
        resolved.source.iter_mut().for_each(|source| source.path.clear());
        let probed = resolved.probe.iter_mut().filter_map(|probe| probe.data.as_mut());
        probed.for_each(|data| data.path.clear());
        let weights = &mut resolved.model;
        let sha256 = experiment.config.model.sha256.clone();
        if weights.sha256 != sha256 {
            weights.tag = file_tag(&place.weights);
        }
        weights.sha256 = sha256;
        weights.backbone = Some(experiment.model.spec().name.clone());
        weights.mean = Some(preprocess.mean);
        weights.std = Some(preprocess.std);
        weights.input_size = Some(preprocess.input_size);
        weights.crop_pct = Some(preprocess.crop_pct);
        weights.interpolation = Some(preprocess.interpolation.name().into());
        let raw = experiment.config.data.open(Seed(0))?;
        resolved.data.fingerprint = Some(fingerprint(&*raw, &experiment.stream)?);
        Ok(resolved)
    }
}

/// The folder and name of a file of weights: `model.safetensors` alone would say little.
fn file_tag(path: &std::path::Path) -> String {
    let part =
        |path: Option<&std::path::Path>| Some(path?.file_name()?.to_string_lossy().into_owned());
    [part(path.parent()), part(Some(path))].into_iter().flatten().collect::<Vec<_>>().join("/")
}

/// Twelve digits over the domains of a stream, the images it takes of them with their labels, and the pixels of the first
/// and the last image of each.
fn fingerprint(data: &dyn Dataset, stream: &Stream) -> Result<String> {
    let mut domains: Vec<usize> = Vec::new();
    let mut lines = Vec::new();
    let mut taken: Vec<Vec<usize>> = vec![Vec::new(); data.domains().len()];
    for sample in stream.batches.iter().flat_map(|batch| &batch.samples) {
        if taken[sample.domain].is_empty() {
            domains.push(sample.domain);
        }
        taken[sample.domain].push(sample.index);
    }
    domains.sort_unstable();
    for domain in domains {
        let indices = &mut taken[domain];
        indices.sort_unstable();
        indices.dedup();
        let info = &data.domains()[domain];
        lines.push(format!("{} {:?} {}", info.name, info.severity, indices.len()));
        let labels =
            indices.iter().map(|&index| format!("{index} {:?}", data.label(domain, index)));
        lines.push(digest(labels));
        for &index in indices.first().into_iter().chain(indices.last()) {
            let image = data.sample(domain, index)?.image;
            lines.push(format!(
                "{}x{} {}",
                image.height(),
                image.width(),
                digest([hex(image.pixels())])
            ));
        }
    }
    if lines.is_empty() {
        return Err(Error::EmptyStream);
    }
    Ok(digest(lines))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
