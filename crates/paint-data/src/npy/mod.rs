//! NumPy's `.npy` and `.npz`: arrays that stay on disk.
//!
//! A header is text that anyone can write: its shape is believed only where the file is exactly as long as it says.

mod npz;
mod write;

use std::{path::Path, sync::Arc};

pub use write::NpyWriter;

use crate::{Error, Result, file::RandomAccess};

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy writes headers of 128 bytes; this leaves room for long shapes and padding.
const MAX_HEADER: u64 = 1 << 16;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dtype {
    /// `|u1`, the type of pixels.
    U8,
    /// Another integer: its width in bytes and whether it has a sign.
    Integer { bytes: usize, signed: bool },
}

impl Dtype {
    fn parse(descr: &str) -> Option<Self> {
        Some(match descr {
            "|u1" | "<u1" => Self::U8,
            "|i1" | "<i1" => Self::Integer { bytes: 1, signed: true },
            "<u2" => Self::Integer { bytes: 2, signed: false },
            "<i2" => Self::Integer { bytes: 2, signed: true },
            "<u4" => Self::Integer { bytes: 4, signed: false },
            "<i4" => Self::Integer { bytes: 4, signed: true },
            "<u8" => Self::Integer { bytes: 8, signed: false },
            "<i8" => Self::Integer { bytes: 8, signed: true },
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::Integer { bytes, .. } => bytes,
        }
    }
}

/// The bytes an array lies in: a file, or what was unpacked from an archive.
#[derive(Debug, Clone)]
enum Source {
    File { file: Arc<RandomAccess>, offset: u64, len: u64 },
    Memory(Arc<Vec<u8>>),
}

impl Source {
    fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Fills `buffer` from `at`; the caller has checked the range against `len`.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::File { file, offset, .. } => file.read_at(offset + at, buffer),
            Self::Memory(bytes) => {
                buffer.copy_from_slice(&bytes[at as usize..at as usize + buffer.len()]);
                Ok(())
            }
        }
    }
}

/// An integer array on disk, in C order.
#[derive(Debug, Clone)]
pub(crate) struct NpyArray {
    source: Source,
    data_at: u64,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: Dtype,
}

impl NpyArray {
    /// Opens an `.npy` file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = Arc::new(RandomAccess::open(path)?);
        let len = file.len();
        Self::parse(Source::File { file, offset: 0, len }, path)
    }

    /// Opens the array `name` of an `.npz` archive.
    pub(crate) fn open_in_archive(path: &Path, name: &str) -> Result<Self> {
        Self::parse(npz::open(path, name)?, path)
    }

    /// The same, none if the archive has no array of this name.
    pub(crate) fn find_in_archive(path: &Path, name: &str) -> Result<Option<Self>> {
        npz::find(path, name)?.map(|source| Self::parse(source, path)).transpose()
    }

    fn parse(source: Source, path: &Path) -> Result<Self> {
        let expected = |what: &str, found: String| Error::format(what, found, path);
        let mut start = [0; 12];
        let have = source.len().min(12) as usize;
        source.read_at(0, &mut start[..have])?;
        if have < 12 || !start.starts_with(MAGIC) {
            return Err(expected("an npy array", "another start of the file".into()));
        }
        let (header_at, header_len) = match start[6] {
            1 => (10, u64::from(u16::from_le_bytes([start[8], start[9]]))),
            2 | 3 => {
                (12, u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]])))
            }
            version => return Err(expected("npy format version 1, 2 or 3", version.to_string())),
        };
        let data_at = header_at + header_len;
        if header_len > MAX_HEADER || data_at > source.len() {
            return Err(expected(
                "an npy header inside the file",
                format!("a header of {header_len} bytes"),
            ));
        }
        let mut header = vec![0; header_len as usize];
        source.read_at(header_at, &mut header)?;
        let text = String::from_utf8_lossy(&header);
        let (descr, shape) = parse_header(&text)
            .ok_or_else(|| expected("a C-order npy header", format!("{text:?}")))?;
        let dtype = Dtype::parse(descr).ok_or_else(|| {
            expected("integers (best uint8), little-endian", format!("the type {descr:?}"))
        })?;
        let bytes = shape
            .iter()
            .try_fold(dtype.bytes() as u64, |product, &n| product.checked_mul(n as u64));
        if bytes != Some(source.len() - data_at) {
            let found = format!("{} bytes of data", source.len() - data_at);
            return Err(expected(
                &format!("the {shape:?} values of {descr:?} that the header announces"),
                found,
            ));
        }
        Ok(Self { source, data_at, shape, dtype })
    }

    /// The number of rows: the first axis.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// The bytes of one row.
    pub(crate) fn row(&self, row: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.shape[1..].iter().product::<usize>() * self.dtype.bytes()];
        self.source.read_at(self.data_at + row as u64 * bytes.len() as u64, &mut bytes)?;
        Ok(bytes)
    }

    /// All values of a vector, as class indices; negative ones are refused.
    pub(crate) fn classes(&self, path: &Path) -> Result<Vec<usize>> {
        if self.shape.len() != 1 {
            return Err(Error::format("labels of shape [N]", format!("{:?}", self.shape), path));
        }
        let mut bytes = vec![0; self.rows() * self.dtype.bytes()];
        self.source.read_at(self.data_at, &mut bytes)?;
        let class = |element: &[u8]| {
            let mut wide = [0; 8];
            wide[..element.len()].copy_from_slice(element);
            let negative = matches!(self.dtype, Dtype::Integer { signed: true, .. })
                && element[element.len() - 1] >= 0x80;
            (!negative).then_some(u64::from_le_bytes(wide) as usize)
        };
        bytes
            .chunks_exact(self.dtype.bytes())
            .map(class)
            .collect::<Option<_>>()
            .ok_or_else(|| Error::format("labels from 0", "a negative label", path))
    }
}

/// The type and the shape of a header such as `{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }`.
fn parse_header(text: &str) -> Option<(&str, Vec<usize>)> {
    let value = |key: &str| {
        let (_, rest) = text.split_once(key)?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    };
    if !value("'fortran_order'")?.starts_with("False") {
        return None;
    }
    let (descr, _) = value("'descr'")?.strip_prefix('\'')?.split_once('\'')?;
    let (shape, _) = value("'shape'")?.strip_prefix('(')?.split_once(')')?;
    let sides = shape.split(',').map(str::trim).filter(|side| !side.is_empty());
    Some((descr, sides.map(|side| side.parse().ok()).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests;
