//! The zip container of `.npz`: finds one member by name.
//!
//! `np.savez` stores its members as they are, so they are read in place; `np.savez_compressed` deflates them, and such a
//! member is unpacked into memory up to a bound.

use std::{path::Path, sync::Arc};

use super::Source;
use crate::{Error, Result, file::RandomAccess};

/// The most a compressed member may unpack to (1 GiB).
const MAX_UNPACKED: usize = 1 << 30;
/// The end record is 22 bytes and a comment of at most 65,535.
const MAX_TAIL: u64 = 22 + 65_535;
/// Enough for the directories of some hundred thousand members.
const MAX_DIRECTORY: u64 = 1 << 24;

/// The array of this name; without one, the names that are there.
pub(super) fn open(path: &Path, name: &str) -> Result<Source> {
    search(path, name)?.map_err(|names| {
        Error::format(format!("an array named {name:?}"), format!("the members {names:?}"), path)
    })
}

/// The array of this name, if there is one.
pub(super) fn find(path: &Path, name: &str) -> Result<Option<Source>> {
    Ok(search(path, name)?.ok())
}

fn search(path: &Path, name: &str) -> Result<std::result::Result<Source, Vec<String>>> {
    let file = RandomAccess::open(path)?;
    let directory = directory(&file)?
        .ok_or_else(|| Error::format("an npz archive", "no zip directory", path))?;
    let member_name = format!("{name}.npy");
    let mut names = Vec::new();
    for entry in Entries(&directory) {
        if entry.name == member_name.as_bytes() {
            return member(file, &entry).map(Ok);
        }
        names.push(String::from_utf8_lossy(entry.name).into_owned());
    }
    Ok(Err(names))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The bytes of the central directory, `None` if there is none inside the file.
fn directory(file: &RandomAccess) -> Result<Option<Vec<u8>>> {
    let mut tail = vec![0; file.len().min(MAX_TAIL) as usize];
    let tail_at = file.len() - tail.len() as u64;
    file.read_at(tail_at, &mut tail)?;
    let Some(end) = tail.windows(4).rposition(|window| window == b"PK\x05\x06") else {
        return Ok(None);
    };
    let mut place = u32_at(&tail, end + 12)
        .zip(u32_at(&tail, end + 16))
        .map(|(len, at)| (u64::from(len), u64::from(at)));
    // A 64-bit archive writes all ones there and the truth in a record whose place stands 20 bytes before.
    if place.is_some_and(|(len, at)| len == 0xffff_ffff || at == 0xffff_ffff) {
        place = end
            .checked_sub(20)
            .filter(|&locator| tail[locator..].starts_with(b"PK\x06\x07"))
            .and_then(|locator| u64_at(&tail, locator + 8))
            .and_then(|at| at.checked_sub(tail_at))
            .and_then(|at| tail.get(usize::try_from(at).ok()?..))
            .filter(|record| record.starts_with(b"PK\x06\x06"))
            .and_then(|record| u64_at(record, 40).zip(u64_at(record, 48)));
    }
    let inside = |(len, at): &(u64, u64)| {
        *len <= MAX_DIRECTORY && at.checked_add(*len).is_some_and(|end| end <= file.len())
    };
    let Some((len, at)) = place.filter(inside) else { return Ok(None) };
    let mut bytes = vec![0; len as usize];
    file.read_at(at, &mut bytes)?;
    Ok(Some(bytes))
}

struct Entry<'a> {
    name: &'a [u8],
    method: u16,
    packed: u64,
    local_at: u64,
}

struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let bytes = self.0;
        if !bytes.starts_with(b"PK\x01\x02") {
            return None;
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| u16_at(bytes, at).map(usize::from));
        let (name_end, extra_len) = (46 + name?, extra?);
        let mut packed = u64::from(u32_at(bytes, 20)?);
        let unpacked = u32_at(bytes, 24)?;
        let mut local_at = u64::from(u32_at(bytes, 42)?);
        // The 64-bit sizes stand in extra field 1, only those whose 32-bit place is all ones, in this order.
        let mut extra = bytes.get(name_end..name_end + extra_len)?;
        while let (Some(id), Some(len)) = (u16_at(extra, 0), u16_at(extra, 2)) {
            let body = extra.get(4..4 + usize::from(len))?;
            if id == 1 {
                let mut at = if unpacked == u32::MAX { 8 } else { 0 };
                for value in [&mut packed, &mut local_at] {
                    if *value == u64::from(u32::MAX) {
                        *value = u64_at(body, at)?;
                        at += 8;
                    }
                }
            }
            extra = &extra[4 + usize::from(len)..];
        }
        let entry =
            Entry { name: bytes.get(46..name_end)?, method: u16_at(bytes, 10)?, packed, local_at };
        self.0 = bytes.get(name_end + extra_len + comment?..)?;
        Some(entry)
    }
}

fn member(file: RandomAccess, entry: &Entry<'_>) -> Result<Source> {
    let unsound = |found: &str| Error::format("a sound npz member", found.to_owned(), file.path());
    let mut local = [0; 30];
    if entry.local_at.checked_add(30).is_none_or(|end| end > file.len()) {
        return Err(unsound("a place beyond the end of the file"));
    }
    file.read_at(entry.local_at, &mut local)?;
    let lens =
        u16_at(&local, 26).zip(u16_at(&local, 28)).filter(|_| local.starts_with(b"PK\x03\x04"));
    let (name_len, extra_len) = lens.ok_or_else(|| unsound("no local header"))?;
    let offset = entry.local_at + 30 + u64::from(name_len) + u64::from(extra_len);
    if offset.checked_add(entry.packed).is_none_or(|end| end > file.len()) {
        return Err(unsound("a length beyond the end of the file"));
    }
    match entry.method {
        0 => Ok(Source::File { file: Arc::new(file), offset, len: entry.packed }),
        8 if entry.packed <= MAX_UNPACKED as u64 => {
            let mut packed = vec![0; entry.packed as usize];
            file.read_at(offset, &mut packed)?;
            let bytes = miniz_oxide::inflate::decompress_to_vec_with_limit(&packed, MAX_UNPACKED)
                .map_err(|error| {
                unsound(&format!("compressed data that does not unpack within 1 GiB ({error})"))
            })?;
            Ok(Source::Memory(Arc::new(bytes)))
        }
        method => Err(unsound(&format!("compression method {method}; save it with np.savez"))),
    }
}
