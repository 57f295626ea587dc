//! A plain folder of images.
//!
//! With subfolders, the subfolder is the class: that of the model if all have names the model gives its classes, ImageNet's
//! index if all are WordNet ids, the number if all are numbers. Other names are refused where the model's are known, and
//! otherwise numbered in alphabetical order. Without subfolders the images have no labels.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{
    Counts, Dataset, DatasetEntry, Domain, Info, Labels, Options, Sample, files, imagenet,
};
use crate::{Error, Image, Result};

pub(super) const ENTRY: DatasetEntry = DatasetEntry {
    name: "folder",
    what: "images in a folder, labelled by subfolder (name, number or WordNet id) or unlabelled",
    benchmark: None,
    is_named: true,
    open: |root, options| Ok(Box::new(Folder::open(root, options)?)),
    verify,
};

/// How many classes of a model a message names.
const SHOWN: usize = 12;

struct Folder {
    info: Info,
    root: PathBuf,
    domains: [Domain; 1],
    images: Vec<(PathBuf, Option<usize>)>,
}

impl Folder {
    fn open(root: &Path, options: &Options) -> Result<Self> {
        let paths = files::images_below(root)?;
        if paths.is_empty() {
            return Err(Error::format("JPEG, PNG, WebP or BMP files", "none", root));
        }
        let is_labelled = options.labels == Labels::Read;
        let folders: Vec<Option<&str>> =
            paths.iter().map(|path| files::top_folder(path).filter(|_| is_labelled)).collect();
        let mut names: Vec<&str> = folders.iter().copied().flatten().collect();
        if let Some(at) = folders.iter().position(Option::is_none).filter(|_| !names.is_empty()) {
            let expected = "images in subfolders, one for each class, or none in subfolders";
            return Err(Error::format(expected, "both", root.join(&paths[at])));
        }
        names.sort_unstable();
        names.dedup();
        let Meaning { of, num_classes, class_names } =
            Meaning::find(&names, &options.classes, root)?;
        let label = |folder: Option<&str>| Some(of[names.binary_search(&folder?).ok()?]);
        let labels: Vec<Option<usize>> = folders.into_iter().map(label).collect();
        let info = Info { name: ENTRY.name, num_classes, class_indices: None, class_names };
        let images = paths.into_iter().zip(labels).collect();
        Ok(Self { info, root: root.to_path_buf(), domains: [Domain::clean()], images })
    }
}

/// What subfolders mean.
struct Meaning {
    /// The class of each.
    of: Vec<usize>,
    num_classes: usize,
    class_names: Option<Vec<String>>,
}

impl Meaning {
    /// Those of sorted subfolder names; `known` are the model's own, if it has names.
    fn find(names: &[&str], known: &[String], root: &Path) -> Result<Self> {
        let place = |name: &&str| {
            let mut places = known.iter().enumerate().filter(|(_, class)| class == name);
            places.next().filter(|_| places.next().is_none()).map(|(place, _)| place)
        };
        if let Some(of) = all(names, place) {
            let class_names = Some(known.to_vec());
            return Ok(Self { of, num_classes: known.len(), class_names });
        }
        let is_foreign = names.iter().all(|name| place(name).is_none());
        if let Some(of) = all(names, |name| imagenet::class_of_wnid(name)).filter(|_| is_foreign) {
            return Ok(Self { of, num_classes: imagenet::NUM_CLASSES, class_names: None });
        }
        let number = |name: &&str| Some(name.parse::<u32>().ok()? as usize);
        if let Some(of) = all(names, number).filter(|_| is_foreign) {
            let num_classes = of.iter().max().map_or(0, |max| max + 1);
            return Ok(Self { of, num_classes, class_names: None });
        }
        if let Some(name) = names.iter().find(|name| !known.is_empty() && place(name).is_none()) {
            let shown = known.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if known.len() > SHOWN { ", ..." } else { "" };
            let expected = format!(
                "folders named as one class of the model each ({shown}{more}); `adapt` takes any, `cam` with --set \
                 data.options.labels=ignored"
            );
            return Err(Error::format(expected, format!("{name:?}"), root.join(name)));
        }
        let class_names = if names.is_empty() {
            known.to_vec()
        } else {
            names.iter().map(|&name| name.to_owned()).collect()
        };
        let class_names = Some(class_names).filter(|names| !names.is_empty());
        Ok(Self { of: (0..names.len()).collect(), num_classes: names.len(), class_names })
    }
}

/// What every name means, if there are names and each means something.
fn all(names: &[&str], meaning: impl Fn(&&str) -> Option<usize>) -> Option<Vec<usize>> {
    names.iter().map(meaning).collect::<Option<Vec<_>>>().filter(|of| !of.is_empty())
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
    let data = Folder::open(root, &Options::default())?;
    let broken =
        (0..data.len(0)).into_par_iter().find_map_first(|index| data.sample(0, index).err());
    broken.map_or_else(|| Ok(Counts::of(&data)), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let image = Image::new(1, 2, vec![7; 6]).unwrap();
            image.write_png(std::fs::File::create(path).unwrap()).unwrap();
        }
        folder
    }

    fn labels(names: &[&str]) -> (usize, Vec<Option<usize>>) {
        let folder = folder(names);
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
    fn the_names_a_model_gives_its_classes_number_the_folders() {
        let open = |names: &[&str], classes: &[&str]| {
            let classes = classes.iter().map(|&name| name.to_owned()).collect();
            let options = Options { classes, ..Options::default() };
            let folder = folder(names);
            let data = (ENTRY.open)(folder.path(), &options).map_err(|error| error.to_string())?;
            let labels = (0..data.len(0)).map(|i| data.label(0, i).unwrap()).collect::<Vec<_>>();
            Ok::<_, String>((data.info().num_classes, labels))
        };
        let classes = ["truck", "dog", "7", "cat", "dog's"];
        assert_eq!(open(&["cat/a.png", "truck/b.png"], &classes), Ok((5, vec![3, 0])));
        assert_eq!(open(&["7/a.png", "dog/b.png"], &classes), Ok((5, vec![2, 1])));
        assert_eq!(open(&["2/a.png", "0/b.png"], &classes), Ok((3, vec![0, 2])));
        assert_eq!(open(&["n01443537/a.png"], &classes), Ok((1000, vec![1])));
        let message = open(&["cat/a.png", "dgo/b.png"], &classes).unwrap_err();
        assert!(message.contains("\"dgo\"") && message.contains("truck, dog, 7"), "{message}");
        // One name is the model's, so that the other is a mistake and no number.
        assert!(open(&["7/a.png", "8/b.png"], &classes).unwrap_err().contains("\"8\""));
        // A crane is a bird and a machine.
        assert!(open(&["crane/a.png"], &["crane", "dog", "crane"]).is_err());
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
        let options = Options { labels: Labels::Ignored, ..Options::default() };
        let data = (ENTRY.open)(folder.path(), &options).unwrap();
        assert_eq!((data.len(0), data.label(0, 0), data.label(0, 1)), (2, None, None));
    }
}
