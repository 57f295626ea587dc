//! Datasets: random access to labelled images of several domains.

use crate::{Image, Result};

/// One image and, where known, its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The image as stored; resizing and cropping belong to the model's preprocessing.
    pub image: Image,
    /// The class index, if the dataset is labelled.
    pub label: Option<usize>,
}

/// A part of a dataset with one distribution: a corruption at a severity, a rendition, a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// `gaussian_noise`, `sketch`, ...; `clean` for uncorrupted source images.
    pub name: String,
    /// 1 to 5 for corruptions.
    pub severity: Option<u8>,
}

/// What a dataset says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The name of its row in the table.
    pub name: &'static str,
    /// The number of classes the labels index.
    pub num_classes: usize,
    /// For a subset of a larger label space (ImageNet-R): the model's class index of each label.
    pub class_indices: Option<Vec<usize>>,
}

/// Random access to images by domain and index. Orders come from scenarios.
pub trait Dataset: Send + Sync {
    /// Name and classes.
    fn info(&self) -> &Info;
    /// The domains, in the benchmark's order.
    fn domains(&self) -> &[Domain];
    /// The number of images of one domain.
    fn len(&self, domain: usize) -> usize;
    /// True if no domain has an image.
    fn is_empty(&self) -> bool {
        (0..self.domains().len()).all(|domain| self.len(domain) == 0)
    }
    /// The class of one image without decoding it; `None` in an unlabelled dataset.
    fn label(&self, domain: usize, index: usize) -> Option<usize>;
    /// One image. Reads only what it needs.
    fn sample(&self, domain: usize, index: usize) -> Result<Sample>;
}
