//! What fills in a protocol when data and weights are there.

use std::path::{Path, PathBuf};

use paint_data::dataset::entry;
use paint_data::scenario::Selection;
use paint_data::{Dataset, Stream};
use paint_rng::Seed;
use paint_run::config::Model;
use paint_run::experiment::Experiment;
use paint_run::fingerprint::{contents, digest, hex};
use paint_run::probe;
use paint_run::source::Pool;
use paint_run::{Error, Result};
use sha2::{Digest as _, Sha256};

use super::document::{Fingerprints, Protocol};
use super::place::Place;

impl Protocol {
    /// This protocol with everything it leaves open taken from the data and the weights at `place`.
    pub fn resolve(&self, place: &Place) -> Result<Self> {
        self.resolve_warning(place, &|_| {})
    }

    /// The same; `warn` hears of what makes results mean something else than they seem to.
    pub fn resolve_warning(&self, place: &Place, warn: &dyn Fn(&str)) -> Result<Self> {
        let mut config = self.config(place);
        // Corruption on the fly draws from the seed; the fingerprint must not.
        config.seed = 0;
        let probe = config.probe.take();
        config.scenario.order = self.orders.first().cloned().or(config.scenario.order);
        let experiment = Experiment::open(config.on_cpu())?;
        let mut resolved = self.clone();
        // Places of files belong to the machine, not to the protocol.
        resolved.source.iter_mut().for_each(|source| source.path.clear());
        let probed = resolved.probe.iter_mut().filter_map(|probe| probe.data.as_mut());
        probed.for_each(|data| data.path.clear());
        let opened = experiment.config.model.clone();
        let is_named = opened.sha256 == self.model.sha256;
        let tag = if is_named { self.model.tag.clone() } else { file_tag(&place.weights) };
        resolved.model = Model { weights: PathBuf::new(), tag, ..opened };
        let benchmark = entry(&self.data.name)?.benchmark;
        for method in place.methods.rows() {
            let given = self.settings.get(method.name).cloned().unwrap_or_default();
            let fitted = method.settings_for(&given, experiment.model(), benchmark)?;
            if fitted != given {
                resolved.settings.insert(method.name.into(), fitted);
            }
        }
        let raw = experiment.config.data.open(Seed(0))?;
        let taken = self.taken(&*raw, &experiment.stream)?;
        resolved.data.fingerprint = Some(streamed(&*raw, &taken, self.data.corrupt.is_some())?);
        let pool = source_pool(&experiment)?;
        let source = match &pool {
            Some(pool) => {
                self.seeds.iter().map(|&seed| drawn(pool, seed)).collect::<Result<_>>()?
            }
            None => Vec::new(),
        };
        if let (Some(pool), Some(&seed), Some(fingerprint)) =
            (&pool, self.seeds.first(), source.first())
            && let Some(domain) = tested(pool, seed, fingerprint, &*raw, &taken)
        {
            warn(&format!(
                "the source images come from the test images of domain {domain:?}: methods that look at source images \
                 may have seen what they are tested on, with its labels if there are any"
            ));
        }
        resolved.fingerprints = Fingerprints {
            source,
            probe: probe.map(|probe| probed_images(&probe, &*raw, &taken)).transpose()?,
        };
        Ok(resolved)
    }

    /// The domains of a stream, each with the images that it takes, or may take under another seed.
    fn taken(&self, data: &dyn Dataset, stream: &Stream) -> Result<Vec<(usize, Vec<usize>)>> {
        let mut taken: Vec<Vec<usize>> = vec![Vec::new(); data.domains().len()];
        for sample in stream.batches.iter().flat_map(|batch| &batch.samples) {
            taken[sample.domain].push(sample.index);
        }
        let drawn = self.scenario.limit.is_some() && self.scenario.selection != Selection::First;
        for (domain, indices) in taken.iter_mut().enumerate().filter(|(_, it)| !it.is_empty()) {
            if drawn {
                *indices = (0..data.len(domain)).collect();
            }
            indices.sort_unstable();
            indices.dedup();
        }
        let taken: Vec<_> =
            taken.into_iter().enumerate().filter(|(_, it)| !it.is_empty()).collect();
        if taken.is_empty() { Err(Error::EmptyStream) } else { Ok(taken) }
    }
}

/// What source images are drawn from, if there are any.
fn source_pool(experiment: &Experiment) -> Result<Option<Pool>> {
    let Some(source) = &experiment.config.source else { return Ok(None) };
    let classes = experiment.dataset.info().class_indices.as_deref();
    Pool::open(source, experiment.model().spec(), classes).map(Some)
}

/// The source images that a seed draws.
fn indices(pool: &Pool, seed: u64) -> Vec<usize> {
    pool.draw(seed).into_iter().map(|(index, _)| index).collect()
}

/// Twelve digits over the source images that a seed draws.
fn drawn(pool: &Pool, seed: u64) -> Result<String> {
    contents(&*pool.dataset, 0, indices(pool, seed).into_iter())
}

/// The first domain of a stream whose images, corrupted on the fly or not, are the source images of this fingerprint.
/// An image that cannot be read is none of them: it may not be in the stream.
fn tested(
    pool: &Pool,
    seed: u64,
    fingerprint: &str,
    data: &dyn Dataset,
    taken: &[(usize, Vec<usize>)],
) -> Option<String> {
    let drawn = indices(pool, seed);
    let content = |data: &dyn Dataset, domain: usize| data.content(domain, *drawn.first()?).ok();
    let first = content(&*pool.dataset, 0)?;
    let is_source = |domain: usize| {
        drawn.iter().all(|&index| index < data.len(domain))
            // It tells other data apart without a look at the rest.
            && content(data, domain).is_some_and(|found| found == first)
            && contents(data, domain, drawn.iter().copied()).is_ok_and(|it| it == fingerprint)
    };
    let (domain, _) = taken.iter().find(|(domain, _)| is_source(*domain))?;
    Some(data.domains()[*domain].name.clone())
}

/// The folder and name of a file of weights: `model.safetensors` alone would say little.
fn file_tag(path: &Path) -> String {
    let part = |path: Option<&Path>| Some(path?.file_name()?.to_string_lossy().into_owned());
    [part(path.parent()), part(Some(path))].into_iter().flatten().collect::<Vec<_>>().join("/")
}

/// Twelve digits over the domains of a stream, the images it takes of them with their labels, and, for what
/// corruption on the fly makes of them, the pixels of the first and the last image of each. If `corrupted`, all
/// domains have the same images.
fn streamed(data: &dyn Dataset, taken: &[(usize, Vec<usize>)], corrupted: bool) -> Result<String> {
    let mut lines = Vec::new();
    let mut known: Option<(&[usize], String)> = None;
    for (domain, indices) in taken {
        let info = &data.domains()[*domain];
        lines.push(format!("{} {:?} {}", info.name, info.severity, indices.len()));
        let images = match known.take().filter(|(of, _)| corrupted && of == indices) {
            Some((_, images)) => images,
            None => contents(data, *domain, indices.iter().copied())?,
        };
        lines.push(images.clone());
        known = Some((indices, images));
        for &index in indices.first().into_iter().chain(indices.last()) {
            let image = data.sample(*domain, index)?.image;
            let pixels = hex(&Sha256::digest(image.pixels()));
            lines.push(format!("{}x{} {pixels}", image.height(), image.width()));
        }
    }
    Ok(digest(lines))
}

/// Twelve digits over the images that a probe looks at.
fn probed_images(
    probe: &probe::Config,
    data: &dyn Dataset,
    taken: &[(usize, Vec<usize>)],
) -> Result<String> {
    let first = |data: &dyn Dataset, domain: usize, count: usize| {
        contents(data, domain, 0..count.min(data.len(domain)))
    };
    let other = probe.data.as_ref().map(|other| other.open(Seed(0))).transpose()?;
    let beside = other.as_deref().unwrap_or(data);
    let clean = probe::clean_domain(beside).map(|domain| first(beside, domain, probe.clean));
    let previous = taken.iter().map(|(domain, _)| first(data, *domain, probe.previous));
    Ok(digest(clean.into_iter().chain(previous).collect::<Result<Vec<_>>>()?))
}
