//! What JPEG compression does to pixels, without the file.
//!
//! Huffman coding loses nothing, so the round trip is: RGB to YCbCr, chroma halved in both directions, cosine
//! transform, quantisation, and back, with libjpeg's integers (accurate transform, smooth chroma interpolation), as
//! Pillow saves and opens by default.

use super::byte::truncate;
use super::grid::Grid;
use crate::image::jpeg::{
    colour::{Colour, assemble, to_ycc},
    dct::{Blocks, LANES, forward, inverse},
    plane::Plane,
    upsample::Enlarge,
};
use crate::simd::wide;

/// The quantisation tables of the standard (ITU-T T.81, Annex K), row by row: luma and chroma.
const LUMA: [u16; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];
const CHROMA: [u16; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// The steps of quantisation, scaled to a quality of 1 to 100 as libjpeg does.
fn steps(table: &[u16; 64], quality: u32) -> [i32; 64] {
    let percent = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
    table.map(|step| ((u32::from(step) * percent + 50) / 100).clamp(1, 255) as i32)
}

/// Compresses and decompresses three-channel bytes.
pub(super) fn round_trip(rgb: &[u8], grid: Grid, quality: u32) -> Vec<u8> {
    let (mut y, mut chroma) = split(rgb, grid);
    compress(&mut y, &steps(&LUMA, quality));
    for plane in &mut chroma {
        compress(plane, &steps(&CHROMA, quality));
    }
    let halved = Enlarge::new((1, 2), (1, 2), chroma[0].width).expect("one divides two");
    let parts = [(&y, Enlarge::Not), (&chroma[0], halved), (&chroma[1], halved)];
    assemble(&parts, Colour::YCbCr, (grid.width, grid.height))
}

wide! {
    /// Luma, and chroma of half the size; their rows are filled up to whole blocks.
    fn split<'a>(rgb: &'a [u8], grid: Grid) -> (Plane, [Plane; 2]) {
        let Grid { height, width, .. } = grid;
        let (half_height, half_width) = (height.div_ceil(2), width.div_ceil(2));
        let mut y = plane(height, width);
        // Chroma is halved from columns repeated up to the block edge, but from rows only up to an even number.
        let mut chroma = [plane(half_height, half_width), plane(half_height, half_width)];
        let mut lines = [(); 2].map(|()| [(); 2].map(|()| vec![0; 2 * chroma[0].stride]));
        for row in 0..half_height {
            for (k, [cb, cr]) in lines.iter_mut().enumerate() {
                let source = (2 * row + k).min(height - 1);
                let pixels = rgb[source * grid.stride()..(source + 1) * grid.stride()].as_chunks::<3>().0;
                let luma = &mut y.data[source * y.stride..(source + 1) * y.stride];
                for (((pixel, y), cb), cr) in pixels.iter().zip(&mut *luma).zip(&mut *cb).zip(&mut *cr) {
                    [*y, *cb, *cr] = to_ycc(*pixel);
                }
                for line in [luma, cb, cr] {
                    let last = line[width - 1];
                    line[width..].fill(last);
                }
            }
            for (component, plane) in chroma.iter_mut().enumerate() {
                let (above, below) = (lines[0][component].as_chunks::<2>().0, lines[1][component].as_chunks::<2>().0);
                let out = &mut plane.data[row * plane.stride..(row + 1) * plane.stride];
                for (x, ((out, a), b)) in out.iter_mut().zip(above).zip(below).enumerate() {
                    let sum = a.iter().chain(b).map(|&value| u32::from(value)).sum::<u32>();
                    // The rounding alternates between 1/4 and 2/4 from column to column.
                    *out = ((sum + 1 + (x as u32 & 1)) >> 2) as u8;
                }
            }
        }
        (y, chroma)
    }
}

/// A component, its rows as long as whole blocks.
fn plane(height: usize, width: usize) -> Plane {
    Plane::with_stride((width, height), width.next_multiple_of(8), height.next_multiple_of(8))
}

/// Repeats the last row down to whole blocks; the rows are already as long.
fn repeat_last_row(plane: &mut Plane) {
    let (real, padding) = plane.data.split_at_mut(plane.height * plane.stride);
    for row in padding.chunks_exact_mut(plane.stride) {
        row.copy_from_slice(&real[real.len() - plane.stride..]);
    }
}

wide! {
    /// Quantises every block in place, eight at a time.
    fn compress<'a>(plane: &'a mut Plane, steps: &'a [i32; 64]) -> () {
        repeat_last_row(plane);
        let stride = plane.stride;
        let inverse_steps = steps.map(|step| 1.0 / (8 * step) as f32);
        let mut blocks: Blocks = [[0; LANES]; 64];
        for band in plane.data.chunks_exact_mut(8 * stride) {
            for start in (0..stride).step_by(8 * LANES) {
                let end = (start + 8 * LANES).min(stride);
                for (line, row) in band.chunks_exact(stride).zip(blocks.as_chunks_mut::<8>().0) {
                    for (lane, values) in line[start..end].as_chunks::<8>().0.iter().enumerate() {
                        for x in 0..8 {
                            row[x][lane] = i32::from(values[x]) - 128;
                        }
                    }
                }
                forward(&mut blocks);
                quantise(&mut blocks, steps, &inverse_steps);
                inverse(&mut blocks);
                for (line, row) in band.chunks_exact_mut(stride).zip(blocks.as_chunks::<8>().0) {
                    for (lane, values) in line[start..end].as_chunks_mut::<8>().0.iter_mut().enumerate() {
                        for x in 0..8 {
                            values[x] = (row[x][lane] + 128).clamp(0, 255) as u8;
                        }
                    }
                }
            }
        }
    }
}

/// Rounds coefficients, given eight-fold, to the nearest multiple of their step, halves away from zero.
#[inline(always)]
fn quantise(blocks: &mut Blocks, steps: &[i32; 64], inverse_steps: &[f32; 64]) {
    for ((lanes, &step), &inverse_step) in blocks.iter_mut().zip(steps).zip(inverse_steps) {
        for value in lanes {
            // Whole numbers plus a half are never near a multiple of the step, so the product truncates as a division.
            let magnitude = (value.abs() + 4 * step) as f32 + 0.5;
            let level = truncate(magnitude * inverse_step).cast_signed() * step;
            *value = if *value < 0 { -level } else { level };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_scale_with_quality_as_in_libjpeg() {
        assert_eq!(steps(&LUMA, 50)[..3], [16, 11, 10]);
        assert_eq!(steps(&LUMA, 100), [1; 64]);
        assert_eq!(steps(&LUMA, 7)[..3], [114, 79, 71]);
        assert_eq!(steps(&CHROMA, 10)[4], 255);
    }

    #[test]
    fn a_grey_image_survives_any_quality_at_any_size() {
        for (height, width) in [(1, 1), (2, 5), (17, 9), (16, 33)] {
            let grid = Grid { height, width, channels: 3 };
            let image = vec![128; grid.len()];
            assert_eq!(round_trip(&image, grid, 7), image, "{height}x{width}");
        }
    }
}
