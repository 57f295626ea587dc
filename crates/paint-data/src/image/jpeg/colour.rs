//! Colour spaces, in the sixteen-bit fixed point of libjpeg.

use super::plane::Plane;
use super::tables::Tables;
use super::upsample::Enlarge;
use crate::simd::wide;

/// What the components are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// One component.
    Grey,
    /// Red, green, blue as they are.
    Rgb,
    /// Luma and two differences.
    YCbCr,
    /// Printing inks, inverted, as Adobe writes and every reader expects them.
    Cmyk,
    /// The same with the first three as luma and differences.
    Ycck,
}

impl Colour {
    /// By libjpeg's rules: JFIF is always `YCbCr`, an Adobe marker says, and otherwise only components named R, G, B
    /// are that.
    pub(super) fn of(tables: &Tables, ids: &[u8]) -> Self {
        match (ids.len(), tables.adobe) {
            (1, _) => Self::Grey,
            (4, None | Some(0)) => Self::Cmyk,
            (4, Some(_)) => Self::Ycck,
            _ if tables.jfif => Self::YCbCr,
            (_, Some(0)) => Self::Rgb,
            (_, None) if ids == b"RGB" => Self::Rgb,
            _ => Self::YCbCr,
        }
    }
}

/// Luma and differences of a pixel.
#[inline(always)]
pub(crate) fn to_ycc(rgb: [u8; 3]) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    const CENTRE: i32 = (128 << 16) + HALF - 1;
    let [r, g, b] = rgb.map(i32::from);
    [
        ((19595 * r + 38470 * g + 7471 * b + HALF) >> 16) as u8,
        ((-11059 * r - 21709 * g + 32768 * b + CENTRE) >> 16) as u8,
        ((32768 * r - 27439 * g - 5329 * b + CENTRE) >> 16) as u8,
    ]
}

#[inline(always)]
fn to_rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    [
        y + ((91881 * cr + HALF) >> 16),
        y + ((-22554 * cb - 46802 * cr + HALF) >> 16),
        y + ((116_130 * cb + HALF) >> 16),
    ]
    .map(|value| value.clamp(0, 255) as u8)
}

/// A pixel under ink: `light` is what black lets through, and each colour takes its share of it, rounded as in Pillow.
#[inline(always)]
fn under_ink(inks: [u8; 3], light: u8) -> [u8; 3] {
    inks.map(|ink| {
        let product = u32::from(ink) * u32::from(light) + 128;
        light.saturating_sub(((product + (product >> 8)) >> 8) as u8)
    })
}

wide! {
    /// The image of these components, `[H, W, 3]`.
    pub(crate) fn assemble<'a>(parts: &'a [(&'a Plane, Enlarge)], colour: Colour, size: (usize, usize)) -> Vec<u8> {
        let (width, height) = size;
        let mut pixels = vec![0; width * height * 3];
        let mut lines = [const { Vec::new() }; 4];
        let mut sums = Vec::new();
        for (y, out) in pixels.chunks_exact_mut(width * 3).enumerate() {
            let mut rows: [&[u8]; 4] = [&[]; 4];
            for ((row, line), (plane, enlarge)) in rows.iter_mut().zip(&mut lines).zip(parts) {
                *row = &enlarge.row(plane, y, line, &mut sums)[..width];
            }
            let out = out.as_chunks_mut::<3>().0;
            let [a, b, c, d] = rows;
            match colour {
                Colour::Grey => {
                    for (out, &grey) in out.iter_mut().zip(a) {
                        *out = [grey; 3];
                    }
                }
                Colour::Rgb => {
                    for (((out, &r), &g), &b) in out.iter_mut().zip(a).zip(b).zip(c) {
                        *out = [r, g, b];
                    }
                }
                Colour::YCbCr => {
                    for (((out, &y), &cb), &cr) in out.iter_mut().zip(a).zip(b).zip(c) {
                        *out = to_rgb(y, cb, cr);
                    }
                }
                Colour::Cmyk => {
                    for ((((out, &c), &m), &y), &k) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                        *out = under_ink([!c, !m, !y], k);
                    }
                }
                Colour::Ycck => {
                    for ((((out, &y), &cb), &cr), &k) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                        *out = under_ink(to_rgb(y, cb, cr), k);
                    }
                }
            }
        }
        pixels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colour_space_follows_the_markers() {
        let cases = [
            (false, None, &b"\x01"[..], Colour::Grey),
            (false, None, b"\x01\x02\x03", Colour::YCbCr),
            (false, None, b"RGB", Colour::Rgb),
            (true, None, b"RGB", Colour::YCbCr),
            (false, Some(0), b"\x01\x02\x03", Colour::Rgb),
            (false, Some(1), b"RGB", Colour::YCbCr),
            (true, Some(0), b"\x01\x02\x03", Colour::YCbCr),
            (false, None, b"\x01\x02\x03\x04", Colour::Cmyk),
            (false, Some(2), b"\x01\x02\x03\x04", Colour::Ycck),
        ];
        for (jfif, adobe, ids, expected) in cases {
            let tables = Tables { jfif, adobe, ..Tables::default() };
            assert_eq!(Colour::of(&tables, ids), expected, "{ids:?}");
        }
    }

    #[test]
    fn greys_keep_their_level_and_primaries_come_back() {
        for level in 0..=255 {
            assert_eq!(to_ycc([level; 3]), [level, 128, 128]);
            assert_eq!(to_rgb(level, 128, 128), [level; 3]);
        }
        for pixel in [[255, 0, 0], [0, 255, 0], [0, 0, 255]] {
            let [y, cb, cr] = to_ycc(pixel);
            for (back, value) in to_rgb(y, cb, cr).into_iter().zip(pixel) {
                assert!(back.abs_diff(value) <= 1);
            }
        }
    }

    #[test]
    fn black_ink_takes_all_light_and_no_ink_none() {
        assert_eq!(under_ink([0, 100, 255], 255), [255, 155, 0]);
        assert_eq!(under_ink([0, 100, 255], 0), [0; 3]);
    }
}
