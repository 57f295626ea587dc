//! Images in a NumPy array: `images.npy` of shape `[N, H, W, 3]` or `[N, H, W]` (grey), or an `.npz` with `images`
//! and `labels`.
//!
//! Labels are optional: the array `labels` of the archive, or a `labels.npy` beside the images.

use std::path::Path;

use paint_files::Dtype;

use super::{Counts, Dataset, DatasetEntry, Domain, Info, Labels, Sample};
use crate::{Error, Image, Result, npy::NpyArray};

pub(super) const ENTRY: DatasetEntry = DatasetEntry {
    name: "npy",
    what: "a uint8 array [N, H, W, 3] or [N, H, W] in a .npy (labels.npy beside it), or images and labels in a .npz",
    benchmark: None,
    options: &["labels"],
    is_named: false,
    is_inside: false,
    is_files: false,
    clean_at: Some(Path::is_file),
    class_name: |_| None,
    open: |path, options| Ok(Box::new(Array::open(path, options.labels)?)),
    verify: |path, options| Ok(Counts::of(&Array::open(path, options.labels)?)),
};

struct Array {
    info: Info,
    domains: [Domain; 1],
    images: NpyArray,
    labels: Option<Vec<usize>>,
}

impl Array {
    fn open(path: &Path, labels: Labels) -> Result<Self> {
        let is_read = labels == Labels::Read;
        let (images, labels) = if path.extension().is_some_and(|extension| extension == "npz") {
            let labels = || NpyArray::find_in_archive(path, "labels");
            (
                NpyArray::open_in_archive(path, "images")?,
                is_read.then(labels).transpose()?.flatten(),
            )
        } else {
            let beside = path.with_file_name("labels.npy");
            let is_there = is_read && beside != path && beside.exists();
            (NpyArray::open(path)?, is_there.then(|| NpyArray::open(&beside)).transpose()?)
        };
        // Three columns are the channels of one image rather than an image. An axis of length zero would make images
        // without pixels, and any number of them takes no byte of the file.
        let fits = !images.shape.contains(&0);
        let fits = fits
            && match images.shape[..] {
                [_, _, columns] => columns != 3,
                [_, _, _, channels] => channels == 3,
                _ => false,
            };
        if images.dtype != Dtype::U8 || !fits {
            let expected = "uint8 images of shape [N, H, W, 3] or [N, H, W], one image as [1, H, W, 3], no axis of length 0";
            let found = format!("{:?} of shape {:?}", images.dtype, images.shape);
            return Err(Error::format(expected, found, path));
        }
        let labels = labels.map(|labels| labels.classes()).transpose()?;
        if let Some(labels) = labels.as_ref().filter(|labels| labels.len() != images.rows()) {
            return Err(Error::format(
                format!("{} labels", images.rows()),
                labels.len().to_string(),
                path,
            ));
        }
        let num_classes = labels.iter().flatten().max().map_or(0, |&label| label.saturating_add(1));
        let info = Info { name: ENTRY.name, num_classes, class_indices: None, class_names: None };
        Ok(Self { info, domains: [Domain::clean()], images, labels })
    }
}

impl Dataset for Array {
    fn info(&self) -> &Info {
        &self.info
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn len(&self, _domain: usize) -> usize {
        self.images.rows()
    }

    fn label(&self, _domain: usize, index: usize) -> Option<usize> {
        self.labels.as_ref().map(|labels| labels[index])
    }

    fn sample(&self, domain: usize, index: usize) -> Result<Sample> {
        let mut pixels = self.images.row(index)?;
        if self.images.shape.len() == 3 {
            pixels = pixels.iter().flat_map(|&grey| [grey; 3]).collect();
        }
        let image = Image::new(self.images.shape[2], self.images.shape[1], pixels)?;
        Ok(Sample { image, label: self.label(domain, index) })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Options, *};
    use crate::{NpyWriter, write_atomically};

    fn write(path: &Path, shape: &[usize], data: &[u8]) {
        write_atomically(path, |out| NpyWriter::new(out, shape)?.write(data)).unwrap();
    }

    #[test]
    fn grey_images_get_three_channels_and_labels_lie_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.npy");
        write(&path, &[2, 1, 2], &[1, 2, 3, 4]);
        let data = (ENTRY.open)(&path, &Options::default()).unwrap();
        assert_eq!(
            (data.sample(0, 1).unwrap().image.pixels(), data.label(0, 1)),
            (&[3, 3, 3, 4, 4, 4][..], None)
        );
        write(&folder.path().join("labels.npy"), &[2], &[0, 6]);
        let data = (ENTRY.open)(&path, &Options::default()).unwrap();
        assert_eq!((data.label(0, 1), data.info().num_classes), (Some(6), 7));
    }

    #[test]
    fn other_shapes_and_counts_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.npy");
        write(&path, &[1, 3, 2, 2], &[0; 12]);
        assert!(
            (ENTRY.verify)(&path, &Options::default())
                .unwrap_err()
                .to_string()
                .contains("[1, 3, 2, 2]")
        );
        write(&path, &[1, 2, 2, 3], &[0; 12]);
        write(&folder.path().join("labels.npy"), &[2], &[0, 6]);
        assert!((ENTRY.verify)(&path, &Options::default()).is_err());
        let options = Options { labels: Labels::Ignored, ..Options::default() };
        assert_eq!((ENTRY.open)(&path, &options).unwrap().label(0, 0), None);
        for shape in [[4_000_000_000, 0, 5, 3], [1 << 60, 0, 5, 3], [0, 2, 2, 3]] {
            write(&path, &shape, &[]);
            let error = (ENTRY.verify)(&path, &Options::default()).unwrap_err().to_string();
            assert!(error.contains(&format!("{shape:?}")), "{error}");
            assert!((ENTRY.open)(&path, &Options::default()).is_err());
        }
        write(&path, &[2, 2, 3], &[0; 12]);
        assert!(
            (ENTRY.verify)(&path, &Options::default())
                .unwrap_err()
                .to_string()
                .contains("one image as [1, H, W, 3]")
        );
    }
}
