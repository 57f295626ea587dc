//! The images of `paint adapt`: folders, files, a list of files, standard input, or an array.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use anyhow::{Context as _, Result};
use paint_data::dataset::{Exif, Labels, Options, Skipped, entry, list_images};
use paint_run::session::Images;

use crate::Usage;

/// Names that are read from standard input ahead of the batch.
const AHEAD: usize = 1024;

/// Which images, and how they are read.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Folders, image files, or one .npy or .npz array of shape [N, H, W, 3]
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "list")]
    images: Vec<PathBuf>,
    /// File with the name of one image per line; - reads names from standard input as they come
    #[arg(long, value_name = "FILE", conflicts_with = "images")]
    list: Option<PathBuf>,
    /// Read images in their order; without it they are shuffled, because images sorted by class or by place teach
    /// little. Names from standard input stay in order
    #[arg(long)]
    in_order: bool,
    /// Leave photographs as they are stored, as torchvision and the benchmarks read them
    #[arg(long)]
    ignore_exif: bool,
}

impl ImageArgs {
    /// What the flags name, in the order that `seed` gives unless they ask for their own.
    pub(super) fn open(&self, seed: u64) -> Result<Images> {
        let images = self.listed()?;
        if self.in_order || images.count().is_none() {
            return Ok(images.resumable());
        }
        note!("images are read in a random order (seed {seed}); --in-order keeps their own");
        Ok(images.shuffled(seed).resumable())
    }

    fn listed(&self) -> Result<Images> {
        let exif = if self.ignore_exif { Exif::Ignore } else { Exif::Apply };
        if let Some(list) = &self.list {
            if list == Path::new("-") {
                return Ok(incoming(exif));
            }
            let file = File::open(list);
            let read = file.and_then(|file| names(BufReader::new(file)).collect());
            let files: Vec<PathBuf> =
                read.with_context(|| format!("cannot read {}", list.display()))?;
            return Ok(Images::files(not_empty(files, list)?, exif));
        }
        if let Some(array) = self.images.iter().find(|path| is_array(path)) {
            if self.images.len() > 1 {
                let why =
                    format!("--images: expected {} alone, as it is an array", array.display());
                return Err(Usage(why).into());
            }
            let options = Options { labels: Labels::Ignored, ..Options::default() };
            let dataset = (entry("npy")?.open)(existing(array)?, &options)?;
            return Ok(Images::dataset(dataset.into()));
        }
        if let [folder] = &self.images[..]
            && folder.is_dir()
        {
            let names = images_of(folder)?;
            let files = names.iter().map(|name| folder.join(name)).collect();
            return Ok(Images::files(files, exif).called(names));
        }
        let mut files = Vec::new();
        for path in &self.images {
            if existing(path)?.is_dir() {
                files.extend(images_of(path)?.into_iter().map(|name| path.join(name)));
            } else {
                files.push(path.clone());
            }
        }
        Ok(Images::files(files, exif))
    }
}

/// The images below a folder, relative to it.
fn images_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing = list_images(folder)?;
    if let Some(skipped) = Skipped::summary(&listing.skipped) {
        warning!("{skipped}");
    }
    not_empty(listing.images, folder)
}

fn not_empty(files: Vec<PathBuf>, place: &Path) -> Result<Vec<PathBuf>> {
    if files.is_empty() {
        anyhow::bail!("no JPEG, PNG, WebP or BMP image in {}", place.display());
    }
    Ok(files)
}

fn existing(path: &Path) -> Result<&Path, Usage> {
    if path.exists() {
        return Ok(path);
    }
    Err(Usage(format!("--images: no such folder or file: {}", path.display())))
}

fn is_array(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| ["npy", "npz"].contains(&&*extension.to_ascii_lowercase()))
}

/// The files that standard input names, while it names them.
fn incoming(exif: Exif) -> Images {
    let (sender, receiver) = sync_channel(AHEAD);
    // Ends with its input or with the process: a thread that waits for a line cannot be told to stop.
    std::thread::spawn(move || {
        for name in names(io::stdin().lock()) {
            let sent = match name {
                Ok(name) => sender.send(name).is_ok(),
                Err(error) => {
                    warning!("cannot read standard input: {error}");
                    false
                }
            };
            if !sent {
                return;
            }
        }
    });
    Images::incoming(receiver, exif)
}

/// One name per line, in whatever encoding the file system has; empty lines are left out.
fn names(mut input: impl BufRead) -> impl Iterator<Item = io::Result<PathBuf>> {
    std::iter::from_fn(move || {
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Err(error) => return Some(Err(error)),
                Ok(_) => {}
            }
            let name = line.strip_suffix(b"\n").unwrap_or(&line);
            let name = name.strip_suffix(b"\r").unwrap_or(name);
            if !name.is_empty() {
                return Some(Ok(path(name)));
            }
        }
    })
}

#[cfg(unix)]
fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
fn path(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_name_on_each_line_that_is_not_empty() {
        let read = |text: &[u8]| names(text).collect::<io::Result<Vec<_>>>().unwrap();
        assert_eq!(read(b"a b.png\r\n\n./c.jpg"), [Path::new("a b.png"), Path::new("./c.jpg")]);
        assert!(read(b"").is_empty());
        #[cfg(unix)]
        assert_eq!(read(b"\xff.png")[0].as_os_str().as_encoded_bytes(), b"\xff.png");
    }
}
