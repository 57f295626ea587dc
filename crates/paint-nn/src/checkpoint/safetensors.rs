//! The safetensors format: `u64` header length, a JSON header, raw little-endian data.
//!
//! Read here by hand rather than with the crate of that name, because a message must name the array at fault, a name
//! that appears twice must be refused, and arrays keep the order of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use paint_files::{
    Budget, Cursor, Dtype, Fault, Source, abridged, element_count, write_atomically,
};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::array::{Array, View, row_major};
use super::error::{Error, Result};
use super::narrow::{bf16_from_f32, f16_from_f32, f16_to_f32};
use super::{Checkpoint, Format};

const METADATA: &str = "__metadata__";
/// The length of the header, a `u64`, comes first.
const LENGTH_SIZE: u64 = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

#[derive(Default)]
struct Header {
    metadata: BTreeMap<String, String>,
    entries: Vec<(String, Entry)>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of arrays")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Header, A::Error> {
                let mut header = Header::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        header.metadata = map.next_value()?;
                    } else {
                        let entry = map.next_value()?;
                        header.entries.push((name, entry));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

pub(super) fn decode(source: &Source) -> std::result::Result<Checkpoint, Fault> {
    let what = "header";
    let length = source.read(0, LENGTH_SIZE, "header length")?;
    let length = Cursor::new(&length).u64("header length")?;
    let header = source.read(LENGTH_SIZE, length, what)?;
    let data = source.rest(LENGTH_SIZE + length, "data")?;
    let header: Header = serde_json::from_slice(&header)
        .map_err(|error| Fault::invalid(what, "a table of arrays", error))?;

    check_layout(&header.entries, data.len())?;
    let mut budget = Budget::for_file(source.len());
    let mut checkpoint = Checkpoint::new(Format::SafeTensors);
    checkpoint.metadata = header.metadata;
    for (name, entry) in header.entries {
        let array = entry.read(&data, &mut budget).map_err(|fault| fault.in_array(&name))?;
        checkpoint.insert(name, array)?;
    }
    Ok(checkpoint)
}

/// The arrays must cover the data without gaps or overlaps, as the format demands.
fn check_layout(entries: &[(String, Entry)], length: u64) -> std::result::Result<(), Fault> {
    let mut ranges: Vec<([u64; 2], &str)> =
        entries.iter().map(|(name, entry)| (entry.data_offsets, name.as_str())).collect();
    ranges.sort_unstable();
    let mut end = 0;
    for ([from, to], name) in ranges {
        if from != end || to < from {
            let expected =
                format!("the array to begin at byte {end}, where the one before it ends");
            return Err(
                Fault::invalid("data_offsets", expected, format!("[{from}, {to}]")).in_array(name)
            );
        }
        end = to;
    }
    if end == length {
        return Ok(());
    }
    Err(Fault::invalid(
        "data",
        format!("{end} bytes as the header says"),
        format!("{length} bytes"),
    ))
}

impl Entry {
    fn read(&self, data: &Source, budget: &mut Budget) -> std::result::Result<Array, Fault> {
        let dtype = Dtype::from_name(&self.dtype).ok_or_else(|| {
            Fault::invalid("dtype", "a number type of 8 to 64 bits, such as F32", &self.dtype)
        })?;
        let [from, to] = self.data_offsets;
        // The layout was checked: `from` is not beyond `to`.
        let storage = &data.part(from, to - from, "array data")?;
        let bytes = element_count(&self.shape).and_then(|n| n.checked_mul(dtype.size()));
        if bytes.map(|bytes| bytes as u64) != Some(storage.len()) {
            let expected = format!("{} bytes of {}", storage.len(), dtype.name());
            return Err(Fault::invalid("shape", expected, format!("{:?}", self.shape)));
        }
        View { storage, dtype, offset: 0, shape: &self.shape, strides: &row_major(&self.shape) }
            .read(budget)
    }
}

/// Writes arrays as `dtype` (F32, F16 or BF16). The file is complete, on the disk, or not there.
pub fn write_safetensors<'a>(
    path: impl AsRef<Path>,
    arrays: impl IntoIterator<Item = (&'a str, &'a [usize], &'a [f32])>,
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let path = path.as_ref();
    let arrays: Vec<_> = arrays.into_iter().collect();
    let content = Content::new(&arrays, dtype, metadata).map_err(|fault| malformed(fault, path))?;
    write_atomically(path, |out| content.write(out)).map_err(|source| Error::Io {
        action: "write",
        source,
        path: path.to_owned(),
    })
}

pub(super) fn malformed(fault: Fault, path: &Path) -> Error {
    Error::Malformed { format: Format::SafeTensors, fault, path: path.to_owned() }
}

/// An array to be written: name, shape, values.
pub(super) type Row<'a> = (&'a str, &'a [usize], &'a [f32]);

/// A file to be written.
pub(super) struct Content<'a> {
    arrays: &'a [Row<'a>],
    dtype: Dtype,
    /// The entries of the header, as JSON.
    entries: Vec<String>,
    /// Bytes of data so far.
    len: usize,
}

impl<'a> Content<'a> {
    pub(super) fn new(
        arrays: &'a [Row<'a>],
        dtype: Dtype,
        metadata: &BTreeMap<String, String>,
    ) -> std::result::Result<Self, Fault> {
        if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return Err(Fault::invalid("dtype to write", "F32, F16 or BF16", dtype.name()));
        }
        let mut content = Self { arrays, dtype, entries: Vec::new(), len: 0 };
        if !metadata.is_empty() {
            let metadata = serde_json::json!(metadata);
            content.entries.push(format!("{}:{metadata}", quoted(METADATA)));
        }
        let mut names = BTreeSet::from([METADATA]);
        for (name, shape, data) in arrays {
            if !names.insert(name) {
                return Err(Fault::Duplicate { name: abridged(name) });
            }
            check(shape, data, dtype).map_err(|fault| fault.in_array(name))?;
            content.announce(name, dtype, shape);
        }
        Ok(content)
    }

    /// Adds an entry whose data the caller writes after [`Self::write`].
    pub(super) fn announce(&mut self, name: &str, dtype: Dtype, shape: &[usize]) {
        let end = self.len + shape.iter().product::<usize>() * dtype.size();
        let (dtype, offsets) = (dtype.name(), [self.len, end]);
        let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        self.entries.push(format!("{}:{entry}", quoted(name)));
        self.len = end;
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        /// Numbers that are encoded at a time.
        const BLOCK: usize = 1 << 14;
        let mut header = format!("{{{}}}", self.entries.join(",")).into_bytes();
        // Spaces, so that the data starts at a multiple of eight.
        header.resize(header.len().next_multiple_of(8), b' ');
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        let mut bytes = Vec::with_capacity(BLOCK * self.dtype.size());
        for block in self.arrays.iter().flat_map(|(_, _, data)| data.chunks(BLOCK)) {
            bytes.clear();
            let values = block.iter();
            match self.dtype {
                Dtype::F16 => bytes.extend(values.flat_map(|x| f16_from_f32(*x).to_le_bytes())),
                Dtype::Bf16 => bytes.extend(values.flat_map(|x| bf16_from_f32(*x).to_le_bytes())),
                _ => bytes.extend(values.flat_map(|x| x.to_le_bytes())),
            }
            out.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// Refuses values that are not as many as the shape says, or that `dtype` cannot hold.
fn check(shape: &[usize], data: &[f32], dtype: Dtype) -> std::result::Result<(), Fault> {
    if element_count(shape) != Some(data.len()) {
        let found = format!("{} elements", data.len());
        return Err(Fault::invalid("data", format!("{shape:?}"), found));
    }
    let overflows = |x: &&f32| x.is_finite() && f16_to_f32(f16_from_f32(**x)).is_infinite();
    if dtype == Dtype::F16
        && let Some(x) = data.iter().find(overflows)
    {
        return Err(Fault::invalid("element", "at most 65504, the largest F16", x));
    }
    Ok(())
}

fn quoted(name: &str) -> serde_json::Value {
    serde_json::Value::from(name)
}
