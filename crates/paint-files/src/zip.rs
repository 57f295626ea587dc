//! A zip archive as PyTorch and NumPy write it: stored or deflated entries, zip64, no encryption, one disk.
//!
//! The central directory is the truth; the local header of an entry only says where its bytes begin. Entries that share
//! a name, a deflated entry that unpacks to more than the budget allows, and bytes whose checksum is wrong are refused.

use std::collections::BTreeSet;

use crate::cursor::utf8;
use crate::fault::abridged;
use crate::{Budget, Cursor, Fault, Source};

const END_SIGNATURE: &[u8] = b"PK\x05\x06";
const END_SIZE: u64 = 22;
const MAX_COMMENT: u64 = 65_535;
const LOCATOR_SIGNATURE: &[u8] = b"PK\x06\x07";
const LOCATOR_SIZE: u64 = 20;
const ZIP64_END_SIZE: u64 = 56;
const LOCAL_SIZE: u64 = 30;
const ZIP64_EXTRA: u16 = 1;
const ENCRYPTED: u16 = 1;
/// Checksums are computed over this much at a time.
const CHUNK: usize = 1 << 18;

/// A zip archive and its directory.
#[derive(Debug)]
pub struct Archive {
    source: Source,
    entries: Vec<Entry>,
}

/// One entry of the directory.
#[derive(Debug)]
pub struct Entry {
    /// Its name, with folders.
    pub name: String,
    method: Method,
    crc32: u32,
    packed: u64,
    length: u64,
    header: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Stored,
    Deflated,
}

impl Archive {
    /// Reads the directory.
    pub fn open(source: Source) -> Result<Self, Fault> {
        let (start, size) = directory(&source)?;
        let listing = source.read(start, size, "central directory")?;
        let mut cursor = Cursor::new(&listing);
        let mut entries = Vec::new();
        while cursor.left() > 0 {
            entries.push(Entry::read(&mut cursor)?);
        }
        let mut names = BTreeSet::new();
        if let Some(entry) = entries.iter().find(|entry| !names.insert(entry.name.as_str())) {
            return Err(Fault::Duplicate { name: abridged(&entry.name) });
        }
        Ok(Self { source, entries })
    }

    /// All entries, in the order of the directory.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of that name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The content of an entry, its checksum compared: a part of the file if it is stored, or unpacked into memory and
    /// charged to the budget.
    pub fn content(&self, entry: &Entry, budget: &mut Budget) -> Result<Source, Fault> {
        let mut checked = || {
            let content = self.unpack(entry, budget)?;
            let found = checksum(&content)?;
            if found == entry.crc32 {
                return Ok(content);
            }
            let found =
                format!("{found:08x}: the file is damaged, or was written without checksums");
            Err(Fault::invalid("checksum", format!("{:08x}", entry.crc32), found))
        };
        checked().map_err(|fault: Fault| fault.in_array(&entry.name))
    }

    /// The same without a pass over a stored entry, for arrays that are larger than what will be read of them. Its
    /// checksum is not compared; that of an unpacked one is.
    pub fn content_unchecked(&self, entry: &Entry, budget: &mut Budget) -> Result<Source, Fault> {
        match entry.method {
            Method::Stored => {
                self.unpack(entry, budget).map_err(|fault| fault.in_array(&entry.name))
            }
            Method::Deflated => self.content(entry, budget),
        }
    }

    fn unpack(&self, entry: &Entry, budget: &mut Budget) -> Result<Source, Fault> {
        let packed = self.packed(entry)?;
        match entry.method {
            Method::Stored if entry.packed != entry.length => {
                let expected = format!("{} bytes, as many as are stored", entry.packed);
                Err(Fault::invalid("length", expected, entry.length))
            }
            Method::Stored => Ok(packed),
            Method::Deflated => {
                budget.charge("unpacking", entry.length)?;
                let limit = usize::try_from(entry.length).unwrap_or(usize::MAX);
                let packed = packed.read_all()?;
                let content = miniz_oxide::inflate::decompress_to_vec_with_limit(&packed, limit)
                    .map_err(|error| {
                        Fault::invalid("deflated data", "a stream of the stated length", error)
                    })?;
                if content.len() != limit {
                    return Err(Fault::invalid(
                        "length",
                        format!("{} bytes", entry.length),
                        content.len(),
                    ));
                }
                Ok(Source::from(content))
            }
        }
    }

    /// The bytes of an entry as they lie in the file, found through its local header.
    fn packed(&self, entry: &Entry) -> Result<Source, Fault> {
        let what = "local header";
        let local = self.source.read(entry.header, LOCAL_SIZE, what)?;
        let mut cursor = Cursor::new(&local);
        signature(&mut cursor, b"PK\x03\x04", what)?;
        cursor.take(22, what)?;
        let name_length = u64::from(cursor.u16(what)?);
        let extra_length = u64::from(cursor.u16(what)?);
        let name = self.source.read(entry.header + LOCAL_SIZE, name_length, what)?;
        if name != entry.name.as_bytes() {
            let found = String::from_utf8_lossy(&name);
            return Err(Fault::invalid(
                what,
                format!("the name {:?}", abridged(&entry.name)),
                format!("{found:?}"),
            ));
        }
        let start = entry.header + LOCAL_SIZE + name_length + extra_length;
        self.source.part(start, entry.packed, "zip entry")
    }
}

impl Entry {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Fault> {
        let what = "central directory entry";
        signature(cursor, b"PK\x01\x02", what)?;
        cursor.take(4, what)?;
        let flags = cursor.u16(what)?;
        let method = cursor.u16(what)?;
        cursor.take(4, what)?;
        let crc32 = cursor.u32(what)?;
        let packed = cursor.u32(what)?;
        let length = cursor.u32(what)?;
        let name_length = cursor.u16(what)?;
        let extra_length = cursor.u16(what)?;
        let comment_length = cursor.u16(what)?;
        cursor.take(8, what)?;
        let header = cursor.u32(what)?;
        let name = utf8(cursor.take(usize::from(name_length), what)?, "zip entry name")?;
        let extra = cursor.take(usize::from(extra_length), what)?;
        cursor.take(usize::from(comment_length), what)?;

        let mut wide = Wide::find(extra)?;
        let length = wide.or(length)?;
        let packed = wide.or(packed)?;
        let header = wide.or(header)?;
        if flags & ENCRYPTED != 0 {
            return Err(
                Fault::invalid("zip entry", "no encryption", "an encrypted entry").in_array(name)
            );
        }
        let method = match method {
            0 => Method::Stored,
            8 => Method::Deflated,
            other => {
                return Err(Fault::invalid("compression", "0 (stored) or 8 (deflate)", other)
                    .in_array(name));
            }
        };
        Ok(Self { name: name.to_owned(), method, crc32, packed, length, header })
    }
}

/// The 64-bit values of an entry, which stand in for 32-bit fields that are all ones, in the order of the fields.
struct Wide<'a>(Cursor<'a>);

impl<'a> Wide<'a> {
    fn find(extra: &'a [u8]) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(extra);
        // Writers pad with fewer than four bytes, which are no field.
        while cursor.left() >= 4 {
            let what = "zip extra field";
            let id = cursor.u16(what)?;
            let size = cursor.u16(what)?;
            let field = cursor.take(usize::from(size), what)?;
            if id == ZIP64_EXTRA {
                return Ok(Self(Cursor::new(field)));
            }
        }
        Ok(Self(Cursor::new(&[])))
    }

    fn or(&mut self, narrow: u32) -> Result<u64, Fault> {
        if narrow == u32::MAX { self.0.u64("zip64 field") } else { Ok(u64::from(narrow)) }
    }
}

/// Offset and size of the central directory.
fn directory(source: &Source) -> Result<(u64, u64), Fault> {
    let what = "end of central directory";
    let earliest = source.len().saturating_sub(END_SIZE + MAX_COMMENT);
    let tail = source.rest(earliest, what)?.read_all()?;
    let at = (0..(tail.len() + 1).saturating_sub(END_SIZE as usize))
        .rev()
        .find(|&at| tail[at..].starts_with(END_SIGNATURE))
        .ok_or_else(|| {
            Fault::invalid(
                "zip archive",
                "a central directory at its end",
                "none: the file is truncated",
            )
        })?;
    let mut cursor = Cursor::new(&tail[at..]);
    cursor.take(12, what)?;
    let size = cursor.u32(what)?;
    let start = cursor.u32(what)?;
    if size != u32::MAX && start != u32::MAX {
        return Ok((u64::from(start), u64::from(size)));
    }
    let locator_at = (earliest + at as u64).saturating_sub(LOCATOR_SIZE);
    let locator = source.read(locator_at, LOCATOR_SIZE, "zip64 locator")?;
    let mut cursor = Cursor::new(&locator);
    signature(&mut cursor, LOCATOR_SIGNATURE, "zip64 locator")?;
    cursor.take(4, "zip64 locator")?;
    let record = source.read(cursor.u64("zip64 locator")?, ZIP64_END_SIZE, what)?;
    let mut cursor = Cursor::new(&record);
    signature(&mut cursor, b"PK\x06\x06", what)?;
    cursor.take(36, what)?;
    let size = cursor.u64(what)?;
    let start = cursor.u64(what)?;
    Ok((start, size))
}

fn checksum(content: &Source) -> Result<u32, Fault> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; CHUNK.min(content.len() as usize)];
    let mut at = 0;
    while at < content.len() {
        let count = (content.len() - at).min(buffer.len() as u64) as usize;
        content.fill(at, &mut buffer[..count])?;
        hasher.update(&buffer[..count]);
        at += count as u64;
    }
    Ok(hasher.finalize())
}

fn signature(cursor: &mut Cursor<'_>, expected: &[u8], what: &'static str) -> Result<(), Fault> {
    let found = cursor.take(4, what)?;
    if found == expected {
        return Ok(());
    }
    Err(Fault::invalid(what, format!("the signature {expected:02x?}"), format!("{found:02x?}")))
}
