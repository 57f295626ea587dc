//! 8-bit RGB images: decode, resize, crop.

use crate::{Error, Result};

/// An 8-bit RGB image, row-major, channels last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Image {
    /// An image from its pixels, `[H, W, 3]`.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self> {
        if width == 0 || height == 0 || pixels.len() != width * height * 3 {
            return Err(Error::Argument {
                what: "image pixels",
                expected: format!("{height}x{width}x3 bytes, both sides positive"),
                got: format!("{} bytes", pixels.len()),
            });
        }
        Ok(Self { width, height, pixels })
    }

    /// Pixels per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The bytes, `[H, W, 3]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The bytes, `[H, W, 3]`, consuming the image.
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }
}
