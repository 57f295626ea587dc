//! BMP: palettes, runs, bit fields and plain pixels, by the rules of Pillow's reader. Alpha is dropped.

use std::fmt::Display;

use super::Image;
use crate::{Error, Result};

/// What is wrong with a file.
type Outcome<T> = std::result::Result<T, &'static str>;

const ENDS: &str = "the end of the data";

/// Decodes a BMP; `check` sees width and height before anything is allocated for them.
pub(super) fn decode(
    bytes: &[u8],
    check: impl Fn(usize, usize) -> Result<()>,
    unsound: impl Fn(&dyn Display) -> Error,
) -> Result<Image> {
    let header = Header::read(bytes).map_err(|fault| unsound(&fault))?;
    check(header.width, header.height)?;
    let pixels = header.pixels().map_err(|fault| unsound(&fault))?;
    Image::new(header.width, header.height, pixels)
}

struct Header<'a> {
    width: usize,
    height: usize,
    /// Rows usually go from the bottom up.
    top_down: bool,
    coding: Coding,
    palette: Vec<[u8; 3]>,
    data: &'a [u8],
}

enum Coding {
    /// Palette entries of 1, 4 or 8 bits.
    Indices(u32),
    /// Runs of palette entries of 4 or 8 bits.
    Runs(u32),
    /// Blue, green, red, in as many bytes.
    Bytes(usize),
    /// Bit masks of red, green and blue in words of 2 or 4 bytes.
    Masks(usize, [u32; 3]),
}

fn u16_at(bytes: &[u8], at: usize) -> Outcome<u32> {
    let two = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()).ok_or(ENDS)?;
    Ok(u32::from(u16::from_le_bytes(*two)))
}

fn u32_at(bytes: &[u8], at: usize) -> Outcome<u32> {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or(ENDS)?;
    Ok(u32::from_le_bytes(*four))
}

impl<'a> Header<'a> {
    fn read(bytes: &'a [u8]) -> Outcome<Self> {
        // Fourteen bytes of file header, then one whose first word is its size.
        let (start, size) = (u32_at(bytes, 10)? as usize, u32_at(bytes, 14)? as usize);
        let old = size == 12;
        if !old && !matches!(size, 40 | 52 | 56 | 64 | 108 | 124) {
            return Err("an unknown kind of header");
        }
        let (width, height, bits) = if old {
            (u16_at(bytes, 18)?, u16_at(bytes, 20)?.cast_signed(), u16_at(bytes, 24)?)
        } else {
            (u32_at(bytes, 18)?, u32_at(bytes, 22)?.cast_signed(), u16_at(bytes, 28)?)
        };
        let compression = if old { 0 } else { u32_at(bytes, 30)? };
        let coding = match (compression, bits) {
            (0, 1 | 4 | 8) => Coding::Indices(bits),
            (0, 16) => Coding::Masks(2, [0x7c00, 0x03e0, 0x001f]),
            (0, 24 | 32) => Coding::Bytes(bits as usize / 8),
            (1, 8) | (2, 4) => Coding::Runs(bits),
            (3 | 6, 16 | 32) => Coding::Masks(
                bits as usize / 8,
                [u32_at(bytes, 54)?, u32_at(bytes, 58)?, u32_at(bytes, 62)?],
            ),
            _ => return Err("a compression or a number of bits that is not supported"),
        };
        let mut palette = Vec::new();
        if bits <= 8 {
            let listed = if old { 0 } else { u32_at(bytes, 46)? as usize };
            let count = if listed == 0 { 1 << bits } else { listed.min(1 << bits) };
            let entry = if old { 3 } else { 4 };
            let entries = bytes.get(14 + size..).and_then(|rest| rest.get(..count * entry));
            palette.extend(entries.ok_or(ENDS)?.chunks_exact(entry).map(|e| [e[2], e[1], e[0]]));
        }
        Ok(Self {
            width: width as usize,
            height: height.unsigned_abs() as usize,
            top_down: height < 0,
            coding,
            palette,
            data: bytes.get(start..).ok_or(ENDS)?,
        })
    }

    fn pixels(&self) -> Outcome<Vec<u8>> {
        let rows: Vec<u8> = match self.coding {
            Coding::Indices(bits) => self.lines(bits as usize, |line, out| {
                let per_byte = 8 / bits as usize;
                for (x, out) in out.iter_mut().enumerate() {
                    let shift = 8 - bits as usize * (x % per_byte + 1);
                    *out = self.colour(line[x / per_byte] >> shift & (0xff >> (8 - bits)));
                }
            })?,
            Coding::Runs(bits) => {
                self.runs(bits)?.iter().flat_map(|&index| self.colour(index)).collect()
            }
            Coding::Bytes(size) => self.lines(8 * size, |line, out| {
                for (out, pixel) in out.iter_mut().zip(line.chunks_exact(size)) {
                    *out = [pixel[2], pixel[1], pixel[0]];
                }
            })?,
            Coding::Masks(size, masks) => self.lines(8 * size, |line, out| {
                for (out, pixel) in out.iter_mut().zip(line.chunks_exact(size)) {
                    let word =
                        pixel.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
                    *out = masks.map(|mask| masked(word, mask));
                }
            })?,
        };
        if self.top_down {
            return Ok(rows);
        }
        Ok(rows.rchunks_exact(3 * self.width).flatten().copied().collect())
    }

    /// All rows in file order, each padded to whole words in the file.
    fn lines(
        &self,
        bits: usize,
        mut convert: impl FnMut(&[u8], &mut [[u8; 3]]),
    ) -> Outcome<Vec<u8>> {
        let stride = (self.width * bits).div_ceil(32) * 4;
        let data = self.data.get(..stride * self.height).ok_or(ENDS)?;
        let mut pixels = vec![0; 3 * self.width * self.height];
        for (line, out) in data.chunks_exact(stride).zip(pixels.chunks_exact_mut(3 * self.width)) {
            convert(line, out.as_chunks_mut::<3>().0);
        }
        Ok(pixels)
    }

    /// The palette entry; black where there is none.
    fn colour(&self, index: u8) -> [u8; 3] {
        self.palette.get(usize::from(index)).copied().unwrap_or_default()
    }

    /// Unpacks runs to one entry per byte, in file order.
    fn runs(&self, bits: u32) -> Outcome<Vec<u8>> {
        let mut out = vec![0; self.width * self.height];
        let (mut x, mut y) = (0, 0);
        let mut rest = self.data;
        // In runs of four bits the entries of a byte take turns.
        let entry = |byte: u8, k: usize| match (bits, k % 2) {
            (8, _) => byte,
            (_, 0) => byte >> 4,
            _ => byte & 15,
        };
        let mut put = |x: usize, y: usize, value: u8| {
            if x < self.width && y < self.height {
                out[y * self.width + x] = value;
            }
        };
        while y < self.height {
            let &[count, value, ref tail @ ..] = rest else { return Err(ENDS) };
            rest = tail;
            match (count, value) {
                (0, 0) => (x, y) = (0, y + 1),
                (0, 1) => break,
                (0, 2) => {
                    let &[right, up, ref tail @ ..] = rest else { return Err(ENDS) };
                    (x, y, rest) = (x + usize::from(right), y + usize::from(up), tail);
                }
                // As they are, padded to an even number of bytes.
                (0, count) => {
                    let count = usize::from(count);
                    let length = (count * bits as usize).div_ceil(8);
                    let literal = rest
                        .get(..length.next_multiple_of(2))
                        .or(rest.get(..length))
                        .ok_or(ENDS)?;
                    for k in 0..count {
                        put(x + k, y, entry(literal[k * bits as usize / 8], k));
                    }
                    (x, rest) = (x + count, &rest[literal.len()..]);
                }
                (count, value) => {
                    let count = usize::from(count);
                    for k in 0..count.min(self.width.saturating_sub(x)) {
                        put(x + k, y, entry(value, k));
                    }
                    x += count;
                }
            }
        }
        Ok(out)
    }
}

/// The bits of a word under a mask, scaled to a byte.
fn masked(word: u32, mask: u32) -> u8 {
    if mask == 0 {
        return 0;
    }
    let shift = mask.trailing_zeros();
    let (value, most) = (u64::from((word & mask) >> shift), u64::from(mask >> shift));
    (value * 255 / most) as u8
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A file of this size, bits, compression and what follows the 40 bytes of header; `palette` bytes of it are no
    /// pixels.
    fn file(size: (i32, i32), bits: u16, compression: u32, palette: usize, rest: &[u8]) -> Vec<u8> {
        let mut bytes = b"BM\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend((54 + palette as u32).to_le_bytes());
        bytes.extend(40_u32.to_le_bytes());
        bytes.extend(size.0.to_le_bytes());
        bytes.extend(size.1.to_le_bytes());
        bytes.extend([1, 0]);
        bytes.extend(bits.to_le_bytes());
        bytes.extend(compression.to_le_bytes());
        bytes.extend([0; 12]);
        bytes.extend((palette as u32 / 4).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(rest);
        bytes
    }

    fn pixels(bytes: &[u8]) -> Vec<u8> {
        Image::decode(bytes, Path::new("test.bmp")).unwrap().into_pixels()
    }

    #[test]
    fn words_are_split_by_their_masks() {
        // Two pixels, 5 bits each without masks: full red and half green.
        assert_eq!(pixels(&file((2, 1), 16, 0, 0, &[0, 0x7c, 0, 2])), [255, 0, 0, 0, 131, 0]);
        let mut rest = Vec::new();
        for word in [0xf800_u32, 0x07e0, 0x001f] {
            rest.extend(word.to_le_bytes());
        }
        rest.extend([0xe0, 0x07, 0x1f, 0xf8]);
        assert_eq!(pixels(&file((2, 1), 16, 3, 12, &rest)), [0, 255, 0, 255, 0, 255]);
    }

    #[test]
    fn rows_go_up_unless_the_height_is_negative() {
        let rest = [1, 2, 3, 0, 4, 5, 6, 0];
        assert_eq!(pixels(&file((1, 2), 24, 0, 0, &rest)), [6, 5, 4, 3, 2, 1]);
        assert_eq!(pixels(&file((1, -2), 24, 0, 0, &rest)), [3, 2, 1, 6, 5, 4]);
    }

    #[test]
    fn runs_literals_and_jumps_are_unpacked() {
        let palette = [0, 0, 0, 0, 10, 20, 30, 0, 40, 50, 60, 0];
        let of = |indices: [u8; 8]| -> Vec<u8> {
            indices
                .iter()
                .flat_map(|&i| [[0; 3], [30, 20, 10], [60, 50, 40]][usize::from(i)])
                .collect()
        };
        // A run of two, a line's end, a jump by one, a literal of three and its padding, the end.
        let runs = [2, 1, 0, 0, 0, 2, 1, 0, 0, 3, 2, 1, 2, 0, 0, 1];
        let bytes = file((4, -2), 8, 1, 12, &[&palette[..], &runs].concat());
        assert_eq!(pixels(&bytes), of([1, 1, 0, 0, 0, 2, 1, 2]));
        let halves = [3, 0x12, 0, 0, 0, 4, 0x21, 0x10, 0, 1];
        let bytes = file((4, -2), 4, 2, 12, &[&palette[..], &halves].concat());
        assert_eq!(pixels(&bytes), of([1, 2, 1, 0, 2, 1, 1, 0]));
        assert!(Image::decode(&bytes[..bytes.len() - 1], Path::new("cut.bmp")).is_err());
    }
}
