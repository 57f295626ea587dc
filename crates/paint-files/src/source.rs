//! Bytes that are read at an offset, by several threads at once.
//!
//! Files are not mapped: a mapped file that another program shortens ends this process with a signal, where a read is
//! an error; a mapping needs `unsafe`; and mapped pages count as memory of the process, where a reader here holds one
//! array at a time.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use crate::Fault;

/// A file, or bytes in memory, or a part of either. Clones share the content.
#[derive(Debug, Clone)]
pub struct Source {
    content: Content,
    start: u64,
    len: u64,
}

#[derive(Debug, Clone)]
enum Content {
    File(Arc<File>),
    Memory(Arc<Vec<u8>>),
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u64, start: 0, content: Content::Memory(bytes.into()) }
    }
}

impl Source {
    /// Opens a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Asked before opening: a named pipe would wait for a writer.
        let about = std::fs::metadata(path)?;
        if about.is_dir() {
            return Err(io::Error::new(ErrorKind::IsADirectory, "expected a file, found a folder"));
        }
        if !about.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { content: Content::File(Arc::new(file)), start: 0, len })
    }

    /// The length when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from `at`; `what` names them if they are not there.
    pub fn part(&self, at: u64, len: u64, what: &'static str) -> Result<Self, Fault> {
        let available = self.len.saturating_sub(at);
        if len > available {
            return Err(Fault::Truncated { what, needed: len, available });
        }
        // `at` may lie beyond the end of an empty part; then it is never read.
        Ok(Self { content: self.content.clone(), start: self.start.saturating_add(at), len })
    }

    /// Everything from `at`.
    pub fn rest(&self, at: u64, what: &'static str) -> Result<Self, Fault> {
        self.part(at, self.len.saturating_sub(at), what)
    }

    /// Reads the `len` bytes from `at`; nothing is allocated for bytes that are not there.
    pub fn read(&self, at: u64, len: u64, what: &'static str) -> Result<Vec<u8>, Fault> {
        let part = self.part(at, len, what)?;
        let mut bytes = vec![0; len as usize];
        part.fill(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads everything.
    pub fn read_all(&self) -> Result<Vec<u8>, Fault> {
        self.read(0, self.len, "content")
    }

    /// Fills `buffer` from `at`.
    pub fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let inside = at.checked_add(buffer.len() as u64).is_some_and(|end| end <= self.len);
        let filled = match &self.content {
            _ if !inside => Err(ErrorKind::UnexpectedEof.into()),
            Content::File(file) => read_exact_at(file, buffer, self.start + at),
            Content::Memory(bytes) => {
                let from = (self.start + at) as usize;
                buffer.copy_from_slice(&bytes[from..from + buffer.len()]);
                Ok(())
            }
        };
        filled.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "the file became shorter while it was being read")
            }
            _ => error,
        })
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_read(file, buffer, offset)?;
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[n..];
        offset += n as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_files_and_memory_read_alike_and_end_where_they_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digits");
        std::fs::write(&path, b"0123456789").unwrap();
        for source in [Source::open(&path).unwrap(), Source::from(b"0123456789".to_vec())] {
            let part = source.part(2, 6, "digits").unwrap();
            assert_eq!(part.read(1, 3, "digits").unwrap(), b"345");
            assert_eq!(part.part(2, 2, "digits").unwrap().read_all().unwrap(), b"45");
            assert_eq!(part.rest(4, "digits").unwrap().read_all().unwrap(), b"67");
            for (at, len, available) in [(0, 7, 6), (6, 1, 0), (u64::MAX, 1, 0), (1, u64::MAX, 5)] {
                let fault = part.read(at, len, "digits").unwrap_err();
                assert!(
                    matches!(fault, Fault::Truncated { needed, available: left, .. } if needed == len && left == available),
                    "{fault}"
                );
            }
            assert!(part.fill(5, &mut [0; 2]).is_err());
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let source = Source::open(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        let fault = source.read_all().unwrap_err().to_string();
        assert!(fault.contains("became shorter"), "{fault}");
        assert!(Source::open(folder.path()).unwrap_err().to_string().contains("found a folder"));
    }
}
