//! NumPy arrays: `.npy`, and `.npz`, a zip archive of them.

use super::array::{Array, Budget, Dtype, View, element_count, row_major};
use super::cursor::{Cursor, text};
use super::error::Fault;
use super::zip::Archive;
use super::{Checkpoint, Format};

const MAGIC: &[u8] = b"\x93NUMPY";
const EXTENSION: &str = ".npy";

/// Whether an archive holds arrays rather than something else.
pub(super) fn is_npz(archive: &Archive<'_>) -> bool {
    let entries = archive.entries();
    !entries.is_empty() && entries.iter().all(|entry| entry.name.ends_with(EXTENSION))
}

pub(super) fn decode_npz(archive: &Archive<'_>, budget: &mut Budget) -> Result<Checkpoint, Fault> {
    let mut checkpoint = Checkpoint::new(Format::Npz);
    for entry in archive.entries() {
        let name = entry.name.strip_suffix(EXTENSION).unwrap_or(entry.name);
        let content = archive.read(entry, budget)?;
        match read(&content, budget).map_err(|fault| fault.in_array(name))? {
            Content::Array(array) => checkpoint.insert(name.to_owned(), array)?,
            Content::Other(kind) => checkpoint.skipped.push((name.to_owned(), kind)),
        }
    }
    Ok(checkpoint)
}

/// A single array has no name; it is called `array`.
pub(super) fn decode_npy(bytes: &[u8]) -> Result<Checkpoint, Fault> {
    let mut checkpoint = Checkpoint::new(Format::Npy);
    match read(bytes, &mut Budget::for_file(bytes.len()))? {
        Content::Array(array) => checkpoint.insert("array".to_owned(), array)?,
        Content::Other(kind) => return Err(Fault::invalid("element type", "numbers", kind)),
    }
    Ok(checkpoint)
}

enum Content {
    Array(Array),
    /// Text or objects, with the element type as NumPy writes it.
    Other(String),
}

fn read(bytes: &[u8], budget: &mut Budget) -> Result<Content, Fault> {
    let what = "npy header";
    let mut cursor = Cursor::new(bytes);
    let magic = cursor.take(MAGIC.len(), what)?;
    if magic != MAGIC {
        return Err(Fault::invalid(what, "\\x93NUMPY", format!("{magic:02x?}")));
    }
    let [major, minor] = cursor.array(what)?;
    let length = match major {
        1 => u64::from(cursor.u16(what)?),
        2 | 3 => u64::from(cursor.u32(what)?),
        _ => return Err(Fault::invalid("npy version", "1, 2 or 3", format!("{major}.{minor}"))),
    };
    let header = Header::parse(text(cursor.take_long(length, what)?, what)?)?;
    let data = &bytes[cursor.position()..];
    let Some((dtype, big_endian)) = dtype(header.descr) else {
        return Ok(Content::Other(header.descr.to_owned()));
    };
    if element_count(&header.shape).and_then(|n| n.checked_mul(dtype.size())) != Some(data.len()) {
        let expected = format!("{} bytes of {}", data.len(), dtype.name());
        return Err(Fault::invalid("shape", expected, format!("{:?}", header.shape)));
    }
    let swapped;
    let data = if big_endian {
        budget.charge("the array", data.len() as u64)?;
        swapped = data
            .chunks_exact(dtype.size())
            .flat_map(|chunk| chunk.iter().rev().copied())
            .collect::<Vec<u8>>();
        &swapped
    } else {
        data
    };
    let strides = if header.fortran_order {
        let reversed: Vec<usize> = header.shape.iter().rev().copied().collect();
        row_major(&reversed).into_iter().rev().collect()
    } else {
        row_major(&header.shape)
    };
    View { bytes: data, dtype, offset: 0, shape: &header.shape, strides: &strides }
        .read(budget)
        .map(Content::Array)
}

/// The element type and whether its bytes are reversed; none for text, objects and the like.
fn dtype(descr: &str) -> Option<(Dtype, bool)> {
    let big_endian = descr.starts_with('>');
    let dtype = match descr.trim_start_matches(['<', '>', '|', '=']) {
        "f8" => Dtype::F64,
        "f4" => Dtype::F32,
        "f2" => Dtype::F16,
        // bfloat16 has no NumPy type: JAX programs leave it as two opaque bytes.
        "V2" => Dtype::Bf16,
        "i8" => Dtype::I64,
        "i4" => Dtype::I32,
        "i2" => Dtype::I16,
        "i1" => Dtype::I8,
        "u8" => Dtype::U64,
        "u4" => Dtype::U32,
        "u2" => Dtype::U16,
        "u1" => Dtype::U8,
        "b1" => Dtype::Bool,
        _ => return None,
    };
    Some((dtype, big_endian))
}

#[derive(Debug, PartialEq)]
struct Header<'a> {
    descr: &'a str,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl<'a> Header<'a> {
    /// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`: the one form of Python literal that NumPy
    /// writes, and no other.
    fn parse(header: &'a str) -> Result<Self, Fault> {
        let broken = || {
            Fault::invalid("npy header", "descr, fortran_order and shape", format!("{header:?}"))
        };
        let value = |key: &str| -> Option<&'a str> {
            let (_, rest) = header.split_once(&format!("'{key}'"))?;
            Some(rest.trim_start().strip_prefix(':')?.trim_start())
        };
        let descr = value("descr").ok_or_else(broken)?;
        // A structured type is a list; it is named and skipped like any other that is not a number.
        let descr = match descr.strip_prefix('\'') {
            Some(rest) => rest.split_once('\'').ok_or_else(broken)?.0,
            None => "a structured type",
        };
        let fortran_order = match value("fortran_order").ok_or_else(broken)? {
            rest if rest.starts_with("True") => true,
            rest if rest.starts_with("False") => false,
            _ => return Err(broken()),
        };
        let shape = value("shape").and_then(|rest| rest.strip_prefix('(')).ok_or_else(broken)?;
        let shape = shape.split_once(')').ok_or_else(broken)?.0.trim();
        let shape = shape.strip_suffix(',').unwrap_or(shape);
        let shape = if shape.is_empty() {
            Vec::new()
        } else {
            let axes: Result<Vec<usize>, _> =
                shape.split(',').map(|axis| axis.trim().parse()).collect();
            axes.map_err(|_| broken())?
        };
        Ok(Self { descr, fortran_order, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_numpy_are_understood() {
        let parse = |text| Header::parse(text).unwrap();
        assert_eq!(
            parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n"),
            Header { descr: "<f4", fortran_order: false, shape: vec![3, 4] }
        );
        assert_eq!(parse("{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }").shape, [7]);
        assert_eq!(
            parse("{'descr': '>f8', 'fortran_order': False, 'shape': (), }").shape,
            [0_usize; 0]
        );
    }

    #[test]
    fn headers_that_are_not_numpys_are_refused() {
        for text in [
            "",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': (3,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 99999999999999999999), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3",
        ] {
            assert!(Header::parse(text).is_err(), "{text}");
        }
    }
}
