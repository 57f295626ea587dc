//! A zip archive as PyTorch and NumPy write it: stored or deflated entries, zip64, no encryption, one disk.
//!
//! The central directory is the truth; the local header of an entry only says where its bytes begin. Entries that share
//! a name, a deflated entry that unpacks to more than the file allows, and bytes whose checksum is wrong are refused.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::array::Budget;
use super::cursor::{Cursor, text};
use super::error::{Fault, abridged};

const END_SIGNATURE: &[u8] = b"PK\x05\x06";
const END_SIZE: usize = 22;
const LOCATOR_SIGNATURE: &[u8] = b"PK\x06\x07";
const LOCATOR_SIZE: usize = 20;
const ZIP64_EXTRA: u16 = 1;
const ENCRYPTED: u16 = 1;

pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub name: &'a str,
    method: Method,
    crc32: u32,
    packed: u64,
    /// Length of the content.
    pub length: u64,
    header: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Stored,
    Deflated,
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, Fault> {
        let (start, size) = directory(bytes)?;
        let listing = Cursor::at(bytes, usize::try_from(start).unwrap_or(usize::MAX))
            .take_long(size, "central directory")?;
        let mut cursor = Cursor::new(listing);
        let mut entries = Vec::new();
        let mut names = BTreeSet::new();
        while cursor.left() > 0 {
            let entry = Entry::read(&mut cursor)?;
            if !names.insert(entry.name) {
                return Err(Fault::Duplicate { name: abridged(entry.name) });
            }
            entries.push(entry);
        }
        Ok(Self { bytes, entries })
    }

    pub(super) fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The content of an entry; what has to be unpacked is charged to the budget.
    pub(super) fn read(
        &self,
        entry: &Entry<'a>,
        budget: &mut Budget,
    ) -> Result<Cow<'a, [u8]>, Fault> {
        self.unpack(entry, budget).map_err(|fault| fault.in_array(entry.name))
    }

    fn unpack(&self, entry: &Entry<'a>, budget: &mut Budget) -> Result<Cow<'a, [u8]>, Fault> {
        let packed = self.packed(entry)?;
        let content = match entry.method {
            Method::Stored if entry.packed != entry.length => {
                let expected = format!("{} bytes, as many as are stored", entry.packed);
                return Err(Fault::invalid("length", expected, entry.length));
            }
            Method::Stored => Cow::Borrowed(packed),
            Method::Deflated => {
                budget.charge("unpacking", entry.length)?;
                let limit = usize::try_from(entry.length).unwrap_or(usize::MAX);
                let content = miniz_oxide::inflate::decompress_to_vec_with_limit(packed, limit)
                    .map_err(|error| {
                        Fault::invalid("deflated data", "a stream of the stated length", error)
                    })?;
                Cow::Owned(content)
            }
        };
        if content.len() as u64 != entry.length {
            return Err(Fault::invalid("length", format!("{} bytes", entry.length), content.len()));
        }
        let found = crc32fast::hash(&content);
        if found != entry.crc32 {
            let found =
                format!("{found:08x}: the file is damaged, or was written without checksums");
            return Err(Fault::invalid("checksum", format!("{:08x}", entry.crc32), found));
        }
        Ok(content)
    }

    /// The stored bytes of an entry, found through its local header.
    fn packed(&self, entry: &Entry<'a>) -> Result<&'a [u8], Fault> {
        let what = "local header";
        let mut cursor =
            Cursor::at(self.bytes, usize::try_from(entry.header).unwrap_or(usize::MAX));
        signature(&mut cursor, b"PK\x03\x04", what)?;
        cursor.take(22, what)?;
        let name_length = cursor.u16(what)?;
        let extra_length = cursor.u16(what)?;
        let name = cursor.take(usize::from(name_length), what)?;
        if name != entry.name.as_bytes() {
            let found = String::from_utf8_lossy(name);
            return Err(Fault::invalid(
                what,
                format!("the name {:?}", abridged(entry.name)),
                format!("{found:?}"),
            ));
        }
        cursor.take(usize::from(extra_length), what)?;
        cursor.take_long(entry.packed, "zip entry")
    }
}

impl<'a> Entry<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Fault> {
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
        let name = text(cursor.take(usize::from(name_length), what)?, "zip entry name")?;
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
        Ok(Self { name, method, crc32, packed, length, header })
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
fn directory(bytes: &[u8]) -> Result<(u64, u64), Fault> {
    let what = "end of central directory";
    let earliest = bytes.len().saturating_sub(END_SIZE + usize::from(u16::MAX));
    let at = (earliest..=bytes.len().saturating_sub(END_SIZE))
        .rev()
        .find(|&at| bytes[at..].starts_with(END_SIGNATURE))
        .ok_or_else(|| {
            Fault::invalid(
                "zip archive",
                "a central directory at its end",
                "none: the file is truncated",
            )
        })?;
    let mut cursor = Cursor::at(bytes, at + 12);
    let size = cursor.u32(what)?;
    let start = cursor.u32(what)?;
    if size != u32::MAX && start != u32::MAX {
        return Ok((u64::from(start), u64::from(size)));
    }
    let mut locator = Cursor::at(bytes, at.saturating_sub(LOCATOR_SIZE));
    signature(&mut locator, LOCATOR_SIGNATURE, "zip64 locator")?;
    locator.take(4, "zip64 locator")?;
    let record = locator.u64("zip64 locator")?;
    let mut cursor = Cursor::at(bytes, usize::try_from(record).unwrap_or(usize::MAX));
    signature(&mut cursor, b"PK\x06\x06", what)?;
    cursor.take(36, what)?;
    let size = cursor.u64(what)?;
    let start = cursor.u64(what)?;
    Ok((start, size))
}

fn signature(cursor: &mut Cursor<'_>, expected: &[u8], what: &'static str) -> Result<(), Fault> {
    let found = cursor.take(4, what)?;
    if found == expected {
        return Ok(());
    }
    Err(Fault::invalid(what, format!("the signature {expected:02x?}"), format!("{found:02x?}")))
}
