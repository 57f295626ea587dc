//! The safetensors format: `u64` header length, a JSON header, raw little-endian data.
//!
//! Read here by hand rather than with the crate of that name, because a message must name the array at fault, a name
//! that appears twice must be refused, and arrays keep the order of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
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
    let malformed =
        |fault| Error::Malformed { format: Format::SafeTensors, fault, path: path.to_owned() };
    let encode = encoder(dtype).map_err(malformed)?;
    let header = header(&arrays, dtype, metadata).map_err(malformed)?;

    write_atomically(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        let mut values = arrays.iter().flat_map(|(_, _, data)| *data);
        values.try_for_each(|&x| encode(x, out))
    })
    .map_err(|source| Error::Io { action: "write", source, path: path.to_owned() })
}

type Encode = fn(f32, &mut BufWriter<File>) -> io::Result<()>;

fn encoder(dtype: Dtype) -> std::result::Result<Encode, Fault> {
    Ok(match dtype {
        Dtype::F32 => |x, out| out.write_all(&x.to_le_bytes()),
        Dtype::F16 => |x, out| out.write_all(&f16_from_f32(x).to_le_bytes()),
        Dtype::Bf16 => |x, out| out.write_all(&bf16_from_f32(x).to_le_bytes()),
        other => return Err(Fault::invalid("dtype to write", "F32, F16 or BF16", other.name())),
    })
}

fn header(
    arrays: &[(&str, &[usize], &[f32])],
    dtype: Dtype,
    metadata: &BTreeMap<String, String>,
) -> std::result::Result<Vec<u8>, Fault> {
    let mut rows = Vec::new();
    if !metadata.is_empty() {
        rows.push(format!("{}:{}", quoted(METADATA), serde_json::json!(metadata)));
    }
    let mut seen = std::collections::BTreeSet::from([METADATA]);
    let mut offset = 0;
    for (name, shape, data) in arrays {
        if !seen.insert(name) {
            return Err(Fault::Duplicate { name: abridged(name) });
        }
        if element_count(shape) != Some(data.len()) {
            let found = format!("{} elements", data.len());
            return Err(Fault::invalid("data", format!("{shape:?}"), found).in_array(name));
        }
        if dtype == Dtype::F16
            && let Some(x) =
                data.iter().find(|x| x.is_finite() && f16_to_f32(f16_from_f32(**x)).is_infinite())
        {
            return Err(
                Fault::invalid("element", "at most 65504, the largest F16", x).in_array(name)
            );
        }
        let end = offset + data.len() * dtype.size();
        let row = serde_json::json!({ "dtype": dtype.name(), "shape": shape, "data_offsets": [offset, end] });
        rows.push(format!("{}:{row}", quoted(name)));
        offset = end;
    }
    let mut header = format!("{{{}}}", rows.join(",")).into_bytes();
    // Spaces, so that the data starts at a multiple of eight.
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

fn quoted(name: &str) -> serde_json::Value {
    serde_json::Value::from(name)
}
