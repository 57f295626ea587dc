//! A plain folder of images.
//!
//! With subfolders, the subfolder is the class: ImageNet's index if all subfolders are WordNet ids, the number if all are
//! numbers, otherwise the place in alphabetical order. Without subfolders the images have no labels.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{Counts, Dataset, DatasetEntry, Domain, Info, Sample, files, imagenet};
use crate::{Error, Image, Result};

pub(super) const ENTRY: DatasetEntry = DatasetEntry {
    name: "folder",
    what: "images in a folder, labelled by subfolder (name, number or WordNet id) or unlabelled",
    benchmark: None,
    open: |root, _| Ok(Box::new(Folder::open(root)?)),
    verify,
};

struct Folder {
    info: Info,
    root: PathBuf,
    domains: [Domain; 1],
    images: Vec<(PathBuf, Option<usize>)>,
}

impl Folder {
    fn open(root: &Path) -> Result<Self> {
        let paths = files::images_below(root)?;
        let mut names: Vec<&str> =
            paths.iter().filter_map(|path| files::top_folder(path)).collect();
        if paths.is_empty() {
            return Err(Error::format("JPEG, PNG, WebP or BMP files", "none", root));
        }
        if let Some(path) =
            paths.iter().find(|path| !names.is_empty() && files::top_folder(path).is_none())
        {
            let expected = "images in subfolders, one for each class, or none in subfolders";
            return Err(Error::format(expected, "both", root.join(path)));
        }
        names.sort_unstable();
        names.dedup();
        let (class_of, num_classes) = classes(&names);
        let label = |path: &PathBuf| {
            let at = files::top_folder(path).and_then(|name| names.binary_search(&name).ok());
            at.map(|at| class_of[at])
        };
        let labels: Vec<Option<usize>> = paths.iter().map(label).collect();
        let info = Info { name: ENTRY.name, num_classes, class_indices: None };
        let images = paths.into_iter().zip(labels).collect();
        Ok(Self { info, root: root.to_path_buf(), domains: [Domain::clean()], images })
    }
}

/// The class of each sorted subfolder name, and the number of classes.
fn classes(names: &[&str]) -> (Vec<usize>, usize) {
    if let Some(indices) =
        names.iter().map(|name| imagenet::class_of_wnid(name)).collect::<Option<Vec<_>>>()
        && !names.is_empty()
    {
        return (indices, imagenet::NUM_CLASSES);
    }
    if let Ok(numbers) =
        names.iter().map(|name| name.parse::<u32>()).collect::<std::result::Result<Vec<_>, _>>()
    {
        let num_classes = numbers.iter().max().map_or(0, |&max| max as usize + 1);
        return (numbers.into_iter().map(|number| number as usize).collect(), num_classes);
    }
    ((0..names.len()).collect(), names.len())
}

impl Dataset for Folder {
    fn info(&self) -> &Info {
        &self.info
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn len(&self, _domain: usize) -> usize {
        self.images.len()
    }

    fn label(&self, _domain: usize, index: usize) -> Option<usize> {
        self.images[index].1
    }

    fn sample(&self, _domain: usize, index: usize) -> Result<Sample> {
        let (path, label) = &self.images[index];
        Ok(Sample { image: Image::open(&self.root.join(path))?, label: *label })
    }

    fn content(&self, _domain: usize, index: usize) -> Result<Vec<u8>> {
        files::content(&self.root.join(&self.images[index].0))
    }
}

/// Decodes every image.
fn verify(root: &Path) -> Result<Counts> {
    let data = Folder::open(root)?;
    let broken =
        (0..data.len(0)).into_par_iter().find_map_first(|index| data.sample(0, index).err());
    broken.map_or_else(|| Ok(Counts::of(&data)), Err)
}

#[cfg(test)]
mod tests {
    use super::{super::Options, *};

    fn labels(names: &[&str]) -> (usize, Vec<Option<usize>>) {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            Image::new(1, 2, vec![7; 6])
                .unwrap()
                .write_png(std::fs::File::create(path).unwrap())
                .unwrap();
        }
        let data = (ENTRY.open)(folder.path(), &Options::default()).unwrap();
        assert_eq!((ENTRY.verify)(folder.path()).unwrap().images, data.len(0));
        assert!(data.content(0, 0).unwrap().starts_with(b"\x89PNG"));
        (data.info().num_classes, (0..data.len(0)).map(|i| data.label(0, i)).collect())
    }

    #[test]
    fn subfolders_name_classes_by_order_number_or_wordnet_id() {
        assert_eq!(
            labels(&["dog/1.png", "cat/2.PNG", "cat/x/0.jpg"]),
            (2, vec![Some(0), Some(0), Some(1)])
        );
        assert_eq!(labels(&["007/a.png", "002/b.png"]), (8, vec![Some(2), Some(7)]));
        assert_eq!(labels(&["n01443537/a.png", "n01440764/b.png"]), (1000, vec![Some(0), Some(1)]));
        assert_eq!(labels(&["b.png", "a.png", ".hidden.png"]), (0, vec![None, None]));
    }

    #[test]
    fn a_folder_without_images_or_with_both_kinds_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), b"no image").unwrap();
        assert!((ENTRY.verify)(folder.path()).is_err());
        std::fs::create_dir(folder.path().join("dog")).unwrap();
        std::fs::write(folder.path().join("dog/a.png"), b"").unwrap();
        assert!((ENTRY.verify)(folder.path()).unwrap_err().to_string().contains("empty file"));
        std::fs::write(folder.path().join("b.png"), b"").unwrap();
        assert!((ENTRY.verify)(folder.path()).unwrap_err().to_string().contains("both"));
    }
}
