//! Reading bytes front to back, every step checked against the end.

use crate::Fault;

/// A place in a slice of bytes. What is read is named by the caller, for the message if it is not there.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The number of bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The number of bytes not read yet.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Fault> {
        if count > self.left() {
            return Err(Fault::Truncated {
                what,
                needed: count as u64,
                available: self.left() as u64,
            });
        }
        let taken = &self.bytes[self.position..self.position + count];
        self.position += count;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Fault> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    /// The next byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Fault> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// The next little-endian `u16`.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Fault> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// The next little-endian `u32`.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Fault> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// The next little-endian `u64`.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Fault> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// The next bytes, as many as a 64-bit length claims.
    pub fn take_long(&mut self, count: u64, what: &'static str) -> Result<&'a [u8], Fault> {
        match usize::try_from(count) {
            Ok(count) => self.take(count, what),
            Err(_) => Err(Fault::Truncated { what, needed: count, available: self.left() as u64 }),
        }
    }

    /// The bytes before the next line feed, which is skipped.
    pub fn line(&mut self, what: &'static str) -> Result<&'a [u8], Fault> {
        let rest = &self.bytes[self.position..];
        let Some(length) = rest.iter().position(|&byte| byte == b'\n') else {
            return Err(Fault::Truncated {
                what,
                needed: rest.len() as u64 + 1,
                available: rest.len() as u64,
            });
        };
        let line = self.take(length, what)?;
        self.position += 1;
        Ok(line)
    }
}

/// Bytes that must be UTF-8, as text.
pub fn utf8<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, Fault> {
    std::str::from_utf8(bytes).map_err(|error| Fault::invalid(what, "UTF-8 text", error))
}
