//! Files read at an offset, by several threads at once.
//!
//! Positional reads serve as well as a memory map for images of a few kilobytes, need no `unsafe`, and turn a file that
//! shrinks under us into an error in place of a signal.

use std::{
    fs::File,
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// An open file and its name.
#[derive(Debug)]
pub(crate) struct RandomAccess {
    file: File,
    path: PathBuf,
    len: u64,
}

impl RandomAccess {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::io(source, path);
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if metadata.is_dir() {
            return Err(Error::format("a file", "a folder", path));
        }
        Ok(Self { file, path: path.to_path_buf(), len: metadata.len() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The length when the file was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buffer` from `offset`.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_exact_at(offset, buffer).map_err(|source| Error::io(source, &self.path))
    }

    #[cfg(unix)]
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buffer, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_read(&self.file, buffer, offset)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[n..];
            offset += n as u64;
        }
        Ok(())
    }
}

/// Writes a file whole or not at all, with its name in the error.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<()> {
    paint_files::write_atomically(path, write).map_err(|source| Error::io(source, path))
}

/// The same without waiting for the disk.
pub fn write_unflushed(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<()> {
    paint_files::write_unflushed(path, write).map_err(|source| Error::io(source, path))
}
