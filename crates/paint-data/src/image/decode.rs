//! From the bytes of a file to RGB: JPEG, PNG, WebP, BMP.
//!
//! The content says what a file is, never its name. Grey becomes three equal channels, CMYK becomes RGB, 16 bits keep their
//! high byte, alpha is dropped and of an animation the first frame is taken, all as Pillow's `convert("RGB")` does. An
//! orientation tag is not applied, as no benchmark's reader applies it.
//!
//! A header is not believed: sizes are bounded by [`MAX_SIDE`] and [`MAX_PIXELS`], and by what the bytes that are really
//! there could encode, before anything is allocated for them.

use std::{
    fs::File,
    io::{Cursor, Read as _},
    path::Path,
};

use super::{Image, jpeg};
use crate::{Error, Result};
use image::{
    DynamicImage, ImageDecoder, Limits,
    codecs::{bmp::BmpDecoder, png::PngDecoder, webp::WebPDecoder},
};

/// The longest side of an image.
pub const MAX_SIDE: usize = 16_384;
/// The most pixels of an image (64 Mi).
pub const MAX_PIXELS: usize = 1 << 26;
/// The largest image file read (256 MiB).
const MAX_FILE: u64 = 1 << 28;

/// The most pixels one byte of a file can stand for. JPEG: half a bit for each of the 64 pixels of a block, with room for
/// subsampled planes; PNG: deflate's 1,032 to 1 at one bit a pixel; BMP: run lengths. A flat WebP has no such bound.
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

    fn pixels_per_byte(self) -> usize {
        match self {
            Self::Jpeg | Self::Bmp => 1024,
            Self::Png => 8 * 1032,
            Self::WebP => MAX_PIXELS,
        }
    }
}

impl Image {
    /// Reads an image file.
    pub fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::io(source, path);
        let file = File::open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(Error::format(
                format!("an image file of at most {MAX_FILE} bytes"),
                "more",
                path,
            ));
        }
        Self::decode(&bytes, path)
    }

    /// Decodes the bytes of an image file; `name` is what errors call it.
    pub fn decode(bytes: &[u8], name: &Path) -> Result<Self> {
        let Some(format) = Format::sniff(bytes) else {
            let start = &bytes[..bytes.len().min(8)];
            let found = if start.is_empty() {
                "an empty file".into()
            } else {
                format!("a file that starts with \"{}\"", start.escape_ascii())
            };
            return Err(Error::format("a JPEG, PNG, WebP or BMP image", found, name));
        };
        let unsound = |error: &dyn std::fmt::Display| {
            Error::format(format!("a sound {format:?} image"), error.to_string(), name)
        };
        let check =
            |width: usize, height: usize| check_size(format, width, height, bytes.len(), name);
        match format {
            Format::Jpeg => jpeg::decode(bytes, check, |error| unsound(&error)),
            Format::Png => {
                let mut limits = Limits::no_limits();
                limits.max_alloc = Some(MAX_PIXELS as u64 * 8);
                let decoder = PngDecoder::with_limits(Cursor::new(bytes), limits)
                    .map_err(|error| unsound(&error))?;
                decode_generic(decoder, check, |error| unsound(&error))
            }
            Format::WebP => {
                let decoder =
                    WebPDecoder::new(Cursor::new(bytes)).map_err(|error| unsound(&error))?;
                decode_generic(decoder, check, |error| unsound(&error))
            }
            Format::Bmp => {
                let decoder =
                    BmpDecoder::new(Cursor::new(bytes)).map_err(|error| unsound(&error))?;
                decode_generic(decoder, check, |error| unsound(&error))
            }
        }
    }
}

fn check_size(format: Format, width: usize, height: usize, len: usize, name: &Path) -> Result<()> {
    let found = || format!("{width}x{height} in the header");
    if width == 0 || height == 0 || width.max(height) > MAX_SIDE || width * height > MAX_PIXELS {
        let expected = format!("sides from 1 to {MAX_SIDE} and at most {MAX_PIXELS} pixels");
        return Err(Error::format(expected, found(), name));
    }
    if width * height > len.saturating_mul(format.pixels_per_byte()) {
        return Err(Error::format(format!("an image that {len} bytes can hold"), found(), name));
    }
    Ok(())
}

fn decode_generic(
    decoder: impl ImageDecoder,
    check: impl Fn(usize, usize) -> Result<()>,
    unsound: impl Fn(image::ImageError) -> Error,
) -> Result<Image> {
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    check(width, height)?;
    let pixels = match DynamicImage::from_decoder(decoder).map_err(unsound)? {
        DynamicImage::ImageRgb8(image) => image.into_raw(),
        DynamicImage::ImageLuma16(image) => {
            image.pixels().flat_map(|p| [high_byte(p.0[0]); 3]).collect()
        }
        DynamicImage::ImageLumaA16(image) => {
            image.pixels().flat_map(|p| [high_byte(p.0[0]); 3]).collect()
        }
        DynamicImage::ImageRgb16(image) => {
            image.pixels().flat_map(|p| p.0.map(high_byte)).collect()
        }
        DynamicImage::ImageRgba16(image) => {
            image.pixels().flat_map(|p| [p.0[0], p.0[1], p.0[2]].map(high_byte)).collect()
        }
        other => other.to_rgb8().into_raw(),
    };
    Image::new(width, height, pixels)
}

fn high_byte(value: u16) -> u8 {
    (value >> 8) as u8
}
