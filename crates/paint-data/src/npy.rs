//! Images and labels in `.npy` and `.npz` files: integer arrays that stay on disk.

use std::path::{Path, PathBuf};

use paint_files::npy::Npy;
use paint_files::zip::Archive;
use paint_files::{Budget, Dtype, Source};

use crate::{Error, Result};

/// The most a compressed array may unpack to (1 GiB).
const MAX_UNPACKED: u64 = 1 << 30;

/// An integer array on disk, in C order.
#[derive(Debug, Clone)]
pub(crate) struct NpyArray {
    data: Source,
    path: PathBuf,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: Dtype,
}

impl NpyArray {
    /// Opens an `.npy` file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::parse(&open_file(path)?, path)
    }

    /// Opens the array `name` of an `.npz` archive.
    pub(crate) fn open_in_archive(path: &Path, name: &str) -> Result<Self> {
        let archive = open_archive(path)?;
        Self::find(&archive, path, name)?.ok_or_else(|| {
            let names: Vec<&str> =
                archive.entries().iter().take(8).map(|entry| entry.name.as_str()).collect();
            let found = format!("the members {names:?}");
            Error::format(format!("an array named {name:?}"), found, path)
        })
    }

    /// The same, none if the archive has no array of this name.
    pub(crate) fn find_in_archive(path: &Path, name: &str) -> Result<Option<Self>> {
        Self::find(&open_archive(path)?, path, name)
    }

    fn find(archive: &Archive, path: &Path, name: &str) -> Result<Option<Self>> {
        let Some(entry) = archive.find(&format!("{name}.npy")) else { return Ok(None) };
        let content = archive.content_unchecked(entry, &mut Budget::of(MAX_UNPACKED));
        let content = content.map_err(|fault| Error::file(fault, path))?;
        Self::parse(&content, path).map(Some)
    }

    fn parse(source: &Source, path: &Path) -> Result<Self> {
        let array = match Npy::open(source).map_err(|fault| Error::file(fault, path))? {
            Npy::Array(array) => array,
            Npy::Other(descr) => return Err(Error::format(INTEGERS, format!("{descr:?}"), path)),
        };
        let is_float = matches!(array.dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16);
        if is_float || array.dtype == Dtype::Bool {
            return Err(Error::format(INTEGERS, array.dtype.name(), path));
        }
        if array.big_endian && array.dtype.size() > 1 {
            return Err(Error::format(INTEGERS, "big-endian numbers", path));
        }
        if array.fortran_order {
            let expected = "an array in C order, as np.ascontiguousarray gives";
            return Err(Error::format(expected, "Fortran order", path));
        }
        Ok(Self { data: array.data, path: path.to_owned(), shape: array.shape, dtype: array.dtype })
    }

    /// The number of rows: the first axis.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// The bytes of one row.
    pub(crate) fn row(&self, row: usize) -> Result<Vec<u8>> {
        let bytes = (self.shape[1..].iter().product::<usize>() * self.dtype.size()) as u64;
        self.data
            .read(row as u64 * bytes, bytes, "a row")
            .map_err(|fault| Error::file(fault, &self.path))
    }

    /// All values of a vector, as class indices; negative ones are refused.
    pub(crate) fn classes(&self) -> Result<Vec<usize>> {
        let wrong = |expected, found| Error::format(expected, found, &self.path);
        if self.shape.len() != 1 {
            return Err(wrong("labels of shape [N]", format!("{:?}", self.shape)));
        }
        let bytes = self.data.read_all().map_err(|fault| Error::file(fault, &self.path))?;
        let signed = matches!(self.dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
        let class = |element: &[u8]| {
            let mut wide = [0; 8];
            wide[..element.len()].copy_from_slice(element);
            let negative = signed && element[element.len() - 1] >= 0x80;
            (!negative).then_some(u64::from_le_bytes(wide) as usize)
        };
        bytes
            .chunks_exact(self.dtype.size())
            .map(class)
            .collect::<Option<_>>()
            .ok_or_else(|| wrong("labels from 0", "a negative label".to_owned()))
    }
}

const INTEGERS: &str = "integers (best uint8), little-endian";

fn open_file(path: &Path) -> Result<Source> {
    Source::open(path).map_err(|source| Error::io(source, path))
}

fn open_archive(path: &Path) -> Result<Archive> {
    Archive::open(open_file(path)?).map_err(|fault| Error::file(fault, path))
}

#[cfg(test)]
mod tests;
