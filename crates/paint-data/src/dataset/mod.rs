//! Datasets: random access to labelled images of several domains.
//!
//! Each dataset is one file and one row of [`DATASETS`]; a [`Dataset`] keeps labels and file names in memory, but reads
//! pixels only when asked, so an array larger than the memory can be opened.

mod array;
mod cifar10;
mod cifar_c;
mod config;
mod corrupted;
mod embedded;
mod files;
mod folder;
mod imagenet;
mod imagenet_c;
mod imagenet_r;
mod listed;
mod memory;

use std::path::Path;

use paint_settings::{choice, settings};
use serde::Serialize;

pub use cifar10::Split;
pub use config::{Config, Corrupt, TableChoice, read_textures};
pub use corrupted::Corrupted;
pub use embedded::{CIFAR10_CLASSES, embedded};
pub use files::{Listing, SkipReason, Skipped, images_below, list_images};
pub use imagenet::imagenet_class_name;
pub use imagenet_c::Images;
pub use listed::{Exif, Listed};
pub use memory::Memory;

use crate::{Error, Image, Result};

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

impl Domain {
    /// The domain of uncorrupted images.
    pub fn clean() -> Self {
        Self { name: "clean".into(), severity: None }
    }
}

/// The properties of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The name of its row in the table.
    pub name: &'static str,
    /// The number of classes the labels index.
    pub num_classes: usize,
    /// For a subset of a larger label space (ImageNet-R): the model's class index of each label.
    pub class_indices: Option<Vec<usize>>,
    /// The name of each label, where the data themselves give names.
    pub class_names: Option<Vec<String>>,
}

impl Info {
    /// The name of a label, or its number where no name is known.
    pub fn class_name(&self, label: usize) -> String {
        let given = self.class_names.as_ref().and_then(|names| names.get(label).cloned());
        let usual = || {
            let index = self.class_indices.as_ref().map_or(Some(&label), |all| all.get(label))?;
            (entry(self.name).ok()?.class_name)(*index).map(str::to_owned)
        };
        given.or_else(usual).unwrap_or_else(|| format!("class {label}"))
    }
}

/// Random access to images by domain and index. Scenarios decide the order.
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
    /// The bytes that make one image what it is: those of its file, not decoded, or its pixels. Of an image that is
    /// corrupted on the fly, those of the clean one.
    fn content(&self, domain: usize, index: usize) -> Result<Vec<u8>> {
        Ok(self.sample(domain, index)?.image.into_pixels())
    }
    /// What a user should know of how the files were read, one line each: files that were skipped, folders that may
    /// mean something else.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

settings! {
    /// How to open a dataset.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    #[serde(default)]
    pub struct Options {
        /// Which images of CIFAR-10
        pub split: Split,
        /// Which images of ImageNet-C
        pub images: Images,
        /// Names of the classes in the order of the model's output; as the files beside the weights say, unless given
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub classes: Vec<String>,
        /// Whether to read labels
        #[serde(skip_serializing_if = "is_default")]
        pub labels: Labels,
        /// Whether the first level of folders are domains
        #[serde(skip_serializing_if = "is_default")]
        pub domains: Domains,
    }
}

choice! {
    /// Where the domains of a folder come from.
    #[derive(Default)]
    pub enum Domains {
        /// All images are one domain
        #[default]
        One = "one",
        /// Each folder of the first level is a domain, in alphabetical order; classes are folders in it
        Folders = "folders",
    }
}

choice! {
    /// Whether to read labels.
    #[derive(Default)]
    pub enum Labels {
        /// Subfolders are classes; an array has labels in its archive or beside it
        #[default]
        Read = "read",
        /// Subfolders have no meaning, and arrays of labels are not read
        Ignored = "ignored",
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What `verify` counted in a sound dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Images, over all domains.
    pub images: usize,
    /// Domains.
    pub domains: usize,
    /// Classes the labels index; 0 without labels.
    pub num_classes: usize,
}

impl Counts {
    fn of(dataset: &dyn Dataset) -> Self {
        let domains = dataset.domains().len();
        Self {
            images: (0..domains).map(|domain| dataset.len(domain)).sum(),
            domains,
            num_classes: dataset.info().num_classes,
        }
    }
}

/// The file that `paint corrupt` leaves beside its output. Where it exists, a dataset may be smaller than the
/// published one.
pub const CORRUPT_NOTE: &str = "paint-corrupt.json";

/// A row of [`DATASETS`].
pub struct DatasetEntry {
    /// The name in configs and on the command line.
    pub name: &'static str,
    /// One line on what it is and how it lies on disk.
    pub what: &'static str,
    /// The benchmark, `cifar10` or `imagenet`, whose published settings apply to it; none if the data may be anything.
    pub benchmark: Option<&'static str>,
    /// The keys of [`Options`] that it reads.
    pub options: &'static [&'static str],
    /// Whether its classes may be known by name only; the model's names for its classes then number them.
    pub is_named: bool,
    /// Whether the images are inside the program, so that there is no path to give.
    pub is_inside: bool,
    /// Whether each image is a file of its own.
    pub is_files: bool,
    /// Whether clean images in this layout lie at a path; none if it holds no clean images, or none on disk.
    pub clean_at: Option<fn(&Path) -> bool>,
    /// The name of a class by its number in the models of the benchmark, where that is always the same.
    pub class_name: fn(usize) -> Option<&'static str>,
    /// Opens the dataset at a path.
    pub open: fn(&Path, &Options) -> Result<Box<dyn Dataset>>,
    /// Checks layout, counts and label range of what `open` would open; the error is the first thing wrong.
    pub verify: fn(&Path, &Options) -> Result<Counts>,
}

/// Every dataset that can be opened by name.
pub const DATASETS: &[DatasetEntry] = &[
    cifar10::ENTRY,
    cifar_c::CIFAR10_C,
    cifar_c::CIFAR100_C,
    imagenet_c::ENTRY,
    imagenet_r::ENTRY,
    folder::ENTRY,
    array::ENTRY,
    embedded::ENTRY,
];

/// The row of this name.
pub fn entry(name: &str) -> Result<&'static DatasetEntry> {
    DATASETS.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<&str> = DATASETS.iter().map(|entry| entry.name).collect();
        Error::Argument {
            what: "dataset",
            expected: format!("one of {}", known.join(", ")),
            got: name.into(),
        }
    })
}

/// The row whose layout the clean images at a path have; a folder of images if nothing else is found there.
pub fn entry_at(path: &Path) -> &'static DatasetEntry {
    let holds = |entry: &&DatasetEntry| entry.clean_at.is_some_and(|clean_at| clean_at(path));
    DATASETS.iter().find(holds).unwrap_or(&folder::ENTRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_clean_images_shows_their_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(entry_at(path).name, "folder");
        assert_eq!(entry_at(&path.join("missing")).name, "folder");
        std::fs::write(path.join("images.npy"), []).unwrap();
        assert_eq!(entry_at(&path.join("images.npy")).name, "npy");
        std::fs::write(path.join("test_batch.bin"), []).unwrap();
        assert_eq!(entry_at(path).name, "cifar10");
        let archive = tempfile::tempdir().unwrap();
        std::fs::create_dir(archive.path().join("cifar-10-batches-bin")).unwrap();
        assert_eq!(entry_at(archive.path()).name, "cifar10");
    }

    #[test]
    fn a_label_is_called_as_the_data_or_the_benchmark_call_it() {
        let info = |name, class_indices: Option<Vec<usize>>, class_names: Option<Vec<String>>| {
            Info { name, num_classes: 2, class_indices, class_names }
        };
        assert_eq!(info("cifar10-c", None, None).class_name(3), "cat");
        assert_eq!(info("imagenet-c", None, None).class_name(2), "great white shark");
        assert_eq!(info("imagenet-r", Some(vec![1, 2]), None).class_name(1), "great white shark");
        assert_eq!(info("imagenet-r", Some(vec![1, 2]), None).class_name(2), "class 2");
        assert_eq!(info("cifar100-c", None, None).class_name(3), "class 3");
        assert_eq!(info("folder", None, Some(vec!["lorry".into()])).class_name(0), "lorry");
        assert_eq!(info("elsewhere", None, None).class_name(0), "class 0");
    }
}
