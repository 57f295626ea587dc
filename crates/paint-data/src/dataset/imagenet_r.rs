//! ImageNet-R: `<wnid>/<rendition>_<n>.jpg`, 200 of ImageNet's classes in 15 renditions.
//!
//! A rendition is a domain; a label is 0 to 199, and `Info::class_indices` gives the model's output for it.

use std::path::{Path, PathBuf};

use super::imagenet::imagenet_class_name;
use super::{Counts, Dataset, DatasetEntry, Domain, Info, Options, Sample, files};
use crate::{Error, Image, Result};

const CLASSES: &str = include_str!("../../data/imagenet_r_classes.csv");
const IMAGES: usize = 30_000;
const RENDITIONS: [&str; 15] = [
    "art",
    "cartoon",
    "deviantart",
    "embroidery",
    "graffiti",
    "graphic",
    "misc",
    "origami",
    "painting",
    "sculpture",
    "sketch",
    "sticker",
    "tattoo",
    "toy",
    "videogame",
];

pub(super) const ENTRY: DatasetEntry = DatasetEntry {
    name: "imagenet-r",
    what: "ImageNet-R, <wnid>/<rendition>_<n>.jpg, 15 renditions as domains, 200 of ImageNet's classes",
    benchmark: Some("imagenet"),
    options: &[],
    is_named: false,
    is_inside: false,
    is_files: true,
    clean_at: None,
    class_name: imagenet_class_name,
    open: |root, _| Ok(Box::new(ImageNetR::open(root)?)),
    verify,
};

/// ImageNet index and WordNet id of each of the 200 classes, sorted by both.
fn classes() -> Vec<(usize, &'static str)> {
    let class = |line: &'static str| {
        let mut fields = line.split(',').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?))
    };
    CLASSES.lines().skip(1).filter_map(class).collect()
}

struct ImageNetR {
    info: Info,
    root: PathBuf,
    domains: Vec<Domain>,
    /// Path and label of each image, by domain.
    images: Vec<Vec<(PathBuf, usize)>>,
}

impl ImageNetR {
    fn open(root: &Path) -> Result<Self> {
        let classes = classes();
        let mut images = vec![Vec::new(); RENDITIONS.len()];
        for path in files::images_below(root)? {
            let wnid = files::top_folder(&path);
            let label =
                wnid.and_then(|wnid| classes.binary_search_by(|class| class.1.cmp(wnid)).ok());
            let rendition =
                path.file_stem().and_then(|stem| stem.to_str()?.split_once('_')).and_then(
                    |(prefix, _)| RENDITIONS.iter().position(|rendition| *rendition == prefix),
                );
            let (Some(label), Some(rendition)) = (label, rendition) else {
                return Err(Error::format(
                    "<wnid>/<rendition>_<n>.jpg of ImageNet-R",
                    "another name",
                    root.join(path),
                ));
            };
            images[rendition].push((path, label));
        }
        let present = |i: &usize| !images[*i].is_empty();
        let kept: Vec<usize> = (0..RENDITIONS.len()).filter(present).collect();
        let domains: Vec<Domain> =
            kept.iter().map(|&i| Domain { name: RENDITIONS[i].into(), severity: None }).collect();
        if domains.is_empty() {
            return Err(Error::format("images", "none", root));
        }
        images.retain(|images| !images.is_empty());
        let class_indices = Some(classes.iter().map(|class| class.0).collect());
        let info =
            Info { name: ENTRY.name, num_classes: classes.len(), class_indices, class_names: None };
        Ok(Self { info, root: root.to_path_buf(), domains, images })
    }
}

impl Dataset for ImageNetR {
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
        Some(self.images[domain][index].1)
    }

    fn sample(&self, domain: usize, index: usize) -> Result<Sample> {
        let (path, label) = &self.images[domain][index];
        Ok(Sample { image: Image::open(&self.root.join(path))?, label: Some(*label) })
    }

    fn content(&self, domain: usize, index: usize) -> Result<Vec<u8>> {
        files::content(&self.root.join(&self.images[domain][index].0))
    }
}

/// The published archive: every class, every rendition, 30,000 images.
fn verify(root: &Path, _: &Options) -> Result<Counts> {
    let data = ImageNetR::open(root)?;
    if let Some((_, wnid)) = classes().into_iter().find(|(_, wnid)| !root.join(wnid).is_dir()) {
        return Err(Error::format(format!("the class folder {wnid}"), "no such folder", root));
    }
    if let Some(missing) =
        RENDITIONS.iter().find(|r| data.domains.iter().all(|domain| domain.name != **r))
    {
        return Err(Error::format(format!("images of the rendition {missing}"), "none", root));
    }
    let counts = Counts::of(&data);
    if counts.images != IMAGES {
        return Err(Error::format(format!("{IMAGES} images"), counts.images.to_string(), root));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_are_200_in_ascending_order() {
        let classes = classes();
        assert_eq!(
            (classes.len(), classes[0], classes[3]),
            (200, (1, "n01443537"), (6, "n01498041"))
        );
        assert!(classes.is_sorted());
        assert!(
            classes
                .iter()
                .all(|&(index, wnid)| super::super::imagenet::class_of_wnid(wnid) == Some(index))
        );
    }

    #[test]
    fn renditions_become_domains_and_labels_index_the_200_classes() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["n01498041/toy_2.jpg", "n01498041/art_10.jpg", "n01443537/toy_1.jpg"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            Image::new(1, 1, vec![0; 3])
                .unwrap()
                .write_jpeg(std::fs::File::create(path).unwrap(), 90)
                .unwrap();
        }
        let data = (ENTRY.open)(folder.path(), &Options::default()).unwrap();
        let names: Vec<&str> = data.domains().iter().map(|domain| domain.name.as_str()).collect();
        assert_eq!(names, ["art", "toy"]);
        assert_eq!((data.len(1), data.label(1, 0), data.label(1, 1)), (2, Some(0), Some(3)));
        assert_eq!(data.info().class_indices.as_ref().unwrap()[3], 6);
        assert_eq!(data.sample(0, 0).unwrap().label, Some(3));
        std::fs::write(folder.path().join("n01498041/photo_1.jpg"), b"").unwrap();
        let error = verify(folder.path(), &Options::default()).unwrap_err().to_string();
        assert!(error.ends_with("photo_1.jpg"), "{error}");
    }
}
