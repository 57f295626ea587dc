//! CIFAR-10-C and CIFAR-100-C: one `<corruption>.npy` of five blocks, severity 1 to 5, and `labels.npy`.
//!
//! Every block holds the test images in the same order; the labels repeat with the blocks.

use std::path::Path;

use paint_files::Dtype;

use super::embedded::cifar10_class_name;
use super::{CORRUPT_NOTE, Counts, Dataset, DatasetEntry, Domain, Info, Sample};
use crate::{
    Error, Image, Result,
    corruption::{CORRUPTIONS, Corruption},
    npy::NpyArray,
};

const SEVERITIES: usize = Corruption::MAX_SEVERITY as usize;
const IMAGES_PER_BLOCK: usize = 10_000;

pub(super) const CIFAR10_C: DatasetEntry = DatasetEntry {
    name: "cifar10-c",
    what: "CIFAR-10-C, <corruption>.npy of five severity blocks and labels.npy, 10 classes of 32x32",
    benchmark: Some("cifar10"),
    options: &[],
    is_named: false,
    is_inside: false,
    is_files: false,
    clean_at: None,
    class_name: cifar10_class_name,
    open: |root, _| Ok(Box::new(CifarC::open(root, "cifar10-c", 10)?)),
    verify: |root, _| CifarC::open(root, "cifar10-c", 10)?.verify(root),
};

pub(super) const CIFAR100_C: DatasetEntry = DatasetEntry {
    name: "cifar100-c",
    what: "CIFAR-100-C, laid out as CIFAR-10-C, 100 classes",
    benchmark: Some("cifar10"),
    options: &[],
    is_named: false,
    is_inside: false,
    is_files: false,
    clean_at: None,
    class_name: |_| None,
    open: |root, _| Ok(Box::new(CifarC::open(root, "cifar100-c", 100)?)),
    verify: |root, _| CifarC::open(root, "cifar100-c", 100)?.verify(root),
};

struct CifarC {
    info: Info,
    domains: Vec<Domain>,
    /// One array for each corruption, in the order of the domains.
    arrays: Vec<NpyArray>,
    /// The labels of one block.
    labels: Vec<usize>,
}

impl CifarC {
    fn open(root: &Path, name: &'static str, num_classes: usize) -> Result<Self> {
        let labels_path = root.join("labels.npy");
        let mut labels = NpyArray::open(&labels_path)?.classes()?;
        let rows = labels.len();
        if rows == 0 || rows % SEVERITIES != 0 {
            return Err(Error::format(
                format!("{SEVERITIES} blocks of labels"),
                format!("{rows} labels"),
                labels_path,
            ));
        }
        if let Some(label) = labels.iter().find(|&&label| label >= num_classes) {
            return Err(Error::format(
                format!("labels below {num_classes}"),
                format!("label {label}"),
                labels_path,
            ));
        }
        let (mut domains, mut arrays) = (Vec::new(), Vec::new());
        for corruption in CORRUPTIONS {
            let path = root.join(format!("{}.npy", corruption.name));
            if !path.exists() {
                continue;
            }
            let array = NpyArray::open(&path)?;
            if array.dtype != Dtype::U8
                || array.shape.len() != 4
                || array.shape[0] != rows
                || array.shape[3] != 3
                || array.shape.contains(&0)
            {
                let found = format!("{:?} of shape {:?}", array.dtype, array.shape);
                return Err(Error::format(
                    format!("uint8 images of shape [{rows}, H, W, 3]"),
                    found,
                    path,
                ));
            }
            arrays.push(array);
            domains.extend(
                (1..=Corruption::MAX_SEVERITY).map(|severity| Domain {
                    name: corruption.name.into(),
                    severity: Some(severity),
                }),
            );
        }
        if arrays.is_empty() {
            return Err(Error::format("one <corruption>.npy or more", "none", root));
        }
        labels.truncate(rows / SEVERITIES);
        Ok(Self {
            info: Info { name, num_classes, class_indices: None, class_names: None },
            domains,
            arrays,
            labels,
        })
    }

    /// The published archive: the fifteen corruptions, 10,000 images per severity, labels that repeat.
    fn verify(&self, root: &Path) -> Result<Counts> {
        let is_published = !root.join(CORRUPT_NOTE).exists();
        let benchmark = CORRUPTIONS.iter().filter(|corruption| !corruption.held_out);
        for corruption in benchmark.filter(|_| is_published) {
            if self.domains.iter().all(|domain| domain.name != corruption.name) {
                return Err(Error::format(
                    format!("{}.npy", corruption.name),
                    "no such file",
                    root,
                ));
            }
        }
        let path = root.join("labels.npy");
        if is_published && self.labels.len() != IMAGES_PER_BLOCK {
            let found = format!("{}", self.labels.len());
            return Err(Error::format(
                format!("{IMAGES_PER_BLOCK} images in a block"),
                found,
                path,
            ));
        }
        let all = NpyArray::open(&path)?.classes()?;
        if all.chunks(self.labels.len().max(1)).any(|block| block != self.labels) {
            return Err(Error::format(
                "the same labels in all five blocks",
                "blocks that differ",
                path,
            ));
        }
        Ok(Counts::of(self))
    }
}

impl Dataset for CifarC {
    fn info(&self) -> &Info {
        &self.info
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn len(&self, _domain: usize) -> usize {
        self.labels.len()
    }

    fn label(&self, _domain: usize, index: usize) -> Option<usize> {
        Some(self.labels[index])
    }

    fn sample(&self, domain: usize, index: usize) -> Result<Sample> {
        let array = &self.arrays[domain / SEVERITIES];
        let row = domain % SEVERITIES * self.labels.len() + index;
        let image = Image::new(array.shape[2], array.shape[1], array.row(row)?)?;
        Ok(Sample { image, label: Some(self.labels[index]) })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Options, *};
    use crate::{NpyWriter, write_atomically};

    /// Two images of 2x1 pixels per severity; the first byte is the row.
    fn write(
        root: &Path,
        name: &str,
        rows: usize,
        values: impl Fn(usize) -> Vec<u8>,
        shape: &[usize],
    ) {
        write_atomically(&root.join(name), |out| {
            let mut writer = NpyWriter::new(out, shape)?;
            (0..rows).try_for_each(|row| writer.write(&values(row)))?;
            writer.finish()
        })
        .unwrap();
    }

    fn write_dataset(root: &Path) {
        write(root, "labels.npy", 10, |row| vec![[3, 8][row % 2]], &[10]);
        for name in ["contrast", "gaussian_noise"] {
            write(
                root,
                &format!("{name}.npy"),
                10,
                |row| vec![row as u8, 0, 0, name.len() as u8, 0, 0],
                &[10, 1, 2, 3],
            );
        }
    }

    #[test]
    fn domains_are_the_corruptions_present_in_benchmark_order_by_severity() {
        let folder = tempfile::tempdir().unwrap();
        write_dataset(folder.path());
        let data = (CIFAR10_C.open)(folder.path(), &Options::default()).unwrap();
        let names: Vec<_> = data.domains().iter().map(|d| (d.name.as_str(), d.severity)).collect();
        assert_eq!(names.len(), 10);
        assert_eq!(
            (names[0], names[4], names[5]),
            (("gaussian_noise", Some(1)), ("gaussian_noise", Some(5)), ("contrast", Some(1)))
        );
        assert_eq!((data.len(3), data.label(3, 1)), (2, Some(8)));
        let sample = data.sample(7, 1).unwrap();
        assert_eq!((sample.image.width(), sample.image.height(), sample.label), (2, 1, Some(8)));
        assert_eq!(sample.image.pixels(), [5, 0, 0, 8, 0, 0]);
    }

    #[test]
    fn verify_names_the_first_missing_corruption_and_a_wrong_shape() {
        let folder = tempfile::tempdir().unwrap();
        write_dataset(folder.path());
        let error = (CIFAR10_C.verify)(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains("shot_noise.npy"), "{error}");
        write(folder.path(), "contrast.npy", 5, |_| vec![0; 6], &[5, 1, 2, 3]);
        let error = (CIFAR10_C.verify)(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains("[5, 1, 2, 3]") && error.ends_with("contrast.npy"), "{error}");
        write(folder.path(), "labels.npy", 10, |_| vec![10], &[10]);
        assert!((CIFAR10_C.verify)(folder.path(), &Options::default()).is_err());
    }
}
