//! JPEG decoding, close to libjpeg-turbo's pixels.
//!
//! Two decoders share the work. `zune-jpeg` is as fast as libjpeg-turbo and within a grey level of it, but version 0.5.15
//! decodes two kinds of valid file to garbage without a word: sequential files with one scan for each component, and
//! subsampling by four. Those go to `jpeg-decoder`, which is slower and gets them right.

use std::fmt::Display;

use jpeg_decoder::PixelFormat;
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

use super::{Image, MAX_SIDE};
use crate::{Error, Result};

/// Decodes a JPEG; `check` sees width and height before anything is allocated for them.
pub(super) fn decode(
    bytes: &[u8],
    check: impl Fn(usize, usize) -> Result<()>,
    unsound: impl Fn(&dyn Display) -> Error,
) -> Result<Image> {
    let header = Header::read(bytes).ok_or_else(|| unsound(&"no frame and scan header"))?;
    check(header.width, header.height)?;
    let pixels = if header.is_common() {
        // Strict: a file that ends early is an error, not a half-grey image.
        let options = DecoderOptions::default()
            .jpeg_set_out_colorspace(ColorSpace::RGB)
            .set_strict_mode(true)
            .set_max_width(MAX_SIDE)
            .set_max_height(MAX_SIDE);
        JpegDecoder::new_with_options(ZCursor::new(bytes), options)
            .decode()
            .map_err(|error| unsound(&error))?
    } else {
        let mut decoder = jpeg_decoder::Decoder::new(bytes);
        let pixels = decoder.decode().map_err(|error| unsound(&error))?;
        match decoder.info().map(|info| info.pixel_format) {
            Some(PixelFormat::RGB24) => pixels,
            Some(PixelFormat::L8) => pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
            other => return Err(unsound(&format!("the rare pixel format {other:?}"))),
        }
    };
    if pixels.len() != header.width * header.height * 3 {
        return Err(unsound(&"more than one frame header"));
    }
    Image::new(header.width, header.height, pixels)
}

/// What the markers up to the first scan say.
struct Header {
    width: usize,
    height: usize,
    progressive: bool,
    /// Horizontal and vertical sampling factors of each component.
    sampling: Vec<(u8, u8)>,
    /// Components in the first scan.
    scan_components: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.get(2..)?;
        let mut frame: Option<Self> = None;
        loop {
            // A marker is any number of 0xff, then its code; junk before it is skipped, as every decoder does.
            let at =
                rest.windows(2).position(|pair| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff))?;
            let code = rest[at + 1];
            rest = &rest[at + 2..];
            if matches!(code, 0x01 | 0xd0..=0xd8) {
                continue;
            }
            let length = usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]));
            let body = rest.get(2..length)?;
            match code {
                // SOF0 to SOF2; the lossless, hierarchical and arithmetic kinds are refused by the decoder.
                0xc0..=0xc2 => frame = Some(Self::frame(body, code == 0xc2)?),
                0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf | 0xd9 => return None,
                0xda => {
                    return frame.map(|frame| Self {
                        scan_components: body.first().copied().map_or(0, usize::from),
                        ..frame
                    });
                }
                _ => {}
            }
            rest = rest.get(length..)?;
        }
    }

    fn frame(body: &[u8], progressive: bool) -> Option<Self> {
        let &[_precision, h1, h0, w1, w0, components, ref rest @ ..] = body else { return None };
        let sampling = rest
            .chunks_exact(3)
            .take(usize::from(components))
            .map(|c| (c[1] >> 4, c[1] & 15))
            .collect();
        Some(Self {
            width: usize::from(u16::from_be_bytes([w1, w0])),
            height: usize::from(u16::from_be_bytes([h1, h0])),
            progressive,
            sampling,
            scan_components: 0,
        })
    }

    /// True for the files that the fast decoder was measured to decode right.
    fn is_common(&self) -> bool {
        let interleaved = self.progressive || self.scan_components == self.sampling.len();
        interleaved && self.sampling.iter().all(|&(h, v)| h <= 2 && v <= 2)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

    use super::*;

    /// Mean difference between a smooth image and its JPEG of this kind.
    fn round_trip(sampling: SamplingFactor, separate_scans: bool) -> (bool, f64) {
        let (width, height) = (90, 70);
        let pixel = |i: usize| [(i % width * 2) as u8, (i / width * 3) as u8, 90];
        let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 95);
        encoder.set_sampling_factor(sampling);
        // This encoder writes one scan for each component when it optimises its codes.
        encoder.set_optimized_huffman_tables(separate_scans);
        encoder.encode(&pixels, width as u16, height as u16, ColorType::Rgb).unwrap();
        let image = Image::decode(&bytes, Path::new("test.jpg")).unwrap();
        let sum: u64 =
            image.pixels().iter().zip(&pixels).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
        (Header::read(&bytes).unwrap().is_common(), sum as f64 / pixels.len() as f64)
    }

    #[test]
    fn files_that_the_fast_decoder_gets_wrong_take_the_other_path() {
        use SamplingFactor::{F_1_1, F_1_2, F_2_1, F_2_2, F_4_1, F_4_2};
        for (sampling, separate_scans, common) in [
            (F_1_1, false, true),
            (F_2_1, false, true),
            (F_1_2, false, true),
            (F_2_2, false, true),
            (F_2_2, true, false),
            (F_2_1, true, false),
            (F_4_1, false, false),
            (F_4_2, false, false),
        ] {
            let (is_common, difference) = round_trip(sampling, separate_scans);
            assert_eq!(is_common, common, "{sampling:?}");
            // Measured: 1.54 at most on the right path, 86 where the fast decoder fails.
            assert!(difference < 3.0, "{sampling:?} {separate_scans}: {difference}");
        }
    }
}
