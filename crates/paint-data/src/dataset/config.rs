//! Which dataset to open, as written in a run's configuration.

use std::path::PathBuf;

use paint_rng::Seed;
use serde::{Deserialize, Serialize};

use super::{Corrupted, Dataset, Options, entry};
use crate::{
    Error, Image, Result,
    corruption::{FrostTextures, Table},
};

/// A dataset: its name, its path, and whether to corrupt it on the fly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The row of `DATASETS`.
    pub name: String,
    /// The folder or file; none for the embedded images.
    #[serde(default, skip_serializing_if = "no_path")]
    pub path: PathBuf,
    /// How to open it. Default: each option's own.
    #[serde(default)]
    pub options: Options,
    /// Corrupt the (clean) images on the fly. Default: no.
    #[serde(default)]
    pub corrupt: Option<Corrupt>,
}

fn no_path(path: &std::path::Path) -> bool {
    path.as_os_str().is_empty()
}

/// How to corrupt on the fly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Corrupt {
    /// The parameter table. Default: `by_size`.
    pub table: TableChoice,
    /// A folder of frost textures in place of the built-in ones. Default: none.
    pub frost_textures: Option<PathBuf>,
}

/// A parameter table, or the choice of it by the size of each image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableChoice {
    /// CIFAR's for images up to 64 pixels, otherwise ImageNet's.
    #[default]
    BySize,
    /// CIFAR-10-C's.
    Cifar,
    /// ImageNet-C's.
    Imagenet,
}

impl TableChoice {
    /// The table chosen, `None` if the size decides.
    pub fn table(self) -> Option<Table> {
        match self {
            Self::BySize => None,
            Self::Cifar => Some(Table::Cifar),
            Self::Imagenet => Some(Table::ImageNet),
        }
    }
}

impl Config {
    /// Opens the dataset; `seed` governs corruption on the fly.
    pub fn open(&self, seed: Seed) -> Result<Box<dyn Dataset>> {
        let data = (entry(&self.name)?.open)(&self.path, &self.options)?;
        let Some(corrupt) = &self.corrupt else { return Ok(data) };
        let mut corrupted = Corrupted::new(data, seed)?;
        if let Some(table) = corrupt.table.table() {
            corrupted = corrupted.with_table(table);
        }
        if let Some(folder) = &corrupt.frost_textures {
            corrupted = corrupted.with_textures(read_textures(folder)?);
        }
        Ok(Box::new(corrupted))
    }
}

/// The images of a folder, in the order of their names, as frost textures.
pub fn read_textures(folder: &std::path::Path) -> Result<FrostTextures> {
    let paths = super::files::images_below(folder)?;
    if paths.is_empty() {
        return Err(Error::format("frost textures (JPEG, PNG, WebP or BMP)", "none", folder));
    }
    FrostTextures::new(
        paths.iter().map(|path| Image::open(&folder.join(path))).collect::<Result<_>>()?,
    )
}
