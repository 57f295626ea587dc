//! Augmented looks, one task for each image of a look.
//!
//! The widened image is not stored: the map is evaluated where the cropped and blurred result needs it, at the pixels
//! of the image and two around it.

mod color;

use super::parallel::for_rows;
use crate::op::distort::{BLUR_TAPS, Distortion, Noise};

/// How many pixels the blur reaches to each side.
const REACH: usize = BLUR_TAPS / 2;

/// `images` are planes of `[h, w]`, three per image; `out` holds all images of the first look, then of the second.
pub(super) fn distort(
    images: &[f32],
    [h, w]: [usize; 2],
    looks: &[Distortion],
    noise: Noise,
    out: &mut [f32],
) {
    let one = 3 * h * w;
    let each = images.len();
    for_rows(out, one, |first, out| {
        for (number, image) in (first..).zip(out.chunks_exact_mut(one)) {
            let start = number * one;
            let (look, from) = (&looks[start / each], start % each);
            for (to, from) in image.iter_mut().zip(&images[from..from + one]) {
                *to = from.clamp(0.0, 1.0);
            }
            for (op, f) in look.colors {
                color::apply(op, image, f);
            }
            transform(look, image, [h, w]);
            for (place, x) in image.iter_mut().enumerate() {
                let noise = match noise {
                    Noise::Given(values) => values[start + place],
                    Noise::Normal(std) => std * normal(look.seed, (from + place) as u64),
                };
                *x = (*x + noise).clamp(0.0, 1.0);
            }
        }
    });
}

/// A number from N(0, 1) that depends on `seed` and `place` alone (Box and Muller's transform of a mixed counter).
fn normal(seed: u64, place: u64) -> f32 {
    const UNIT: f32 = 1.0 / (1 << 24) as f32;
    let mut x = seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let radius = (-2.0 * (((x >> 40) + 1) as f32 * UNIT).ln()).sqrt();
    let turn = ((x & 0xff_ffff) as f32 * UNIT) * std::f32::consts::TAU;
    radius * turn.cos()
}

/// Map, blur, crop and flip of an image `[3, h, w]` in place.
fn transform(look: &Distortion, image: &mut [f32], [h, w]: [usize; 2]) {
    let positions = sample_positions(look, [h, w]);
    for plane in image.chunks_mut(h * w) {
        let warped: Vec<f32> =
            positions.iter().map(|&at| sample(plane, [h, w], look.pad, at)).collect();
        let blurred = blur(&warped, [h, w], &look.blur);
        for (out, row) in plane.chunks_mut(w).zip(blurred.chunks(w)) {
            out.copy_from_slice(row);
            if look.flip {
                out.reverse();
            }
        }
    }
}

/// Where in the widened image each pixel of the crop, and of the reach of the blur around it, comes from.
fn sample_positions(look: &Distortion, [h, w]: [usize; 2]) -> Vec<[f32; 2]> {
    let [pad_y, pad_x] = look.pad;
    let [a, b, c, d, e, f] = look.matrix;
    let mut positions = Vec::with_capacity((h + 2 * REACH) * (w + 2 * REACH));
    for row in 0..h + 2 * REACH {
        let y = mirror((row + pad_y) as isize - REACH as isize, h + 2 * pad_y) as f64;
        for column in 0..w + 2 * REACH {
            let x = mirror((column + pad_x) as isize - REACH as isize, w + 2 * pad_x) as f64;
            positions.push([(a * x + b * y + c) as f32, (d * x + e * y + f) as f32]);
        }
    }
    positions
}

/// The index inside `0..n` that a reflection at the edge pixels leads to.
fn mirror(i: isize, n: usize) -> usize {
    let last = n as isize - 1;
    let i = i.abs();
    (if i > last { 2 * last - i } else { i }).clamp(0, last) as usize
}

/// Bilinear, at column `u` and row `v` of the widened image; a neighbour outside it counts as zero.
fn sample(plane: &[f32], [h, w]: [usize; 2], pad: [usize; 2], [u, v]: [f32; 2]) -> f32 {
    let [pad_y, pad_x] = pad.map(|pad| pad as isize);
    let pixel = |x: isize, y: isize| {
        if x < 0 || y < 0 || x >= w as isize + 2 * pad_x || y >= h as isize + 2 * pad_y {
            return 0.0;
        }
        let x = (x - pad_x).clamp(0, w as isize - 1) as usize;
        let y = (y - pad_y).clamp(0, h as isize - 1) as usize;
        plane[y * w + x]
    };
    let (x, y) = (u.floor() as isize, v.floor() as isize);
    let (fx, fy) = (u - u.floor(), v - v.floor());
    let top = (1.0 - fx) * pixel(x, y) + fx * pixel(x + 1, y);
    let low = (1.0 - fx) * pixel(x, y + 1) + fx * pixel(x + 1, y + 1);
    (1.0 - fy) * top + fy * low
}

/// `[H + 4, W + 4]` → `[H, W]`, rows first, then columns.
fn blur(wide: &[f32], [h, w]: [usize; 2], kernel: &[f32; BLUR_TAPS]) -> Vec<f32> {
    let dot = |values: &mut dyn Iterator<Item = f32>| -> f32 {
        kernel.iter().zip(values).map(|(k, x)| k * x).sum()
    };
    let rows: Vec<f32> = wide
        .chunks(w + 2 * REACH)
        .flat_map(|row| row.windows(BLUR_TAPS).map(|window| dot(&mut window.iter().copied())))
        .collect();
    (0..h * w).map(|at| dot(&mut rows[at..].iter().step_by(w).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_does_not_repeat_the_edge() {
        let mirrored: Vec<usize> = (-2..6).map(|i| mirror(i, 4)).collect();
        assert_eq!(mirrored, [2, 1, 0, 1, 2, 3, 2, 1]);
        assert_eq!([mirror(-2, 1), mirror(2, 1)], [0, 0]);
    }

    #[test]
    fn the_noise_of_a_seed_is_standard_normal_and_independent_of_other_seeds() {
        let draw = |seed| (0..20_000).map(move |place| f64::from(normal(seed, place)));
        let mean = draw(7).sum::<f64>() / 2e4;
        let variance = draw(7).map(|x| x * x).sum::<f64>() / 2e4;
        // Four standard errors of a mean and of a variance over 20,000 draws.
        assert!(mean.abs() < 0.028 && (variance - 1.0).abs() < 0.04, "{mean} {variance}");
        let tail = draw(7).filter(|x| x.abs() > 1.96).count() as f64 / 2e4;
        assert!((tail - 0.05).abs() < 0.006, "{tail}");
        let product = draw(7).zip(draw(8)).map(|(a, b)| a * b).sum::<f64>() / 2e4;
        assert!(product.abs() < 0.028, "{product}");
    }
}
