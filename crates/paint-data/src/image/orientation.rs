//! Which way up a photograph is.
//!
//! A camera stores the rows of its sensor and notes in an Exif block how it was held. Viewers turn the picture by
//! that note; Pillow's `Image.open`, and with it torchvision and every benchmark, does not. So [`Image::open`] leaves
//! an image as it is stored, and [`Image::open_upright`] turns it, as Pillow's `ImageOps.exif_transpose` does.

use super::Image;

/// The Exif tag of the orientation.
const TAG: u16 = 0x0112;

/// How a stored image is to be turned, by the numbers of Exif.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Orientation(u8);

impl Orientation {
    /// As stored.
    const UPRIGHT: Self = Self(1);

    /// What the Exif block of an image file says: a JPEG, PNG or WebP. Upright if there is none, or none that makes
    /// sense.
    pub(super) fn of(file: &[u8]) -> Self {
        exif_block(file).and_then(orientation).unwrap_or(Self::UPRIGHT)
    }

    /// Rows become columns.
    fn is_transposed(self) -> bool {
        self.0 >= 5
    }

    /// Mirrored left to right, as stored.
    fn is_mirrored(self) -> bool {
        matches!(self.0, 2 | 3 | 7 | 8)
    }

    /// Upside down, as stored.
    fn is_flipped(self) -> bool {
        matches!(self.0, 3 | 4 | 6 | 7)
    }
}

impl Image {
    /// The image, turned.
    pub(super) fn turned(self, by: Orientation) -> Self {
        if by == Orientation::UPRIGHT {
            return self;
        }
        let (w, h) = (self.width, self.height);
        let (width, height) = if by.is_transposed() { (h, w) } else { (w, h) };
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for y in 0..height {
            for x in 0..width {
                let (x, y) = if by.is_transposed() { (y, x) } else { (x, y) };
                let x = if by.is_mirrored() { w - 1 - x } else { x };
                let y = if by.is_flipped() { h - 1 - y } else { y };
                pixels.extend_from_slice(&self.pixels[(y * w + x) * 3..][..3]);
            }
        }
        Self { width, height, pixels }
    }
}

/// The Exif block of a file, which is a small TIFF file.
fn exif_block(file: &[u8]) -> Option<&[u8]> {
    let block = match file {
        [0xff, 0xd8, rest @ ..] => in_jpeg(rest),
        [0x89, b'P', b'N', b'G', _, _, _, _, rest @ ..] => in_png(rest),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => in_webp(rest),
        _ => None,
    }?;
    Some(block.strip_prefix(b"Exif\0\0").unwrap_or(block))
}

/// Segments of a marker, a length that counts itself, and data, up to the first scan.
fn in_jpeg(mut rest: &[u8]) -> Option<&[u8]> {
    const APP1: u8 = 0xe1;
    const SCAN: u8 = 0xda;
    loop {
        let [0xff, marker, after @ ..] = rest else { return None };
        match *marker {
            // Any number of these may come before a marker.
            0xff => rest = &rest[1..],
            SCAN => return None,
            marker => {
                let length = usize::from(u16::from_be_bytes(*after.first_chunk()?));
                let data = after.get(2..length)?;
                if marker == APP1 && data.starts_with(b"Exif\0\0") {
                    return Some(data);
                }
                rest = &after[length..];
            }
        }
    }
}

/// Chunks of a length, a name, data and a checksum.
fn in_png(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let data = rest.get(8..)?.get(..length)?;
        if &rest[4..8] == b"eXIf" {
            return Some(data);
        }
        rest = rest.get(8 + length + 4..)?;
    }
}

/// Chunks of a name, a length and data, padded to an even length.
fn in_webp(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let length = u32::from_le_bytes(*rest.get(4..)?.first_chunk()?) as usize;
        let data = rest.get(8..)?.get(..length)?;
        if rest.starts_with(b"EXIF") {
            return Some(data);
        }
        rest = rest.get(8 + length.next_multiple_of(2)..)?;
    }
}

/// The orientation in the first directory of a TIFF file.
fn orientation(tiff: &[u8]) -> Option<Orientation> {
    let is_big = match tiff.first_chunk()? {
        b"MM\0*" => true,
        b"II*\0" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let long = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) } as usize)
    };
    let directory = long(4)?;
    // An entry is a tag, a type, a count and a value, of which a short number takes the first two bytes.
    let entries = (0..usize::from(short(directory)?)).map(|i| directory + 2 + 12 * i);
    let entry = entries.take_while(|at| *at < tiff.len()).find(|at| short(*at) == Some(TAG))?;
    let value = match short(entry + 2)? {
        3 => usize::from(short(entry + 8)?),
        4 => long(entry + 8)?,
        _ => return None,
    };
    (1..=8).contains(&value).then_some(Orientation(value as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with another entry before the orientation.
    fn tiff(is_big: bool, value: u16) -> Vec<u8> {
        let short = |x: u16| if is_big { x.to_be_bytes() } else { x.to_le_bytes() };
        let long = |x: u32| if is_big { x.to_be_bytes() } else { x.to_le_bytes() };
        let mut bytes = if is_big { b"MM\0*".to_vec() } else { b"II*\0".to_vec() };
        bytes.extend(long(8));
        bytes.extend(short(2));
        for (tag, value) in [(0x0100, 640), (TAG, value)] {
            bytes.extend([short(tag), short(3)].concat());
            bytes.extend(long(1));
            bytes.extend([short(value), short(0)].concat());
        }
        bytes
    }

    fn jpeg(exif: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xe1];
        bytes.extend((exif.len() as u16 + 8).to_be_bytes());
        bytes.extend(b"Exif\0\0");
        bytes.extend(exif);
        bytes
    }

    fn png(exif: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        for (name, data) in [(b"IHDR", &[7; 13][..]), (b"eXIf", exif)] {
            bytes.extend((data.len() as u32).to_be_bytes());
            bytes.extend([&name[..], data, &[0; 4]].concat());
        }
        bytes
    }

    fn webp(exif: &[u8]) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WEBP".to_vec();
        for (name, data) in [(b"VP8X", &[7; 11][..]), (b"EXIF", exif)] {
            bytes.extend([&name[..], &(data.len() as u32).to_le_bytes(), data].concat());
            bytes.resize(bytes.len().next_multiple_of(2), 0);
        }
        bytes
    }

    #[test]
    fn the_tag_is_found_in_every_format_and_byte_order() {
        for container in [jpeg, png, webp] {
            for (is_big, value) in [(true, 6), (false, 8), (false, 1)] {
                let file = container(&tiff(is_big, value));
                assert_eq!(Orientation::of(&file), Orientation(value as u8));
            }
            assert_eq!(Orientation::of(&container(&tiff(true, 9))), Orientation::UPRIGHT);
            // Cut anywhere or changed anywhere, it is another number or none, and no more than that.
            let whole = container(&tiff(false, 6));
            for at in 0..whole.len() {
                Orientation::of(&whole[..at]);
                for value in [0, 0xff] {
                    let mut other = whole.clone();
                    other[at] = value;
                    assert!((1..=8).contains(&Orientation::of(&other).0));
                }
            }
        }
        assert_eq!(Orientation::of(b"BM"), Orientation::UPRIGHT);
    }

    #[test]
    fn an_image_is_turned_as_pillow_turns_it() {
        // Two rows of three: a b c over d e f.
        let letters = |text: &str| text.bytes().flat_map(|letter| [letter; 3]).collect::<Vec<_>>();
        for (number, width, expected) in [
            (1, 3, "abcdef"),
            (2, 3, "cbafed"),
            (3, 3, "fedcba"),
            (4, 3, "defabc"),
            (5, 2, "adbecf"),
            (6, 2, "daebfc"),
            (7, 2, "fcebda"),
            (8, 2, "cfbead"),
        ] {
            let image = Image::new(3, 2, letters("abcdef")).unwrap();
            let turned = image.turned(Orientation(number));
            let expected = Image::new(width, 6 / width, letters(expected)).unwrap();
            assert_eq!(turned, expected, "orientation {number}");
        }
    }
}
