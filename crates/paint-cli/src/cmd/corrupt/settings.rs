//! The note that lies beside the output: which settings made it.

use std::{io::Write as _, path::Path};

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::{Args, Format, TableArg};

const NAME: &str = "paint-corrupt.json";

/// What decides the pixels; the choice of corruptions and severities does not, so a second run may add some.
#[derive(Debug, Serialize)]
pub(super) struct Settings<'a> {
    version: &'static str,
    input: std::path::PathBuf,
    format: Format,
    table: TableArg,
    seed: u64,
    imagenet_crop: bool,
    frost_textures: Option<&'a Path>,
}

impl<'a> Settings<'a> {
    pub(super) fn new(args: &'a Args, format: Format) -> anyhow::Result<Self> {
        let input = &args.input;
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            input: input
                .canonicalize()
                .with_context(|| format!("cannot read {}", input.display()))?,
            format,
            table: args.table,
            seed: args.seed,
            imagenet_crop: args.imagenet_crop,
            frost_textures: args.frost_textures.as_deref(),
        })
    }

    /// Writes the note, or compares it with the one that is there.
    pub(super) fn agree(&self, out: &Path) -> anyhow::Result<()> {
        let path = out.join(NAME);
        let text = serde_json::to_string_pretty(self)? + "\n";
        match std::fs::read_to_string(&path) {
            Ok(before) if before == text => Ok(()),
            Ok(_) => bail!(
                "{} was made with other settings, see {NAME} there; choose another --out",
                out.display()
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(paint_data::write_atomically(&path, |file| file.write_all(text.as_bytes()))?)
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}
