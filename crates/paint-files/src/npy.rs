//! NumPy's `.npy`: one array, which stays in its file until it is read.
//!
//! A header is text that anyone can write: its shape is believed only where the file is exactly as long as it says.

mod write;

pub use write::NpyWriter;

use crate::{Cursor, Dtype, Fault, Source, element_count, utf8};

/// The first bytes of every `.npy` file.
pub const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy writes headers of 128 bytes; this leaves room for long shapes and padding.
const MAX_HEADER: u64 = 1 << 16;
/// Magic number, version, and the longest form of the header's length.
const PREAMBLE: u64 = 12;

/// What an `.npy` file holds.
#[derive(Debug)]
pub enum Npy {
    /// Numbers.
    Array(NpyArray),
    /// Text, objects and the like, which are not read: the element type as NumPy writes it.
    Other(String),
}

/// An array of numbers in a file.
#[derive(Debug, Clone)]
pub struct NpyArray {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: Dtype,
    /// Whether the bytes of an element are in reverse order.
    pub big_endian: bool,
    /// Whether the first axis varies fastest.
    pub fortran_order: bool,
    /// The elements: exactly as many bytes as shape and type ask for.
    pub data: Source,
}

impl Npy {
    /// Reads the header and checks the length of the data against it.
    pub fn open(source: &Source) -> Result<Self, Fault> {
        let what = "npy header";
        let start = source.read(0, PREAMBLE.min(source.len()), what)?;
        let mut cursor = Cursor::new(&start);
        let magic = cursor.take(MAGIC.len(), what)?;
        if magic != MAGIC {
            return Err(Fault::invalid(what, "\\x93NUMPY", format!("{magic:02x?}")));
        }
        let [major, minor] = cursor.array(what)?;
        let length = match major {
            1 => u64::from(cursor.u16(what)?),
            2 | 3 => u64::from(cursor.u32(what)?),
            _ => {
                return Err(Fault::invalid("npy version", "1, 2 or 3", format!("{major}.{minor}")));
            }
        };
        let at = cursor.position() as u64;
        let header = source.part(at, length, what)?;
        if length > MAX_HEADER {
            return Err(Fault::TooLarge {
                what: what.to_owned(),
                claimed: length,
                limit: MAX_HEADER,
            });
        }
        let header = header.read_all()?;
        let header = Header::parse(utf8(&header, what)?)?;
        let Some((dtype, big_endian)) = dtype(header.descr) else {
            return Ok(Self::Other(header.descr.to_owned()));
        };
        let data = source.rest(at + length, "npy data")?;
        let (shape, fortran_order) = (header.shape, header.fortran_order);
        let bytes = element_count(&shape).and_then(|count| count.checked_mul(dtype.size()));
        if bytes.map(|bytes| bytes as u64) != Some(data.len()) {
            let expected = format!("{} bytes of {}", data.len(), dtype.name());
            return Err(Fault::invalid("shape", expected, format!("{shape:?}")));
        }
        Ok(Self::Array(NpyArray { shape, dtype, big_endian, fortran_order, data }))
    }
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
mod tests;
