//! CIFAR-10 in its official binary layout: `data_batch_1.bin` .. `data_batch_5.bin`, `test_batch.bin`.
//!
//! A file is 10,000 records of one label byte and 3,072 pixel bytes, the three colour planes one after the other.

use std::path::{Path, PathBuf};

use paint_files::Source;
use paint_settings::choice;

use super::embedded::cifar10_class_name;
use super::{Counts, Dataset, DatasetEntry, Domain, Info, Options, Sample};
use crate::{Error, Image, Result};

const SIDE: usize = 32;
const PIXELS: usize = SIDE * SIDE;
const RECORD: usize = 1 + 3 * PIXELS;
const RECORDS: usize = 10_000;
const NUM_CLASSES: usize = 10;
/// The file of the test images.
const TEST: &str = "test_batch.bin";
/// The folder of the official archive.
const FOLDER: &str = "cifar-10-batches-bin";

pub(super) const ENTRY: DatasetEntry = DatasetEntry {
    name: "cifar10",
    what: "CIFAR-10, official binary layout (data_batch_*.bin, test_batch.bin), 10 classes of 32x32",
    benchmark: Some("cifar10"),
    options: &["split"],
    is_named: false,
    is_inside: false,
    is_files: false,
    clean_at: Some(|path| path.join(TEST).exists() || path.join(FOLDER).exists()),
    class_name: cifar10_class_name,
    open: |root, options| Ok(Box::new(Cifar10::open(root, options.split)?)),
    verify,
};

choice! {
    /// The part of CIFAR-10 to open.
    #[derive(Default)]
    pub enum Split {
        /// The test images, 10,000, or the 1,000 of `embedded`
        #[default]
        Test = "test",
        /// The training images, 50,000; of `embedded` the last 500 of its test images
        Train = "train",
    }
}

struct Cifar10 {
    info: Info,
    domains: [Domain; 1],
    files: Vec<(Source, PathBuf)>,
    labels: Vec<u8>,
}

impl Cifar10 {
    fn open(root: &Path, split: Split) -> Result<Self> {
        let folder = folder(root);
        let names: Vec<String> = match split {
            Split::Test => vec![TEST.into()],
            Split::Train => (1..=5).map(|i| format!("data_batch_{i}.bin")).collect(),
        };
        let mut files = Vec::with_capacity(names.len());
        let mut labels = Vec::with_capacity(names.len() * RECORDS);
        for name in names {
            let path = folder.join(name);
            let file = Source::open(&path).map_err(|source| Error::io(source, &path))?;
            read_labels(&file, &path, &mut labels)?;
            files.push((file, path));
        }
        let info = Info {
            name: ENTRY.name,
            num_classes: NUM_CLASSES,
            class_indices: None,
            class_names: None,
        };
        Ok(Self { info, domains: [Domain::clean()], files, labels })
    }
}

/// The archive unpacks into a subfolder; both that folder and its parent are accepted.
fn folder(root: &Path) -> PathBuf {
    let nested = root.join(FOLDER);
    if nested.is_dir() { nested } else { root.to_path_buf() }
}

fn read_labels(file: &Source, path: &Path, labels: &mut Vec<u8>) -> Result<()> {
    let expected = (RECORDS * RECORD) as u64;
    if file.len() != expected {
        return Err(Error::format(
            format!("{RECORDS} records of {RECORD} bytes ({expected} bytes)"),
            format!("{} bytes", file.len()),
            path,
        ));
    }
    for index in 0..RECORDS {
        let mut label = [0];
        let read = file.fill((index * RECORD) as u64, &mut label);
        read.map_err(|source| Error::io(source, path))?;
        if usize::from(label[0]) >= NUM_CLASSES {
            return Err(Error::format(
                format!("labels below {NUM_CLASSES}"),
                format!("label {} in record {index}", label[0]),
                path,
            ));
        }
        labels.push(label[0]);
    }
    Ok(())
}

impl Dataset for Cifar10 {
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
        Some(usize::from(self.labels[index]))
    }

    fn sample(&self, _domain: usize, index: usize) -> Result<Sample> {
        let mut planes = [0; 3 * PIXELS];
        let offset = (index % RECORDS * RECORD + 1) as u64;
        let (file, path) = &self.files[index / RECORDS];
        file.fill(offset, &mut planes).map_err(|source| Error::io(source, path))?;
        let pixels = (0..PIXELS)
            .flat_map(|p| [planes[p], planes[PIXELS + p], planes[2 * PIXELS + p]])
            .collect();
        Ok(Sample {
            image: Image::new(SIDE, SIDE, pixels)?,
            label: Some(usize::from(self.labels[index])),
        })
    }
}

/// The test file must be there; the training files are all there or none.
fn verify(root: &Path, _: &Options) -> Result<Counts> {
    let test = Cifar10::open(root, Split::Test)?;
    if folder(root).join("data_batch_1.bin").exists() {
        let train = Cifar10::open(root, Split::Train)?;
        return Ok(Counts { images: test.len(0) + train.len(0), ..Counts::of(&test) });
    }
    Ok(Counts::of(&test))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_test_batch(folder: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = vec![0; RECORDS * RECORD];
        for (index, record) in bytes.chunks_exact_mut(RECORD).enumerate() {
            record[0] = (index % 10) as u8;
            record[1] = 10; // red of pixel (0, 0)
            record[1 + 1] = 11; // red of pixel (x 1, y 0)
            record[1 + SIDE] = 12; // red of pixel (x 0, y 1)
            record[1 + PIXELS] = 20;
            record[1 + 2 * PIXELS] = (index / 256) as u8;
        }
        edit(&mut bytes);
        std::fs::write(folder.join("test_batch.bin"), bytes).unwrap();
    }

    #[test]
    fn planes_become_pixels_and_records_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        write_test_batch(folder.path(), |_| {});
        let data = (ENTRY.open)(folder.path(), &Options::default()).unwrap();
        assert_eq!((data.len(0), data.domains()), (10_000, &[Domain::clean()][..]));
        let sample = data.sample(0, 9_999).unwrap();
        assert_eq!((sample.label, data.label(0, 9_999)), (Some(9), Some(9)));
        let pixels = sample.image.pixels();
        assert_eq!(pixels[..6], [10, 20, 39, 11, 0, 0]);
        assert_eq!(pixels[3 * SIDE], 12);
    }

    #[test]
    fn a_wrong_length_or_label_is_refused_with_the_file_name() {
        let folder = tempfile::tempdir().unwrap();
        write_test_batch(folder.path(), |bytes| bytes.truncate(RECORDS * RECORD - 1));
        let error = verify(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains("30729999 bytes") && error.contains("test_batch.bin"), "{error}");
        write_test_batch(folder.path(), |bytes| bytes[3 * RECORD] = 10);
        let error = verify(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains("label 10 in record 3"), "{error}");
    }
}
