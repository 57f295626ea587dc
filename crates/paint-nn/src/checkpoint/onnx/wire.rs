//! Protobuf's wire format: numbered fields, each a varint, four or eight bytes, or a length and as many bytes.
//!
//! A field with a length is handed out as a part of the source, so that arrays stay where they are until they are
//! asked for. Nothing here follows a field into its own fields: how deep a reader goes is written in its code.

use paint_files::{Budget, Fault, Source};

/// What is read at a time; most messages are smaller.
const WINDOW: u64 = 1024;
/// Seven bits to a byte: more than this do not fit 64 bits.
const LONGEST_VARINT: u32 = 10;

/// The content of a field.
#[derive(Debug)]
pub(super) enum Value {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64,
    Bytes(Source),
}

impl Value {
    /// A whole number; negative ones are stored in two's complement.
    pub(super) fn int(self, what: &str) -> Result<i64, Fault> {
        match self {
            Self::Varint(number) => Ok(number.cast_signed()),
            other => Err(other.unlike(what, "a whole number")),
        }
    }

    pub(super) fn float(self, what: &str) -> Result<f32, Fault> {
        match self {
            Self::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            other => Err(other.unlike(what, "a number of four bytes")),
        }
    }

    /// Bytes, or a message, where they lie.
    pub(super) fn bytes(self, what: &str) -> Result<Source, Fault> {
        match self {
            Self::Bytes(source) => Ok(source),
            other => Err(other.unlike(what, "bytes with a length")),
        }
    }

    pub(super) fn message(self, what: &str) -> Result<Fields, Fault> {
        self.bytes(what).map(Fields::new)
    }

    pub(super) fn text(self, what: &str, budget: &mut Budget) -> Result<String, Fault> {
        let source = self.bytes(what)?;
        budget.charge(what, source.len() + size_of::<String>() as u64)?;
        String::from_utf8(source.read_all()?)
            .map_err(|error| Fault::invalid(what, "UTF-8 text", error))
    }

    /// Adds a repeated whole number: one, or all of them packed.
    pub(super) fn ints(
        self,
        into: &mut Vec<i64>,
        what: &str,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        let mut add = |number: u64| {
            budget.charge(what, size_of::<i64>() as u64)?;
            into.push(number.cast_signed());
            Ok(())
        };
        match self {
            Self::Varint(number) => add(number),
            other => {
                let mut packed = Fields::new(other.bytes(what)?);
                while !packed.is_at_end() {
                    add(packed.varint()?)?;
                }
                Ok(())
            }
        }
    }

    fn unlike(&self, what: &str, expected: &str) -> Fault {
        let found = match self {
            Self::Varint(_) => "a varint",
            Self::Fixed32(_) => "four bytes",
            Self::Fixed64 => "eight bytes",
            Self::Bytes(_) => "bytes with a length",
        };
        Fault::invalid(what, expected, found)
    }
}

/// The fields of a message, in order.
#[derive(Debug)]
pub(super) struct Fields {
    source: Source,
    at: u64,
    /// Bytes that were read, and where they begin.
    window: Vec<u8>,
    start: u64,
}

impl Fields {
    pub(super) fn new(source: Source) -> Self {
        Self { source, at: 0, window: Vec::new(), start: 0 }
    }

    /// The number and the content of the next field.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value)>, Fault> {
        if self.is_at_end() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                let mut bytes = [0; 4];
                self.take(4)?.fill(0, &mut bytes)?;
                Value::Fixed32(bytes)
            }
            kind => return Err(Fault::invalid("kind of a field", "0, 1, 2 or 5", kind)),
        };
        match tag >> 3 {
            0 => Err(Fault::invalid("number of a field", "at least 1", 0)),
            number => Ok(Some((number, value))),
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.source.len()
    }

    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let mut number = 0;
        for place in 0..LONGEST_VARINT {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f) << (7 * place);
            if bits >> (7 * place) != u64::from(byte & 0x7f) {
                break;
            }
            number |= bits;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Fault::invalid("varint", "at most 64 bits", "more"))
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let inside = self.at.checked_sub(self.start).filter(|at| *at < self.window.len() as u64);
        let inside = if let Some(inside) = inside {
            inside
        } else {
            let length = WINDOW.min(self.source.len() - self.at).max(1);
            self.window = self.source.read(self.at, length, "a field")?;
            self.start = self.at;
            0
        };
        self.at += 1;
        Ok(self.window[inside as usize])
    }

    fn take(&mut self, length: u64) -> Result<Source, Fault> {
        let taken = self.source.part(self.at, length, "a field")?;
        self.at += length;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(bytes: &[u8]) -> Result<u64, Fault> {
        Fields::new(Source::from(bytes.to_vec())).varint()
    }

    #[test]
    fn varints_fill_64_bits_and_no_more() {
        assert_eq!(varint(&[0x96, 0x01]).unwrap(), 150);
        let mut largest = [0xff; 10];
        largest[9] = 1;
        assert_eq!(varint(&largest).unwrap(), u64::MAX);
        largest[9] = 2;
        assert!(varint(&largest).unwrap_err().to_string().contains("64 bits"));
        assert!(varint(&[0xff; 11]).unwrap_err().to_string().contains("64 bits"));
        assert!(matches!(varint(&[0x80, 0x80]), Err(Fault::Truncated { .. })));
    }

    #[test]
    fn fields_longer_than_the_window_are_handed_out_where_they_lie() {
        let mut bytes = vec![0x0a, 0xd0, 0x0f];
        bytes.extend([7; 2000]);
        bytes.extend([0x15, 0, 0, 0x80, 0x3f, 0x18, 0x05]);
        let mut fields = Fields::new(Source::from(bytes));
        let (number, value) = fields.next().unwrap().unwrap();
        assert_eq!((number, value.bytes("it").unwrap().len()), (1, 2000));
        let (number, value) = fields.next().unwrap().unwrap();
        assert_eq!((number, value.float("it").unwrap()), (2, 1.0));
        let (number, value) = fields.next().unwrap().unwrap();
        assert_eq!((number, value.int("it").unwrap()), (3, 5));
        assert!(fields.next().unwrap().is_none());
    }
}
