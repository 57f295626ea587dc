//! Affine map, blur, crop and flip of a view.
//!
//! The frame is the image with its padding. Neither padding nor frame is stored: the affine map is evaluated where the
//! cropped and blurred result needs it, at the pixels of the image and two around it.

use super::{Padding, View};

/// The blur reaches two pixels to each side.
const REACH: usize = 2;

/// Transforms an image `[3, H, W]` in place.
pub(super) fn transform(view: &View, image: &mut [f32], [h, w]: [usize; 2]) {
    let kernel = blur_kernel(view.blur_sigma);
    let positions = sample_positions(view, [h, w]);
    for plane in image.chunks_mut((h * w).max(1)) {
        let warped: Vec<f32> =
            positions.iter().map(|&[u, v]| sample(plane, [h, w], view.padding, u, v)).collect();
        let blurred = blur(&warped, [h, w], &kernel);
        for (out, row) in plane.chunks_mut(w).zip(blurred.chunks(w)) {
            out.copy_from_slice(row);
            if view.flip {
                out.reverse();
            }
        }
    }
}

/// Width of the padding on each side.
fn padding(padding: Padding, side: usize) -> usize {
    match padding {
        Padding::None => 0,
        Padding::Edge => side / 2,
    }
}

/// Where in the frame each pixel of the crop, widened by the reach of the blur, comes from: `(u, v)` by row.
///
/// With the centre `c` of the frame, `d = (x, y) − c − shift` and the angle `a`: `u = (cos a · dx + sin a · dy) / scale +
/// c_x`, `v = (−sin a · dx + cos a · dy) / scale + c_y`. Beyond the frame the blur sees its mirror image.
fn sample_positions(view: &View, [h, w]: [usize; 2]) -> Vec<[f32; 2]> {
    let (pad_y, pad_x) = (padding(view.padding, h), padding(view.padding, w));
    let (frame_h, frame_w) = (h + 2 * pad_y, w + 2 * pad_x);
    let (cx, cy) = ((frame_w as f64 - 1.0) / 2.0, (frame_h as f64 - 1.0) / 2.0);
    let angle = f64::from(view.angle).to_radians();
    let (sin, cos) = (angle.sin() / f64::from(view.scale), angle.cos() / f64::from(view.scale));
    let [tx, ty] = view.shift.map(f64::from);
    let mut positions = Vec::with_capacity((h + 2 * REACH) * (w + 2 * REACH));
    for row in 0..h + 2 * REACH {
        let dy = mirror((row + pad_y) as isize - REACH as isize, frame_h) as f64 - cy - ty;
        for column in 0..w + 2 * REACH {
            let dx = mirror((column + pad_x) as isize - REACH as isize, frame_w) as f64 - cx - tx;
            positions.push([(cos * dx + sin * dy + cx) as f32, (-sin * dx + cos * dy + cy) as f32]);
        }
    }
    positions
}

/// The index inside `0..n` that a reflection at the edge pixels leads to.
fn mirror(i: isize, n: usize) -> usize {
    let last = n as isize - 1;
    let i = i.abs();
    (if i > last { 2 * last - i } else { i }).clamp(0, last.max(0)) as usize
}

/// Bilinear, in frame coordinates; a neighbour outside the frame counts as zero.
fn sample(plane: &[f32], [h, w]: [usize; 2], pad: Padding, u: f32, v: f32) -> f32 {
    let (pad_y, pad_x) = (padding(pad, h) as isize, padding(pad, w) as isize);
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

fn blur_kernel(sigma: f32) -> [f32; 2 * REACH + 1] {
    let weight = |i: usize| {
        let x = i as f64 - REACH as f64;
        (-0.5 * (x / f64::from(sigma)).powi(2)).exp()
    };
    let total: f64 = (0..=2 * REACH).map(weight).sum();
    std::array::from_fn(|i| (weight(i) / total) as f32)
}

/// `[H + 4, W + 4]` → `[H, W]`, rows first, then columns.
fn blur(wide: &[f32], [h, w]: [usize; 2], kernel: &[f32; 2 * REACH + 1]) -> Vec<f32> {
    let dot = |values: &mut dyn Iterator<Item = f32>| -> f32 {
        kernel.iter().zip(values).map(|(k, x)| k * x).sum()
    };
    let rows: Vec<f32> = wide
        .chunks(w + 2 * REACH)
        .flat_map(|row| row.windows(2 * REACH + 1).map(|window| dot(&mut window.iter().copied())))
        .collect();
    (0..h * w).map(|at| dot(&mut rows[at..].iter().step_by(w).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_does_not_repeat_the_edge() {
        let seen: Vec<usize> = (-2..6).map(|i| mirror(i, 4)).collect();
        assert_eq!(seen, [2, 1, 0, 1, 2, 3, 2, 1]);
        assert_eq!([mirror(-2, 1), mirror(2, 1)], [0, 0]);
    }

    #[test]
    fn a_narrow_blur_keeps_the_image_and_a_wide_one_its_mean() {
        assert_eq!(blur_kernel(0.001), [0.0, 0.0, 1.0, 0.0, 0.0]);
        let kernel = blur_kernel(0.5);
        assert!((kernel.iter().sum::<f32>() - 1.0).abs() < 1e-6 && kernel[1] > 0.1);
    }
}
