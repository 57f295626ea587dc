//! 8-bit RGB images: decode, resize, crop, encode.

mod bmp;
mod decode;
mod encode;
pub(crate) mod jpeg;
mod orientation;
mod preprocess;
mod resize;

pub use decode::{MAX_PIXELS, MAX_SIDE};
pub use preprocess::{Preprocess, Step};
pub use resize::Filter;

use crate::simd::wide;
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

    /// The `width` x `height` middle. Where the margin is odd the corner falls on the even pixel, as in torchvision.
    pub fn centre_crop(&self, width: usize, height: usize) -> Result<Self> {
        if width == 0 || height == 0 || width > self.width || height > self.height {
            return Err(Error::Argument {
                what: "centre crop",
                expected: format!(
                    "at most {}x{} (height x width), both sides positive",
                    self.height, self.width
                ),
                got: format!("{height}x{width}"),
            });
        }
        let corner =
            |outer: usize, inner: usize| ((outer - inner) as f64 / 2.0).round_ties_even() as usize;
        let (left, top) = (corner(self.width, width), corner(self.height, height));
        let mut pixels = Vec::with_capacity(width * height * 3);
        for row in self.pixels.chunks_exact(self.width * 3).skip(top).take(height) {
            pixels.extend_from_slice(&row[left * 3..(left + width) * 3]);
        }
        Self::new(width, height, pixels)
    }

    /// Writes `[3, H, W]` in `[0, 1]` (each byte divided by 255) into `out`.
    ///
    /// # Panics
    /// If `out` is not `3 * H * W` long.
    pub fn to_chw(&self, out: &mut [f32]) {
        assert_eq!(out.len(), self.pixels.len(), "the output has one float for each byte");
        planes(&self.pixels, out);
    }
}

wide! {
    /// Bytes `[N, 3]` as planes `[3, N]`, each byte divided by 255.
    fn planes<'a>(pixels: &'a [u8], out: &'a mut [f32]) -> () {
        for (channel, out) in out.chunks_exact_mut(pixels.len() / 3).enumerate() {
            for (out, pixel) in out.iter_mut().zip(pixels.chunks_exact(3)) {
                *out = f32::from(pixel[channel]) / 255.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pixel `(x, y)` is `(x, y, 7)`.
    fn coordinates(width: usize, height: usize) -> Image {
        let pixels =
            (0..width * height).flat_map(|i| [(i % width) as u8, (i / width) as u8, 7]).collect();
        Image::new(width, height, pixels).unwrap()
    }

    #[test]
    fn planes_follow_each_other_and_white_is_one() {
        let image = Image::new(2, 1, vec![0, 51, 255, 255, 102, 0]).unwrap();
        let mut out = [0.0; 6];
        image.to_chw(&mut out);
        assert_eq!(out, [0.0, 1.0, 0.2, 0.4, 1.0, 0.0]);
    }

    #[test]
    fn a_centre_crop_rounds_half_margins_to_even() {
        // Margins 7 - 4 = 3 (half: 1.5, to 2) and 6 - 5 = 1 (half: 0.5, to 0).
        let crop = coordinates(7, 6).centre_crop(4, 5).unwrap();
        assert_eq!((crop.width(), crop.height()), (4, 5));
        assert_eq!(crop.pixels()[..3], [2, 0, 7]);
        assert_eq!(crop.pixels()[crop.pixels().len() - 3..], [5, 4, 7]);
    }

    #[test]
    fn a_crop_beyond_the_image_is_refused() {
        assert!(coordinates(7, 6).centre_crop(8, 5).is_err());
        assert!(coordinates(7, 6).centre_crop(0, 5).is_err());
    }
}
