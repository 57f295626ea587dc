//! Small copies of images for the page.

use paint_data::Image;
use paint_data::image::Filter;

/// The longest side.
const SIDE: usize = 64;

/// The first image of a batch `[B, 3, H, W]` in [0, 1], flat, as a PNG of at most 64 pixels a side; none if that fails.
pub(crate) fn png(pixels: &[f32], [height, width]: [usize; 2]) -> Option<Vec<u8>> {
    let plane = height * width;
    let first = pixels.get(..3 * plane)?;
    let byte = |value: f32| (value * 255.0).round().clamp(0.0, 255.0) as u8;
    let bytes = (0..plane).flat_map(|at| [0, 1, 2].map(|c| byte(first[c * plane + at]))).collect();
    let mut image = Image::new(width, height, bytes).ok()?;
    let longest = height.max(width);
    if longest > SIDE {
        let side = |side: usize| (side * SIDE / longest).max(1);
        image = image.resize(side(width), side(height), Filter::Bilinear).ok()?;
    }
    let mut png = Vec::new();
    image.write_png(&mut png).ok()?;
    Some(png)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_thumbnail_keeps_its_proportions() {
        let png = png(&vec![0.5; 3 * 100 * 200], [100, 200]).unwrap();
        let image = Image::decode(&png, Path::new("thumbnail")).unwrap();
        assert_eq!((image.width(), image.height()), (64, 32));
        assert!(image.pixels().iter().all(|pixel| (127..=128).contains(pixel)));
        assert!(super::png(&[0.5; 3], [2, 2]).is_none());
    }
}
