//! A plain folder of images.
//!
//! With subfolders, the subfolder is the class ([`meaning`]); without, the images have no labels. By an option the
//! first level of folders are domains, and what was said holds inside each of them.

mod meaning;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use paint_files::printable;
use rayon::prelude::*;

use self::meaning::Meaning;
use super::files::{self, Skipped};
use super::{Counts, Dataset, DatasetEntry, Domain, Domains, Info, Labels, Options, Sample};
use crate::{Error, Image, Result};

pub(super) const ENTRY: DatasetEntry = DatasetEntry {
    name: "folder",
    what: "images in a folder, labelled by subfolder (name, number or WordNet id) or unlabelled",
    benchmark: None,
    options: &["classes", "labels", "domains"],
    is_named: true,
    is_inside: false,
    is_files: true,
    clean_at: Some(Path::is_dir),
    class_name: |_| None,
    open: |root, options| Ok(Box::new(Folder::open(root, options)?)),
    verify,
};

/// How many folders a note names.
const NAMED: usize = 3;

struct Folder {
    info: Info,
    root: PathBuf,
    domains: Vec<Domain>,
    /// Path and class of each image, by domain.
    images: Vec<Vec<(PathBuf, Option<usize>)>>,
    notes: Vec<String>,
}

/// An image file and what its place says.
struct Found {
    path: PathBuf,
    domain: Option<String>,
    class: Option<String>,
}

impl Folder {
    fn open(root: &Path, options: &Options) -> Result<Self> {
        let listing = files::list_images(root)?;
        let mut notes: Vec<String> = Skipped::summary(&listing.skipped).into_iter().collect();
        if listing.images.is_empty() {
            let found = notes.pop().unwrap_or_else(|| "none".to_owned());
            return Err(Error::format("JPEG, PNG, WebP or BMP files", found, root));
        }
        let found = |path| Found::new(path, root, options);
        let found = listing.images.into_iter().map(found).collect::<Result<Vec<_>>>()?;
        let mut names: Vec<&str> =
            found.iter().filter_map(|image| image.class.as_deref()).collect();
        let unlabelled = found.iter().find(|image| image.class.is_none());
        if let Some(image) = unlabelled.filter(|_| !names.is_empty()) {
            let expected = "images in subfolders, one for each class, or none in subfolders";
            return Err(Error::format(expected, "both", root.join(&image.path)));
        }
        names.sort_unstable();
        names.dedup();
        let Meaning { of, num_classes, class_names } =
            Meaning::find(&names, &options.classes, root)?;
        if options.domains == Domains::One && options.labels == Labels::Read {
            notes.extend(ambiguity(&found));
        }
        let label = |image: &Found| Some(of[names.binary_search(&image.class.as_deref()?).ok()?]);
        let mut images: BTreeMap<Option<String>, Vec<_>> = BTreeMap::new();
        let labels: Vec<Option<usize>> = found.iter().map(label).collect();
        for (Found { path, domain, .. }, label) in found.into_iter().zip(labels) {
            images.entry(domain).or_default().push((path, label));
        }
        let domain = |name: &Option<String>| match name {
            Some(name) => Domain { name: name.clone(), severity: None },
            None => Domain::clean(),
        };
        let domains = images.keys().map(domain).collect();
        let info = Info { name: ENTRY.name, num_classes, class_indices: None, class_names };
        let images = images.into_values().collect();
        Ok(Self { info, root: root.to_path_buf(), domains, images, notes })
    }
}

impl Found {
    fn new(path: PathBuf, root: &Path, options: &Options) -> Result<Self> {
        let mut inner = path.as_path();
        let mut domain = None;
        if options.domains == Domains::Folders {
            let Some(name) = files::top_folder(&path) else {
                let expected = "images in folders of domains, as data.options.domains=folders says";
                return Err(Error::format(expected, "an image outside of them", root.join(path)));
            };
            inner = path.strip_prefix(name).unwrap_or(inner);
            domain = Some(name.to_owned());
        }
        let is_labelled = options.labels == Labels::Read;
        let class = files::top_folder(inner).filter(|_| is_labelled).map(str::to_owned);
        Ok(Self { path, domain, class })
    }
}

/// A note where the class folders hold folders of the same names, as domains with folders of classes do.
fn ambiguity(found: &[Found]) -> Option<String> {
    let mut outer: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for image in found {
        let class = image.class.as_deref()?;
        // An image directly below the class: then the folder is one.
        let inner = files::top_folder(image.path.strip_prefix(class).ok()?)?;
        outer.entry(class).or_default().insert(inner);
    }
    let first = outer.values().next()?;
    let shared = outer.values().skip(1).any(|inner| !inner.is_disjoint(first));
    let list = |names: Vec<&str>| {
        let named: Vec<_> = names.iter().take(NAMED).map(|name| printable(name)).collect();
        named.join(", ") + if names.len() > NAMED { ", ..." } else { "" }
    };
    shared.then(|| {
        format!(
            "the folders {} are taken for classes, and hold folders of the same names ({}); if they are domains, add \
             --set data.options.domains=folders",
            list(outer.keys().copied().collect()),
            list(first.iter().copied().collect()),
        )
    })
}

impl Dataset for Folder {
    fn info(&self) -> &Info {
        &self.info
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn len(&self, domain: usize) -> usize {
        self.images[domain].len()
    }

    fn label(&self, domain: usize, index: usize) -> Option<usize> {
        self.images[domain][index].1
    }

    fn sample(&self, domain: usize, index: usize) -> Result<Sample> {
        let (path, label) = &self.images[domain][index];
        Ok(Sample { image: Image::open(&self.root.join(path))?, label: *label })
    }

    fn content(&self, domain: usize, index: usize) -> Result<Vec<u8>> {
        files::content(&self.root.join(&self.images[domain][index].0))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// Decodes every image; damage that is read over counts.
fn verify(root: &Path, options: &Options) -> Result<Counts> {
    let data = Folder::open(root, options)?;
    let images: Vec<&PathBuf> = data.images.iter().flatten().map(|(path, _)| path).collect();
    let broken =
        images.par_iter().find_map_first(|path| Image::open_intact(&root.join(path)).err());
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
        assert_eq!((ENTRY.verify)(folder.path(), &Options::default()).unwrap().images, data.len(0));
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
        assert!((ENTRY.verify)(folder.path(), &Options::default()).is_err());
        std::fs::create_dir(folder.path().join("dog")).unwrap();
        std::fs::write(folder.path().join("dog/a.png"), b"").unwrap();
        assert!(
            (ENTRY.verify)(folder.path(), &Options::default())
                .unwrap_err()
                .to_string()
                .contains("empty file")
        );
        std::fs::write(folder.path().join("b.png"), b"").unwrap();
        assert!(
            (ENTRY.verify)(folder.path(), &Options::default())
                .unwrap_err()
                .to_string()
                .contains("both")
        );
        let options = Options { labels: Labels::Ignored, ..Options::default() };
        let data = (ENTRY.open)(folder.path(), &options).unwrap();
        assert_eq!((data.len(0), data.label(0, 0), data.label(0, 1)), (2, None, None));
    }

    #[test]
    fn the_first_level_of_folders_may_be_domains() {
        let names = ["day2/dog/a.png", "day1/cat/b.png", "day1/dog/c.png", "day1/dog/d.png"];
        let folder = folder(&names);
        let options = Options {
            domains: Domains::Folders,
            classes: ["dog", "cat"].map(str::to_owned).to_vec(),
            ..Options::default()
        };
        let data = (ENTRY.open)(folder.path(), &options).unwrap();
        let domains: Vec<&str> = data.domains().iter().map(|domain| domain.name.as_str()).collect();
        assert_eq!((domains, data.info().num_classes), (vec!["day1", "day2"], 2));
        let labels = |domain| (0..data.len(domain)).map(|i| data.label(domain, i)).collect();
        let (first, second): (Vec<_>, Vec<_>) = (labels(0), labels(1));
        assert_eq!((first, second), (vec![Some(1), Some(0), Some(0)], vec![Some(0)]));
        assert_eq!(data.sample(1, 0).unwrap().label, Some(0));
        let counts = (ENTRY.verify)(folder.path(), &options).unwrap();
        assert_eq!((counts.images, counts.domains, counts.num_classes), (4, 2, 2));
        assert_eq!(data.notes(), [""; 0]);

        // Without the option the days are classes: no names of the model's, and suspiciously alike inside.
        let options = Options { domains: Domains::One, ..options };
        let error = (ENTRY.verify)(folder.path(), &options).unwrap_err().to_string();
        assert!(error.contains("data.options.domains=folders"), "{error}");
        let data = (ENTRY.open)(folder.path(), &Options::default()).unwrap();
        let [note] = &data.notes()[..] else { panic!("{:?}", data.notes()) };
        assert!(note.contains("day1") && note.contains("data.options.domains=folders"), "{note}");

        let options = Options { domains: Domains::Folders, ..Options::default() };
        std::fs::write(folder.path().join("stray.png"), "").unwrap();
        let error = (ENTRY.verify)(folder.path(), &options).unwrap_err().to_string();
        assert!(error.contains("stray.png"), "{error}");
    }

    #[test]
    fn images_of_domains_may_be_unlabelled() {
        let folder = folder(&["day1/a.png", "day2/b.png", "day2/c.png"]);
        let options = Options { domains: Domains::Folders, ..Options::default() };
        let data = (ENTRY.open)(folder.path(), &options).unwrap();
        assert_eq!((data.domains().len(), data.len(1), data.label(1, 0)), (2, 2, None));
    }

    #[test]
    fn a_damaged_jpeg_is_read_and_yet_not_sound() {
        let folder = folder(&["a.png"]);
        let damaged = "../../fixtures/jpeg/damaged_progressive_code.jpg";
        let damaged = Path::new(env!("CARGO_MANIFEST_DIR")).join(damaged);
        std::fs::copy(damaged, folder.path().join("b.jpg")).unwrap();
        let data = (ENTRY.open)(folder.path(), &Options::default()).unwrap();
        assert!(data.sample(0, 1).is_ok());
        let error = (ENTRY.verify)(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains("a sound JPEG image") && error.ends_with("b.jpg"), "{error}");
    }
}
