//! The note that lies beside the output: which settings made it.

use std::{collections::BTreeMap, io::Write as _, path::Path};

use anyhow::{Context as _, bail};
use paint_data::dataset::{self, CORRUPT_NOTE as NAME, Labels, Options};
use paint_run::config::difference;
use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Args, Format, TableArg};

/// What decides the pixels; the choice of corruptions and severities does not, so a second run may add some.
#[derive(Debug, Serialize)]
pub(super) struct Settings<'a> {
    version: &'static str,
    input: std::path::PathBuf,
    /// Digits that other images would not give.
    images: String,
    format: Format,
    table: TableArg,
    seed: u64,
    imagenet_crop: bool,
    frost_textures: Option<&'a Path>,
}

impl<'a> Settings<'a> {
    pub(super) fn new(args: &'a Args, format: Format) -> anyhow::Result<Self> {
        let input = &args.input;
        let place = input.canonicalize();
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            input: place.with_context(|| format!("cannot read {}", input.display()))?,
            images: images(input, format)?,
            format,
            table: args.table,
            seed: args.seed.value(),
            imagenet_crop: args.imagenet_crop,
            frost_textures: args.frost_textures.as_deref(),
        })
    }

    /// Writes the note, or compares it with the one that is there.
    pub(super) fn agree(&self, out: &Path) -> anyhow::Result<()> {
        let path = out.join(NAME);
        let text = serde_json::to_string_pretty(self)? + "\n";
        match paint_files::read_text(&path) {
            Ok(before) if before == text => Ok(()),
            Ok(before) if !is_alone(out)? => bail!(
                "{} was made with other settings{}, see {NAME} there; choose another --out",
                out.display(),
                differing_key(&before, &text).map_or_else(String::new, |key| format!(" ({key})"))
            ),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot read {}", path.display()))
            }
            _ => Ok(paint_data::write_atomically(&path, |file| file.write_all(text.as_bytes()))?),
        }
    }
}

/// Whether a note is all there is: the run that left it wrote nothing.
fn is_alone(out: &Path) -> std::io::Result<bool> {
    Ok(std::fs::read_dir(out)?.count() == 1)
}

/// Digits over the names and the contents of all images, and their labels where the layout holds some.
fn images(input: &Path, format: Format) -> anyhow::Result<String> {
    let labels = match format {
        Format::ImagenetC => Labels::Ignored,
        Format::Cifar10C => Labels::Read,
    };
    let options = Options { labels, ..Options::default() };
    let data = (dataset::entry_at(input).open)(input, &options)?;
    let content = |index| Ok(Sha256::digest(data.content(0, index)?));
    let contents: Vec<_> =
        (0..data.len(0)).into_par_iter().map(content).collect::<paint_data::Result<_>>()?;
    let mut hasher = Sha256::new();
    for (index, content) in contents.iter().enumerate() {
        hasher.update(content);
        hasher.update(format!("{:?}", data.label(0, index)));
    }
    if input.is_dir() {
        for path in dataset::images_below(input)? {
            hasher.update(path.as_os_str().as_encoded_bytes());
            hasher.update([0]);
        }
    }
    let digits: Vec<String> =
        hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(digits.concat())
}

/// The first key in which two notes differ.
fn differing_key(before: &str, after: &str) -> Option<String> {
    let leaves = |text: &str| -> Option<BTreeMap<String, String>> {
        let note: BTreeMap<String, Value> = serde_json::from_str(text).ok()?;
        Some(note.into_iter().map(|(key, value)| (key, value.to_string())).collect())
    };
    Some(difference(&leaves(after)?, &leaves(before)?)?.0)
}
