//! From the bytes of a file to RGB: JPEG, PNG, WebP, BMP.
//!
//! The content says what a file is, never its name. Grey becomes three equal channels, CMYK becomes RGB, 16 bits keep
//! their high byte, alpha is dropped, and an animation is reduced to its first frame, all as Pillow's
//! `convert("RGB")` does. An orientation tag is not applied, because the readers of the benchmarks do not apply it;
//! [`Image::open_upright`] does.
//!
//! Headers are not trusted: before anything is allocated, sizes are checked against [`MAX_SIDE`] and [`MAX_PIXELS`],
//! and against what a file of this length could encode.

use std::{
    fmt::Display,
    fs::File,
    io::{Cursor, Read as _},
    path::Path,
};

use super::orientation::Orientation;
use super::{Image, bmp, jpeg};
use crate::{Error, Result};
use image_webp::WebPDecoder;
use png::{ColorType, Transformations};

/// The longest side of an image.
pub const MAX_SIDE: usize = 16_384;
/// The most pixels of an image (64 Mi).
pub const MAX_PIXELS: usize = 1 << 26;
/// The largest image file read (256 MiB).
const MAX_FILE: u64 = 1 << 28;
/// Pixels that any WebP file may have, however short (4 Mi).
const FREE_WEBP_PIXELS: usize = 1 << 22;

/// A format, by its first bytes.
#[derive(Debug, Clone, Copy)]
enum Format {
    Jpeg,
    Png,
    WebP,
    Bmp,
}

impl Format {
    fn sniff(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            [b'B', b'M', ..] => Some(Self::Bmp),
            _ => None,
        }
    }

    /// Its name, if it is an image after all, of a format that is not read.
    fn sniff_foreign(bytes: &[u8]) -> Option<&'static str> {
        match bytes {
            [b'G', b'I', b'F', b'8', ..] => Some("a GIF image"),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some("a TIFF image"),
            [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i', ..] => Some("a HEIC image"),
            [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', ..] => Some("an AVIF image"),
            _ => None,
        }
    }

    /// The most pixels of a file of `len` bytes: what they can stand for, or what is spent on them. JPEG: half a bit
    /// for each of the 64 pixels of a block, with room for subsampled planes; PNG: deflate's 1,032 to 1 at one bit
    /// per pixel; BMP: run lengths. A flat WebP of any size takes a few bytes, so its bound is on what so few bytes
    /// may cost.
    fn most_pixels(self, len: usize) -> usize {
        let per_byte = match self {
            Self::Jpeg | Self::Bmp => 1024,
            Self::Png => 8 * 1032,
            Self::WebP => 2048,
        };
        let free = if let Self::WebP = self { FREE_WEBP_PIXELS } else { 0 };
        len.saturating_mul(per_byte).saturating_add(free)
    }
}

impl Image {
    /// Reads an image file. Damage that decoders commonly read over, in the coded data of a JPEG, is read over.
    pub fn open(path: &Path) -> Result<Self> {
        Self::decode(&read(path)?, path)
    }

    /// The same, turned the way up that its Exif tag says.
    pub fn open_upright(path: &Path) -> Result<Self> {
        Self::decode_upright(&read(path)?, path)
    }

    /// Reads an image file and refuses it if anything in it is damaged.
    pub fn open_intact(path: &Path) -> Result<Self> {
        let bytes = read(path)?;
        let unsound = |fault: jpeg::Fault| Error::image(SOUND_JPEG, fault.to_string(), path);
        let (image, damage) = decode(&bytes, path)?;
        damage.map_or(Ok(image), |fault| Err(unsound(fault)))
    }

    /// Decodes the bytes of an image file and turns it the way up that its Exif tag says.
    pub fn decode_upright(bytes: &[u8], name: &Path) -> Result<Self> {
        Ok(Self::decode(bytes, name)?.turned(Orientation::of(bytes)))
    }

    /// Decodes the bytes of an image file; `name` is what errors call it.
    pub fn decode(bytes: &[u8], name: &Path) -> Result<Self> {
        decode(bytes, name).map(|(image, _)| image)
    }
}

const SOUND_JPEG: &str = "a sound JPEG image";

fn read(path: &Path) -> Result<Vec<u8>> {
    let io = |source| Error::io(source, path);
    let file = File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE {
        let expected = format!("an image file of at most {MAX_FILE} bytes");
        return Err(Error::image(expected, "more", path));
    }
    Ok(bytes)
}

/// The image, and the damage that was read over.
fn decode(bytes: &[u8], name: &Path) -> Result<(Image, Option<jpeg::Fault>)> {
    let Some(format) = Format::sniff(bytes) else {
        let start = &bytes[..bytes.len().min(8)];
        let found = match (start, Format::sniff_foreign(bytes)) {
            ([], _) => "an empty file".to_owned(),
            (_, Some(foreign)) => foreign.to_owned(),
            _ => format!("a file that starts with \"{}\"", start.escape_ascii()),
        };
        return Err(Error::image("a JPEG, PNG, WebP or BMP image", found, name));
    };
    let sound = match format {
        Format::Jpeg => SOUND_JPEG,
        Format::Png => "a sound PNG image",
        Format::WebP => "a sound WebP image",
        Format::Bmp => "a sound BMP image",
    };
    let unsound = |error: &dyn Display| Error::image(sound, error.to_string(), name);
    let check = |width: usize, height: usize| check_size(format, width, height, bytes.len(), name);
    let image = match format {
        Format::Jpeg => return jpeg::decode(bytes, check, unsound),
        Format::Png => decode_png(bytes, check, unsound)?,
        Format::WebP => decode_webp(bytes, check, unsound)?,
        Format::Bmp => bmp::decode(bytes, check, unsound)?,
    };
    Ok((image, None))
}

fn check_size(format: Format, width: usize, height: usize, len: usize, name: &Path) -> Result<()> {
    let found = || format!("{width}x{height} in the header");
    if width == 0 || height == 0 || width.max(height) > MAX_SIDE || width * height > MAX_PIXELS {
        let expected = format!("sides from 1 to {MAX_SIDE} and at most {MAX_PIXELS} pixels");
        return Err(Error::image(expected, found(), name));
    }
    let most = format.most_pixels(len);
    if width * height > most {
        let expected = format!("at most {most} pixels, the limit for {len} bytes");
        return Err(Error::image(expected, found(), name));
    }
    Ok(())
}

fn decode_png(
    bytes: &[u8],
    check: impl Fn(usize, usize) -> Result<()>,
    unsound: impl Fn(&dyn Display) -> Error,
) -> Result<Image> {
    let limits = png::Limits { bytes: MAX_PIXELS * 8 };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(|error| unsound(&error))?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    check(width, height)?;
    let size = reader.output_buffer_size().ok_or_else(|| unsound(&"too many bytes"))?;
    let mut pixels = vec![0; size];
    let frame = reader.next_frame(&mut pixels).map_err(|error| unsound(&error))?;
    pixels.truncate(frame.buffer_size());
    let pixels = match frame.color_type {
        ColorType::Rgb => pixels,
        ColorType::Rgba => without_alpha(&pixels),
        ColorType::Grayscale => pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
        ColorType::GrayscaleAlpha => {
            pixels.as_chunks::<2>().0.iter().flat_map(|&[grey, _]| [grey; 3]).collect()
        }
        ColorType::Indexed => return Err(unsound(&"a palette that was not applied")),
    };
    Image::new(width, height, pixels)
}

fn decode_webp(
    bytes: &[u8],
    check: impl Fn(usize, usize) -> Result<()>,
    unsound: impl Fn(&dyn Display) -> Error,
) -> Result<Image> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(|error| unsound(&error))?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    check(width, height)?;
    let size = decoder.output_buffer_size().ok_or_else(|| unsound(&"too many bytes"))?;
    let mut pixels = vec![0; size];
    decoder.read_image(&mut pixels).map_err(|error| unsound(&error))?;
    let pixels = if decoder.has_alpha() { without_alpha(&pixels) } else { pixels };
    Image::new(width, height, pixels)
}

fn without_alpha(rgba: &[u8]) -> Vec<u8> {
    rgba.as_chunks::<4>().0.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect()
}
