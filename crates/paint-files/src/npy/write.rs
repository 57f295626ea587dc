//! Writing a `uint8` array row by row, so that 50,000 images never lie in memory together.

use std::fs::File;
use std::io::{self, Write as _};

use super::MAGIC;

/// A `uint8` array of known shape that is being written.
#[derive(Debug)]
pub struct NpyWriter<'a> {
    out: &'a mut io::BufWriter<File>,
    left: usize,
}

impl<'a> NpyWriter<'a> {
    /// Writes the header of an array of this shape.
    pub fn new(out: &'a mut io::BufWriter<File>, shape: &[usize]) -> io::Result<Self> {
        let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        let shape_text = format!("({}{comma})", sides.join(", "));
        let mut header =
            format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape_text}, }}");
        // The data starts at a multiple of 64, and the header ends with a newline.
        let unpadded = MAGIC.len() + 4 + header.len() + 1;
        header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
        header.push('\n');
        let len = u16::try_from(header.len()).map_err(io::Error::other)?;
        out.write_all(MAGIC)?;
        out.write_all(&[1, 0])?;
        out.write_all(&len.to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        Ok(Self { out, left: shape.iter().product() })
    }

    /// Appends bytes in C order.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.left = self
            .left
            .checked_sub(bytes.len())
            .ok_or_else(|| io::Error::other("more values than the shape of the array holds"))?;
        self.out.write_all(bytes)
    }

    /// Checks that the array is complete.
    pub fn finish(self) -> io::Result<()> {
        if self.left == 0 {
            Ok(())
        } else {
            Err(io::Error::other(format!("the array lacks {} values", self.left)))
        }
    }
}
