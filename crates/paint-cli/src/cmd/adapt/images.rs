//! The images of `paint adapt`: folders, files, a list of files, standard input, or an array.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use paint_data::dataset::{Exif, Labels, Options, Skipped, entry, list_images};
use paint_run::session::Images;

use crate::Usage;

/// Names that are read from standard input ahead of the batch.
const AHEAD: usize = 1024;
/// Bytes of a line that a message shows.
const SHOWN: usize = 60;

/// Which images, and how they are read.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Folders, image files, or one .npy or .npz array of shape [N, H, W, 3]
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "list")]
    images: Vec<PathBuf>,
    /// File with the name of one image per line; - reads names from standard input as they come. A line that is not
    /// UTF-8 or holds a NUL byte is an error in a FILE; on standard input it is skipped, unless --strict is given
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
    /// What the flags name, in the order that `seed` gives unless they ask for their own. `incoming` hears of lines of
    /// standard input that name no file.
    pub(super) fn open(&self, seed: u64, incoming: &Incoming) -> Result<Images> {
        let images = self.listed(incoming)?;
        if self.in_order || images.count().is_none() {
            return Ok(images.resumable());
        }
        note!("images are read in a random order (seed {seed}); --in-order keeps their own");
        Ok(images.shuffled(seed).resumable())
    }

    fn listed(&self, incoming: &Incoming) -> Result<Images> {
        let exif = if self.ignore_exif { Exif::Ignore } else { Exif::Apply };
        if let Some(list) = &self.list {
            if list == Path::new("-") {
                return Ok(incoming.images(exif));
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

/// The names that come on standard input, and what is wrong with some of them.
#[derive(Debug, Clone)]
pub(super) struct Incoming {
    /// Whether a line that is no file name ends the reading.
    is_strict: bool,
    refused: Arc<Mutex<Refused>>,
}

#[derive(Debug, Default)]
struct Refused {
    lines: u64,
    /// Why there were no more names.
    end: Option<io::Error>,
}

impl Incoming {
    pub(super) fn new(is_strict: bool) -> Self {
        Self { is_strict, refused: Arc::default() }
    }

    /// Lines that were left out.
    pub(super) fn skipped(&self) -> u64 {
        self.lock().lines
    }

    /// The error that ended the names, if they did not end by themselves.
    pub(super) fn check(&self) -> Result<()> {
        let end = self.lock().end.take();
        end.map_or(Ok(()), Err).context("cannot read standard input")
    }

    fn lock(&self) -> MutexGuard<'_, Refused> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files that standard input names, while it names them.
    fn images(&self, exif: Exif) -> Images {
        let (sender, receiver) = sync_channel(AHEAD);
        let told = self.clone();
        // Ends with its input or with the process: a thread that waits for a line cannot be told to stop.
        std::thread::spawn(move || {
            for name in names(io::stdin().lock()) {
                match name {
                    Ok(name) => {
                        if sender.send(name).is_err() {
                            return;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::InvalidData && !told.is_strict => {
                        warning!("skipped: standard input, {error}");
                        told.lock().lines += 1;
                    }
                    Err(error) => {
                        told.lock().end = Some(error);
                        return;
                    }
                }
            }
        });
        Images::incoming(receiver, exif)
    }
}

/// One name per line; empty lines are left out. A line that is no name is an error of invalid data, and the next line
/// may be one.
fn names(mut input: impl BufRead) -> impl Iterator<Item = io::Result<PathBuf>> {
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Err(error) => return Some(Err(error)),
                Ok(_) => number += 1,
            }
            let name = line.strip_suffix(b"\n").unwrap_or(&line);
            let name = name.strip_suffix(b"\r").unwrap_or(name);
            if !name.is_empty() {
                return Some(file_name(name, number));
            }
        }
    })
}

/// The name on a line. Results name their images in UTF-8, so that other names would not be found again.
fn file_name(line: &[u8], number: usize) -> io::Result<PathBuf> {
    let refuse = |expected: &str| {
        let shown = line[..line.len().min(SHOWN)].escape_ascii();
        let more = if line.len() > SHOWN { ".." } else { "" };
        let why = format!("line {number}: expected {expected}, found \"{shown}{more}\"");
        io::Error::new(ErrorKind::InvalidData, why)
    };
    match std::str::from_utf8(line) {
        Ok(name) if !name.contains('\0') => Ok(name.into()),
        Ok(_) => Err(refuse("the name of one file, without a NUL byte")),
        Err(_) => Err(refuse("the name of a file in UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_name_on_each_line_that_is_not_empty() {
        let read = |text: &[u8]| names(text).collect::<io::Result<Vec<_>>>().unwrap();
        assert_eq!(read(b"a b.png\r\n\n./c.jpg"), [Path::new("a b.png"), Path::new("./c.jpg")]);
        assert_eq!(read("caf\u{e9}.png".as_bytes()), [Path::new("caf\u{e9}.png")]);
        assert!(read(b"").is_empty());
    }

    #[test]
    fn a_line_that_is_no_name_is_told_by_its_number_and_the_next_is_read() {
        let read = |text: &[u8]| {
            let told =
                |name: io::Result<PathBuf>| name.map_err(|error| (error.kind(), error.to_string()));
            names(text).map(told).collect::<Vec<_>>()
        };
        let refused = |why: &str| Err((ErrorKind::InvalidData, why.to_owned()));
        let latin = r#"line 3: expected the name of a file in UTF-8, found "caf\xe9.png""#;
        let lines = read(b"a.png\n\ncaf\xe9.png\nb.png");
        assert_eq!(lines, [Ok("a.png".into()), refused(latin), Ok("b.png".into())]);
        let nul =
            r#"line 1: expected the name of one file, without a NUL byte, found "a.png\x00b.png""#;
        assert_eq!(read(b"a.png\0b.png\n"), [refused(nul)]);
        let long = read(&[&[0; 61][..], b"\n"].concat()).remove(0).unwrap_err().1;
        assert!(long.ends_with(r#"\x00..""#), "{long}");
    }
}
