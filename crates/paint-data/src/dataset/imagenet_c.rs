//! ImageNet-C: `<corruption>/<severity>/<wnid>/ILSVRC2012_val_XXXXXXXX.JPEG`.
//!
//! The field evaluates on 5,000 of the 50,000 validation images in a fixed order; that list is compiled in. The
//! stored images are 224x224; the protocol of the field resizes them to 256 and crops 224 again
//! (`Preprocess::resize_and_crop(256, 224, Filter::Bilinear)`), which is preprocessing and not done here.

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
    what: "ImageNet-C, <corruption>/<severity>/<wnid>/*.JPEG: the 5,000 images of the field or all, 1000 classes",
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

struct ImageNetC {
    info: Info,
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
        let images: Vec<PathBuf> = match images {
            Images::Listed => LISTED.lines().map(PathBuf::from).collect(),
            // The domains hold the same images, so one listing serves all.
            Images::All => files::images_below(first)?,
        };
        let labelled =
            |path: PathBuf| match files::top_folder(&path).and_then(imagenet::class_of_wnid) {
                Some(class) => Ok((path, class)),
                None => Err(Error::format(
                    "images in folders named by WordNet id",
                    "another folder",
                    first.join(path),
                )),
            };
        let images = images.into_iter().map(labelled).collect::<Result<_>>()?;
        let info = Info {
            name: ENTRY.name,
            num_classes: imagenet::NUM_CLASSES,
            class_indices: None,
            class_names: None,
        };
        Ok(Self { info, domains, folders, images })
    }
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
        Ok(Sample { image: Image::open(&self.folders[domain].join(path))?, label: Some(*class) })
    }

    fn content(&self, domain: usize, index: usize) -> Result<Vec<u8>> {
        files::content(&self.folders[domain].join(&self.images[index].0))
    }
}

/// The fifteen corruptions at severity 5, and every listed image in every domain that is there.
fn verify(root: &Path, _: &Options) -> Result<Counts> {
    let is_published = !root.join(CORRUPT_NOTE).exists();
    let data = ImageNetC::open(root, if is_published { Images::Listed } else { Images::All })?;
    let benchmark = CORRUPTIONS.iter().filter(|corruption| !corruption.held_out);
    for corruption in benchmark.filter(|_| is_published) {
        if !data
            .domains
            .iter()
            .any(|domain| domain.name == corruption.name && domain.severity == Some(5))
        {
            return Err(Error::format(
                format!("the folder {}/5", corruption.name),
                "no such folder",
                root,
            ));
        }
    }
    for folder in &data.folders {
        if let Some((path, _)) = data.images.iter().find(|(path, _)| !folder.join(path).is_file()) {
            return Err(Error::format(
                if is_published {
                    "every image of the 5,000-image list"
                } else {
                    "every image under every corruption"
                },
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
}
