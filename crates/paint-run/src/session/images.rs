//! Images on their way into a session, each with a name.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use paint_data::Dataset;
use paint_data::dataset::{Exif, Listed};
use paint_rng::Seed;
use sha2::{Digest as _, Sha256};

use crate::fingerprint::{digest, hex};

/// Images whose content goes into what a list is known by.
const GLIMPSED: usize = 16;

/// Images in an order.
pub struct Images(pub(super) Source);

pub(super) enum Source {
    /// All of them are known.
    List(List),
    /// Files that are named one after the other, until the sender is dropped.
    Incoming { files: Receiver<PathBuf>, exif: Exif },
}

/// A list of images.
#[derive(Clone)]
pub(super) struct List {
    pub(super) dataset: Arc<dyn Dataset>,
    names: Names,
    /// The image at each place, unless they come as they are.
    order: Option<Arc<[usize]>>,
    /// Digits that another list would not have; none if the list is not known again.
    pub(super) id: Option<String>,
}

#[derive(Clone)]
enum Names {
    Given(Vec<PathBuf>),
    Numbers,
}

impl Images {
    /// Files, each called by its path.
    pub fn files(files: Vec<PathBuf>, exif: Exif) -> Self {
        Self(Source::List(List::files(files, exif)))
    }

    /// The images of the first domain of a dataset, called by their numbers.
    pub fn dataset(dataset: Arc<dyn Dataset>) -> Self {
        Self(Source::List(List { dataset, names: Names::Numbers, order: None, id: None }))
    }

    /// Files as they are named, by a camera or on standard input; a batch begins when its last file is there.
    pub fn incoming(files: Receiver<PathBuf>, exif: Exif) -> Self {
        Self(Source::Incoming { files, exif })
    }

    /// The same images called otherwise, by paths relative to their folder for example; one name for each.
    #[must_use]
    pub fn called(mut self, names: Vec<PathBuf>) -> Self {
        if let Source::List(list) = &mut self.0 {
            list.names = Names::Given(names);
        }
        self
    }

    /// A list in a random order, the same for the same seed; files that are named one after the other stay as they
    /// come.
    #[must_use]
    pub fn shuffled(mut self, seed: u64) -> Self {
        if let Source::List(list) = &mut self.0 {
            let mut rng = Seed(seed).derive("session/order", &[]);
            list.order = Some(rng.permutation(list.len()).into());
        }
        self
    }

    /// Makes a list known again, so that a session that reads it after another one was stopped goes on there. Some of
    /// its images are read for that.
    #[must_use]
    pub fn resumable(mut self) -> Self {
        if let Source::List(list) = &mut self.0 {
            list.id = Some(list.fingerprint());
        }
        self
    }

    /// How many there are, if that is known.
    pub fn count(&self) -> Option<usize> {
        match &self.0 {
            Source::List(list) => Some(list.len()),
            Source::Incoming { .. } => None,
        }
    }
}

impl List {
    pub(super) fn files(files: Vec<PathBuf>, exif: Exif) -> Self {
        let dataset = Arc::new(Listed::new(files.clone(), exif));
        Self { dataset, names: Names::Given(files), order: None, id: None }
    }

    pub(super) fn len(&self) -> usize {
        self.dataset.len(0)
    }

    /// The image at a place.
    pub(super) fn at(&self, place: usize) -> usize {
        self.order.as_ref().map_or(place, |order| order[place])
    }

    /// What an image is called.
    pub(super) fn name(&self, index: usize) -> String {
        match &self.names {
            Names::Given(names) => names
                .get(index)
                .map_or_else(|| index.to_string(), |name| name.to_string_lossy().into_owned()),
            Names::Numbers => index.to_string(),
        }
    }

    fn fingerprint(&self) -> String {
        let (mut hasher, len) = (Sha256::new(), self.len());
        for index in 0..len {
            hasher.update(self.name(self.at(index)).as_bytes());
            hasher.update([0]);
        }
        for index in (0..len).step_by(len.div_ceil(GLIMPSED).max(1)) {
            // A file that cannot be read may be skipped later; the others tell the list from another.
            let content = self.dataset.content(0, self.at(index)).unwrap_or_default();
            hasher.update(content.len().to_le_bytes());
            hasher.update(content);
        }
        digest([hex(&hasher.finalize())])
    }
}
