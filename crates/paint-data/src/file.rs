//! Files written whole or not at all, with their names in the errors.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use crate::{Error, Result};

/// Writes a file whole or not at all.
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
