//! ImageNet-C: `<corruption>/<severity>/<class>/ILSVRC2012_val_XXXXXXXX.JPEG`. A class folder is named by WordNet
//! id, as published, by index or by name.
//!
//! The field evaluates on 5,000 of the 50,000 validation images in a fixed order; that list is compiled in. The
//! stored images are 224x224; the protocol of the field resizes them to 256 and crops 224 again
//! (`Preprocess::resize_and_crop(256, 224, Filter::Bilinear)`), which is preprocessing and not done here.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use paint_settings::choice;

use super::{
    CORRUPT_NOTE, Counts, Dataset, DatasetEntry, Domain, Info, Options, Sample, files, imagenet,
};
use crate::{
    Error, Image, Result,
    corruption::{CORRUPTIONS, Corruption},
};

const LISTED: &str = include_str!("../../data/imagenet_c_5k_ids.txt");

pub(super) const ENTRY: DatasetEntry = DatasetEntry {
    name: "imagenet-c",
    what: "ImageNet-C, <corruption>/<severity>/<class>/*.JPEG: the 5,000 images of the field or all, 1000 classes",
    benchmark: Some("imagenet"),
    options: &["images"],
    is_named: false,
    is_inside: false,
    is_files: true,
    clean_at: None,
    class_name: imagenet::imagenet_class_name,
    open: |root, options| Ok(Box::new(ImageNetC::open(root, options.images)?)),
    verify,
};

choice! {
    /// The images of ImageNet-C to use.
    #[derive(Default)]
    pub enum Images {
        /// The 5,000 of the list that the field uses, in its order
        #[default]
        Listed = "listed",
        /// Every image of the folders, in the order of their names
        All = "all",
    }
}

/// What an incomplete copy is told to do.
const LISTED_EXPECTED: &str = "every image of the 5,000-image list; to read the images that are there, in the order of their names, add \
     --set data.options.images=all";

struct ImageNetC {
    info: Info,
    chosen: Images,
    domains: Vec<Domain>,
    folders: Vec<PathBuf>,
    /// Path below the folder of a domain and class, the same in every domain.
    images: Vec<(PathBuf, usize)>,
}

impl ImageNetC {
    fn open(root: &Path, images: Images) -> Result<Self> {
        let (mut domains, mut folders) = (Vec::new(), Vec::new());
        for corruption in CORRUPTIONS {
            for severity in 1..=Corruption::MAX_SEVERITY {
                let folder = root.join(corruption.name).join(severity.to_string());
                if folder.is_dir() {
                    domains.push(Domain { name: corruption.name.into(), severity: Some(severity) });
                    folders.push(folder);
                }
            }
        }
        let Some(first) = folders.first() else {
            return Err(Error::format("<corruption>/<severity> folders", "none", root));
        };
        let listed = match images {
            Images::Listed => listed(&class_folders(first)?, first)?,
            // The domains hold the same images, so one listing serves all.
            Images::All => labelled(files::images_below(first)?, first)?,
        };
        let info = Info {
            name: ENTRY.name,
            num_classes: imagenet::NUM_CLASSES,
            class_indices: None,
            class_names: None,
        };
        let chosen = images;
        let images = listed.into_iter().map(|(class, path)| (path, class)).collect();
        Ok(Self { info, chosen, domains, folders, images })
    }
}

/// The class of an image from the folder it lies in.
fn class_of(path: &Path, domain: &Path) -> Result<usize> {
    files::top_folder(path).and_then(imagenet::class_of_folder).ok_or_else(|| {
        let expected = "images in folders named by WordNet id, class index or class name (crane and maillot, which two classes \
                        are called, by one of the others)";
        Error::format(expected, "another folder", domain.join(path))
    })
}

/// Images with their classes; a folder is looked up once.
fn labelled(images: Vec<PathBuf>, domain: &Path) -> Result<Vec<(usize, PathBuf)>> {
    let mut known = BTreeMap::new();
    let label = |path: PathBuf| {
        let folder = files::top_folder(&path).unwrap_or_default();
        let class = match known.get(folder) {
            Some(class) => *class,
            None => *known.entry(folder.to_owned()).or_insert(class_of(&path, domain)?),
        };
        Ok((class, path))
    };
    images.into_iter().map(label).collect()
}

/// The folder of each class in a domain.
fn class_folders(domain: &Path) -> Result<BTreeMap<usize, String>> {
    let io = |source| Error::io(source, domain);
    let mut folders = BTreeMap::new();
    for entry in std::fs::read_dir(domain).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || !entry.path().is_dir() {
            continue;
        }
        match folders.entry(class_of(&Path::new(&name).join("image"), domain)?) {
            Entry::Vacant(place) => drop(place.insert(name)),
            Entry::Occupied(other) => {
                let found = format!("two, {:?} beside it", other.get());
                return Err(Error::format("one folder for each class", found, domain.join(name)));
            }
        }
    }
    Ok(folders)
}

/// The images of the list, in the folders of a domain.
fn listed(folders: &BTreeMap<usize, String>, domain: &Path) -> Result<Vec<(usize, PathBuf)>> {
    let place = |line: &str| {
        let (wnid, file) = line.split_once('/').unwrap_or(("", line));
        let class = imagenet::class_of_wnid(wnid);
        match class.and_then(|class| Some((class, folders.get(&class)?))) {
            Some((class, folder)) => Ok((class, Path::new(folder).join(file))),
            None => {
                Err(Error::format(LISTED_EXPECTED, "no folder of its class", domain.join(line)))
            }
        }
    };
    LISTED.lines().map(place).collect()
}

impl Dataset for ImageNetC {
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
        Some(self.images[index].1)
    }

    fn sample(&self, domain: usize, index: usize) -> Result<Sample> {
        let (path, class) = &self.images[index];
        let image = Image::open(&self.folders[domain].join(path));
        Ok(Sample { image: image.map_err(|error| self.missing(error))?, label: Some(*class) })
    }

    fn content(&self, domain: usize, index: usize) -> Result<Vec<u8>> {
        let content = files::content(&self.folders[domain].join(&self.images[index].0));
        content.map_err(|error| self.missing(error))
    }
}

impl ImageNetC {
    /// An image of the list that is not there is an incomplete copy, and the message says what to do.
    fn missing(&self, error: Error) -> Error {
        match error {
            Error::Io { source, path }
                if source.kind() == ErrorKind::NotFound && self.chosen == Images::Listed =>
            {
                Error::format(LISTED_EXPECTED, "no such file", path)
            }
            other => other,
        }
    }
}

/// The fifteen corruptions at severity 5, and every listed image in every domain that is there.
fn verify(root: &Path, _: &Options) -> Result<Counts> {
    let is_published = !root.join(CORRUPT_NOTE).exists();
    let benchmark = CORRUPTIONS.iter().filter(|corruption| !corruption.held_out);
    for corruption in benchmark.filter(|_| is_published) {
        let folder = format!("{}/{}", corruption.name, Corruption::MAX_SEVERITY);
        if !root.join(&folder).is_dir() {
            return Err(Error::format(format!("the folder {folder}"), "no such folder", root));
        }
    }
    let data = ImageNetC::open(root, if is_published { Images::Listed } else { Images::All })?;
    for folder in &data.folders {
        if let Some((path, _)) = data.images.iter().find(|(path, _)| !folder.join(path).is_file()) {
            return Err(Error::format(
                if is_published { LISTED_EXPECTED } else { "every image under every corruption" },
                "one missing",
                folder.join(path),
            ));
        }
    }
    Ok(Counts::of(&data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_5000_different_images_with_known_classes() {
        let mut lines: Vec<&str> = LISTED.lines().collect();
        assert_eq!((lines.len(), lines[0]), (5000, "n09468604/ILSVRC2012_val_00015253.JPEG"));
        assert!(lines.iter().all(|line| imagenet::class_of_wnid(&line[..9]).is_some()));
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 5000);
    }

    #[test]
    fn all_images_come_in_the_order_of_their_names_with_their_class() {
        let folder = tempfile::tempdir().unwrap();
        for domain in ["contrast/3", "contrast/5", "brightness/5"] {
            for (wnid, image) in [("n01443537", "b"), ("n01443537", "a"), ("n01440764", "c")] {
                let path = folder.path().join(domain).join(wnid);
                std::fs::create_dir_all(&path).unwrap();
                let image_file = std::fs::File::create(path.join(format!("{image}.JPEG"))).unwrap();
                Image::new(2, 1, vec![image.as_bytes()[0]; 6])
                    .unwrap()
                    .write_jpeg(image_file, 100)
                    .unwrap();
            }
        }
        let options = Options { images: Images::All, ..Options::default() };
        let data = (ENTRY.open)(folder.path(), &options).unwrap();
        let names: Vec<_> = data.domains().iter().map(|d| (d.name.as_str(), d.severity)).collect();
        assert_eq!(names, [("brightness", Some(5)), ("contrast", Some(3)), ("contrast", Some(5))]);
        assert_eq!(
            (0..3).map(|i| data.label(0, i)).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(1)]
        );
        assert!(data.sample(2, 1).unwrap().image.pixels()[0].abs_diff(b'a') < 4);
        let error = verify(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains("gaussian_noise/5"), "{error}");
    }

    /// The folders of all classes in one domain, named by `name` of index and WordNet id, and one listed image.
    fn one_domain(name: impl Fn(usize, &str) -> String) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let domain = root.path().join("fog/5");
        for line in LISTED.lines() {
            let wnid = &line[..9];
            let class = imagenet::class_of_wnid(wnid).unwrap();
            std::fs::create_dir_all(domain.join(name(class, wnid))).unwrap();
        }
        let (wnid, file) = LISTED.lines().next().unwrap().split_once('/').unwrap();
        let folder = domain.join(name(imagenet::class_of_wnid(wnid).unwrap(), wnid));
        let image = std::fs::File::create(folder.join(file)).unwrap();
        Image::new(1, 1, vec![9; 3]).unwrap().write_jpeg(image, 100).unwrap();
        root
    }

    #[test]
    fn folders_may_be_named_by_id_by_index_or_by_name() {
        let by_name = |class: usize, wnid: &str| match imagenet::imagenet_class_name(class) {
            Some(name) if !["crane", "maillot"].contains(&name) => name.replace([' ', '/'], "_"),
            _ => wnid.to_owned(),
        };
        let by_id = |_: usize, wnid: &str| wnid.to_owned();
        let by_index = |class: usize, _: &str| format!("{class:04}");
        for root in [one_domain(by_id), one_domain(by_index), one_domain(by_name)] {
            let data = (ENTRY.open)(root.path(), &Options::default()).unwrap();
            assert_eq!((data.len(0), data.label(0, 0)), (5000, Some(979)));
            assert_eq!(data.sample(0, 0).unwrap().label, Some(979));
            let error = data.sample(0, 1).err().unwrap().to_string();
            assert!(error.contains("data.options.images=all"), "{error}");
        }
    }

    #[test]
    fn folders_that_say_nothing_or_the_same_are_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        let domain = root.path().join("fog/5");
        std::fs::create_dir_all(domain.join("2")).unwrap();
        let refused = |name: &str| {
            std::fs::create_dir(domain.join(name)).unwrap();
            let error = (ENTRY.open)(root.path(), &Options::default()).err().unwrap().to_string();
            std::fs::remove_dir(domain.join(name)).unwrap();
            error
        };
        for name in ["crane", "nothing", "n00000000", "1000"] {
            let error = refused(name);
            assert!(error.contains(name) && error.contains("class index"), "{error}");
        }
        let error = refused("n01484850");
        assert!(error.contains("one folder for each class"), "{error}");
    }
}
