//! Digital corruptions: colours, resampling and compression. (Brightness counts as weather in the benchmark.)

use paint_rng::Rng;

use super::byte::to_byte;
use super::grid::{Border, Grid};
use super::hsv::Hsv;
use super::{Corruption, Group, Level, box_resize, gaussian, jpeg, warp};
use crate::Image;

pub(super) const BRIGHTNESS: Corruption = Corruption {
    name: "brightness",
    group: Group::Weather,
    held_out: false,
    random: false,
    recipe: brightness,
};

pub(super) const CONTRAST: Corruption = Corruption {
    name: "contrast",
    group: Group::Digital,
    held_out: false,
    random: false,
    recipe: contrast,
};

pub(super) const ELASTIC_TRANSFORM: Corruption = Corruption {
    name: "elastic_transform",
    group: Group::Digital,
    held_out: false,
    random: true,
    recipe: elastic_transform,
};

pub(super) const PIXELATE: Corruption = Corruption {
    name: "pixelate",
    group: Group::Digital,
    held_out: false,
    random: false,
    recipe: pixelate,
};

pub(super) const JPEG_COMPRESSION: Corruption = Corruption {
    name: "jpeg_compression",
    group: Group::Digital,
    held_out: false,
    random: false,
    recipe: jpeg_compression,
};

pub(super) const SATURATE: Corruption = Corruption {
    name: "saturate",
    group: Group::Digital,
    held_out: true,
    random: false,
    recipe: saturate,
};

/// `V + c`, clipped.
fn brightness(image: &Image, level: &Level<'_>, _: &mut Rng) -> Vec<u8> {
    let c = level.pick(&[0.05, 0.1, 0.15, 0.2, 0.3], &[0.1, 0.2, 0.3, 0.4, 0.5]);
    in_hsv(image, |hsv| hsv.value = (hsv.value + c).clamp(0.0, 1.0))
}

/// `S c + d`, clipped.
fn saturate(image: &Image, level: &Level<'_>, _: &mut Rng) -> Vec<u8> {
    let (c, d) = level.pick(
        &[(0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)],
        &[(0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2)],
    );
    in_hsv(image, |hsv| hsv.saturation = (hsv.saturation * c + d).clamp(0.0, 1.0))
}

fn in_hsv(image: &Image, change: impl Fn(&mut Hsv)) -> Vec<u8> {
    let mut pixels = image.pixels().to_vec();
    for pixel in pixels.as_chunks_mut::<3>().0 {
        let mut hsv = Hsv::from_rgb(*pixel);
        change(&mut hsv);
        *pixel = hsv.to_rgb();
    }
    pixels
}

/// `(x - mean) c + mean`, with the mean of each channel.
fn contrast(image: &Image, level: &Level<'_>, _: &mut Rng) -> Vec<u8> {
    let c = level.pick(&[0.75, 0.5, 0.4, 0.3, 0.15], &[0.4, 0.3, 0.2, 0.1, 0.05]);
    let mut sums = [0_u64; 3];
    for pixel in image.pixels().as_chunks::<3>().0 {
        for (sum, &value) in sums.iter_mut().zip(pixel) {
            *sum += u64::from(value);
        }
    }
    let count = (image.width() * image.height()) as f64;
    let maps = sums.map(|sum| {
        let mean = sum as f64 / 255.0 / count;
        std::array::from_fn::<u8, 256, _>(|value| {
            (((value as f64 / 255.0 - mean) * c + mean).clamp(0.0, 1.0) * 255.0) as u8
        })
    });
    let mut pixels = image.pixels().to_vec();
    for pixel in pixels.as_chunks_mut::<3>().0 {
        for (map, value) in maps.iter().zip(pixel) {
            *value = map[usize::from(*value)];
        }
    }
    pixels
}

/// A random affine map, then a smooth random displacement.
///
/// Parameters in pixels: `alpha` scales the displacement, `sigma` smooths it, `jitter` moves the three points that
/// define the affine map. The original's constants are multiples of 32 and of 244 (sic) whatever the image's size.
fn elastic_transform(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let (side, [alpha, sigma, jitter]) = level.pick(
        &[
            (32.0, [0.0, 0.0, 0.08]),
            (32.0, [0.05, 0.2, 0.07]),
            (32.0, [0.08, 0.06, 0.06]),
            (32.0, [0.1, 0.04, 0.05]),
            (32.0, [0.1, 0.03, 0.03]),
        ],
        &[
            (244.0, [2.0, 0.7, 0.1]),
            (244.0, [2.0, 0.08, 0.2]),
            (244.0, [0.05, 0.01, 0.02]),
            (244.0, [0.07, 0.01, 0.02]),
            (244.0, [0.12, 0.01, 0.02]),
        ],
    );
    let grid = Grid::of(image);
    let (x, y) = ((grid.width / 2) as f64, (grid.height / 2) as f64);
    let reach = (grid.width.min(grid.height) / 3) as f64;
    let corners = [(x + reach, y + reach), (x + reach, y - reach), (x - reach, y - reach)];
    let mut move_by = || side * jitter * rng.uniform_in(-1.0, 1.0);
    let moved = corners.map(|(x, y)| (x + move_by(), y + move_by()));
    let levels: Vec<f32> = image.pixels().iter().map(|&value| f32::from(value)).collect();
    // Each output pixel asks where it came from. An image below three pixels has no square to deform.
    let warped = match warp::affine(moved, corners) {
        Some(map) if reach > 0.0 => warp::warp_affine(&levels, grid, map),
        _ => levels,
    };
    if alpha == 0.0 {
        return warped.into_iter().map(to_byte).collect();
    }
    let mut displacement = || -> Vec<f32> {
        let mut field = vec![0.0; grid.plane().len()];
        for pair in field.chunks_mut(2) {
            let bits = rng.next_u64();
            for (value, bits) in pair.iter_mut().zip([bits as i32, (bits >> 32) as i32]) {
                *value = f64::from(bits) * 2f64.powi(-31);
            }
        }
        let smooth = gaussian::blur(&field, grid.plane(), side * sigma, 3.0, Border::Reflect);
        smooth.into_iter().map(|value| (value * side * alpha) as f32).collect()
    };
    let (dx, dy) = (displacement(), displacement());
    warp::displace(&warped, grid, &dx, &dy).into_iter().map(to_byte).collect()
}

/// Box-resized to a fraction `c` of the size and back.
fn pixelate(image: &Image, level: &Level<'_>, _: &mut Rng) -> Vec<u8> {
    let c = level.pick(&[0.95, 0.9, 0.85, 0.75, 0.65], &[0.6, 0.5, 0.4, 0.3, 0.25]);
    let grid = Grid::of(image);
    let shrunk = |n: usize| ((n as f64 * c) as usize).max(1);
    let small = Grid { height: shrunk(grid.height), width: shrunk(grid.width), ..grid };
    let pixels = box_resize::resize(image.pixels(), grid, small.height, small.width);
    box_resize::resize(&pixels, small, grid.height, grid.width)
}

/// JPEG at a low quality, there and back.
fn jpeg_compression(image: &Image, level: &Level<'_>, _: &mut Rng) -> Vec<u8> {
    let quality = level.pick(&[80, 65, 58, 50, 40], &[25, 18, 15, 10, 7]);
    jpeg::round_trip(image.pixels(), Grid::of(image), quality)
}
