//! Image files from anywhere, in a given order and without labels: what a user has who only wants predictions.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Dataset, Domain, Info, Sample, files};
use crate::{Error, Image, Result};

/// What becomes of the note in a photograph that says how the camera was held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exif {
    /// The image is turned upright, as viewers show it.
    #[default]
    Apply,
    /// The image stays as it is stored, as torchvision and the benchmarks read it.
    Ignore,
}

/// A list of image files.
#[derive(Debug, Clone)]
pub struct Listed {
    info: Info,
    domains: [Domain; 1],
    files: Vec<PathBuf>,
    exif: Exif,
}

impl Listed {
    /// These files, none of which is opened yet.
    pub fn new(files: Vec<PathBuf>, exif: Exif) -> Self {
        let info = Info { name: "listed", num_classes: 0, class_indices: None, class_names: None };
        Self { info, domains: [Domain::clean()], files, exif }
    }

    /// The files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

impl Dataset for Listed {
    fn info(&self) -> &Info {
        &self.info
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn len(&self, _domain: usize) -> usize {
        self.files.len()
    }

    fn label(&self, _domain: usize, _index: usize) -> Option<usize> {
        None
    }

    fn sample(&self, _domain: usize, index: usize) -> Result<Sample> {
        let path = &self.files[index];
        let image = match self.exif {
            Exif::Apply => Image::open_upright(path),
            Exif::Ignore => Image::open(path),
        };
        Ok(Sample { image: image.map_err(|error| own_fault(error, path))?, label: None })
    }

    fn content(&self, _domain: usize, index: usize) -> Result<Vec<u8>> {
        files::content(&self.files[index])
    }
}

/// A file that has gone or may not be read is at fault alone, as a damaged one is; a disk that fails is not.
fn own_fault(error: Error, path: &Path) -> Error {
    match &error {
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory => {
                Error::image("an image file that can be read", source.to_string(), path)
            }
            _ => error,
        },
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_in_the_order_of_the_list_and_one_that_is_gone_is_at_fault_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, grey) in [("b.png", 1), ("a.png", 2)] {
            let image = Image::new(1, 1, vec![grey; 3]).unwrap();
            image.write_png(std::fs::File::create(path(name)).unwrap()).unwrap();
        }
        std::fs::write(path("c.png"), "no image").unwrap();
        let names = ["b.png", "a.png", "b.png", "gone.png", ".", "c.png"];
        let data = Listed::new(names.map(path).to_vec(), Exif::Apply);
        assert_eq!((data.len(0), data.files()[1].clone()), (6, path("a.png")));
        let grey = |index| data.sample(0, index).unwrap().image.pixels()[0];
        assert_eq!([grey(0), grey(1), grey(2)], [1, 2, 1]);
        for (index, name) in names.iter().enumerate().skip(3) {
            let error = data.sample(0, index).unwrap_err();
            assert!(error.is_damaged_image() && error.to_string().contains(name), "{error}");
        }
    }
}
