//! From RGB to the bytes of a file: PNG for sheets, JPEG for the ImageNet-C layout.

use std::io;

use jpeg_encoder::{ColorType, Encoder, EncodingError};

use super::Image;

impl Image {
    /// Writes a PNG.
    pub fn write_png(&self, out: impl io::Write) -> io::Result<()> {
        let mut encoder = png::Encoder::new(out, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::Fast);
        encoder.set_filter(png::Filter::Adaptive);
        let mut writer = encoder.write_header().map_err(io::Error::from)?;
        writer.write_image_data(&self.pixels).map_err(io::Error::from)?;
        writer.finish().map_err(io::Error::from)
    }

    /// Writes a JPEG of this quality (1 to 100, libjpeg's scale), with 4:2:0 chroma below 90.
    ///
    /// The standard codes are used: optimised ones would save a few per cent, but this encoder then writes one scan
    /// for each component, which is valid and yet more than some readers manage.
    pub fn write_jpeg(&self, out: impl io::Write, quality: u8) -> io::Result<()> {
        let too_large = |_| io::Error::other("a JPEG has at most 65,535 pixels a side");
        let width = u16::try_from(self.width).map_err(too_large)?;
        let height = u16::try_from(self.height).map_err(too_large)?;
        Encoder::new(out, quality).encode(&self.pixels, width, height, ColorType::Rgb).map_err(
            |error| match error {
                EncodingError::IoError(error) => error,
                other => io::Error::other(other),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn ramp(width: usize, height: usize) -> Image {
        let pixel = |i: usize| [(i % width * 5) as u8, (i / width * 4) as u8, 90];
        Image::new(width, height, (0..width * height).flat_map(pixel).collect()).unwrap()
    }

    #[test]
    fn a_png_comes_back_to_the_bit_and_a_jpeg_nearly() {
        let image = ramp(41, 23);
        let mut bytes = Vec::new();
        image.write_png(&mut bytes).unwrap();
        assert_eq!(Image::decode(&bytes, Path::new("ramp.png")).unwrap(), image);
        bytes.clear();
        image.write_jpeg(&mut bytes, 85).unwrap();
        let back = Image::decode(&bytes, Path::new("ramp.jpg")).unwrap();
        let difference: u32 =
            back.pixels().iter().zip(image.pixels()).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
        // 3 levels on average: quality 85 with halved chroma on a smooth ramp, measured 1.8.
        assert!(difference < 3 * 41 * 23 * 3, "{difference}");
    }
}
