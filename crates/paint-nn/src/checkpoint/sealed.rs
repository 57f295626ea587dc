//! Files that notice damage: safetensors whose last array is the SHA-256 of every byte before it.
//!
//! Any reader of safetensors opens them. [`read_sealed`] also refuses a file in which a single bit differs from what
//! [`write_sealed`] wrote: header, padding and data alike.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use paint_files::{Dtype, Fault, Source, write_atomically};
use sha2::{Digest as _, Sha256};

use super::array::Array;
use super::error::{Error, Result};
use super::safetensors::{Content, malformed};
use super::{Checkpoint, check_regular, decode_source, unreadable};

/// The name of the last array.
const SEAL: &str = "sha256";
const SEAL_LEN: usize = 32;

/// Writes arrays as F32. The file is complete, on the disk, or not there.
pub fn write_sealed<'a>(
    path: &Path,
    arrays: impl IntoIterator<Item = (&'a str, &'a [usize], &'a [f32])>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let arrays: Vec<_> = arrays.into_iter().collect();
    if arrays.iter().any(|(name, ..)| *name == SEAL) {
        return Err(malformed(Fault::Duplicate { name: SEAL.to_owned() }, path));
    }
    let mut content =
        Content::new(&arrays, Dtype::F32, metadata).map_err(|fault| malformed(fault, path))?;
    content.announce(SEAL, Dtype::U8, &[SEAL_LEN]);
    write_atomically(path, |out| {
        let mut hashing = BufWriter::new(Hashing { out: &mut *out, hasher: Sha256::new() });
        content.write(&mut hashing)?;
        let Hashing { hasher, .. } =
            hashing.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.write_all(&hasher.finalize())
    })
    .map_err(|source| Error::Io { action: "write", source, path: path.to_owned() })
}

/// Reads what [`write_sealed`] wrote. `check` looks at the metadata of a file whose hash is right or that has none, so
/// that a file of another kind is called that and not damaged.
pub fn read_sealed(
    path: &Path,
    check: impl FnOnce(&BTreeMap<String, String>) -> Result<()>,
) -> Result<Checkpoint> {
    check_regular(path)?;
    let bytes = std::fs::read(path).map_err(|source| unreadable(source, path))?;
    decode_sealed(bytes, path, check)
}

/// Reads the content of a file that [`write_sealed`] wrote; `path` only serves the messages.
pub fn decode_sealed(
    bytes: Vec<u8>,
    path: &Path,
    check: impl FnOnce(&BTreeMap<String, String>) -> Result<()>,
) -> Result<Checkpoint> {
    let ends_in_its_hash = bytes
        .split_last_chunk::<SEAL_LEN>()
        .is_some_and(|(content, seal)| Sha256::digest(content)[..] == seal[..]);
    let mut file = decode_source(&Source::from(bytes), path, None)?;
    let has_seal = matches!(file.remove(SEAL), Some(Array { shape, .. }) if shape == [SEAL_LEN]);
    let damaged = || Err(Error::Damaged { path: path.to_owned() });
    if has_seal && !ends_in_its_hash {
        return damaged();
    }
    check(&file.metadata)?;
    if has_seal { Ok(file) } else { damaged() }
}

/// Passes on what it is given and hashes it.
struct Hashing<W> {
    out: W,
    hasher: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sealed");
        let arrays = [("a", &[2, 2][..], &[1.0, -0.0, f32::NAN, 3.5][..]), ("empty", &[0], &[])];
        let metadata = BTreeMap::from([("note".to_owned(), "\u{e9}\n".to_owned())]);
        write_sealed(&path, arrays, &metadata).unwrap();
        let file = read_sealed(&path, |_| Ok(())).unwrap();
        assert_eq!((file.len(), file.metadata), (2, metadata));
        // Other programs open it too.
        assert_eq!(super::super::read(&path).unwrap().get(SEAL).unwrap().shape, [SEAL_LEN]);
        std::fs::read(&path).unwrap()
    }

    #[test]
    fn a_flip_of_any_bit_and_a_cut_anywhere_are_refused_by_name() {
        let whole = sealed();
        let open = |bytes: &[u8]| decode_sealed(bytes.to_vec(), Path::new("my state"), |_| Ok(()));
        assert!(open(&whole).is_ok());
        let mut bytes = whole.clone();
        for at in 0..8 * whole.len() {
            bytes[at / 8] ^= 1 << (at % 8);
            let message = open(&bytes).unwrap_err().to_string();
            assert!(message.contains("my state"), "bit {at}: {message}");
            bytes[at / 8] ^= 1 << (at % 8);
        }
        for len in 0..whole.len() {
            assert!(open(&whole[..len]).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn a_flip_in_the_metadata_is_damage_and_sound_metadata_of_another_kind_is_not() {
        let refuse = |_: &BTreeMap<String, String>| {
            let path = "my state".into();
            Err(Error::Kind { expected: "a state".into(), found: "notes".into(), path })
        };
        let open = |bytes| decode_sealed(bytes, Path::new("my state"), refuse).unwrap_err();
        let mut bytes = sealed();
        assert!(matches!(open(bytes.clone()), Error::Kind { .. }));
        let at = bytes.windows(4).position(|text| text == b"note").unwrap();
        bytes[at] ^= 1;
        assert!(matches!(open(bytes), Error::Damaged { .. }));
    }

    #[test]
    fn a_name_that_the_seal_needs_is_refused() {
        let arrays = [(SEAL, &[1][..], &[1.0][..])];
        assert!(write_sealed(Path::new("nowhere"), arrays, &BTreeMap::new()).is_err());
    }
}
