//! Blurs: lens, glass, motion, zoom.

use paint_rng::Rng;

use super::byte::to_byte;
use super::grid::{Border, Grid};
use super::{Corruption, Group, Level, disk, gaussian, motion, zoom};
use crate::Image;
use crate::simd::wide;

pub(super) const DEFOCUS_BLUR: Corruption = Corruption {
    name: "defocus_blur",
    group: Group::Blur,
    held_out: false,
    random: false,
    recipe: defocus_blur,
};

pub(super) const GLASS_BLUR: Corruption = Corruption {
    name: "glass_blur",
    group: Group::Blur,
    held_out: false,
    random: true,
    recipe: glass_blur,
};

pub(super) const MOTION_BLUR: Corruption = Corruption {
    name: "motion_blur",
    group: Group::Blur,
    held_out: false,
    random: true,
    recipe: motion_blur,
};

pub(super) const ZOOM_BLUR: Corruption = Corruption {
    name: "zoom_blur",
    group: Group::Blur,
    held_out: false,
    random: false,
    recipe: zoom_blur,
};

pub(super) const GAUSSIAN_BLUR: Corruption = Corruption {
    name: "gaussian_blur",
    group: Group::Blur,
    held_out: true,
    random: false,
    recipe: gaussian_blur,
};

/// scikit-image truncates its Gaussian filter at four standard deviations.
const TRUNCATE: f64 = 4.0;

/// A soft-rimmed disk of radius `r`.
fn defocus_blur(image: &Image, level: &Level<'_>, _: &mut Rng) -> Vec<u8> {
    let (r, alias_sigma) = level.pick(
        &[(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)],
        &[(3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5)],
    );
    disk::Kernel::disk(r, alias_sigma).apply(image.pixels(), Grid::of(image))
}

fn gaussian_blur(image: &Image, level: &Level<'_>, _: &mut Rng) -> Vec<u8> {
    let sigma = level.pick(&[0.4, 0.6, 0.7, 0.8, 1.0], &[1.0, 2.0, 3.0, 4.0, 6.0]);
    gaussian_bytes(image.pixels(), Grid::of(image), sigma)
}

fn gaussian_bytes(bytes: &[u8], grid: Grid, sigma: f64) -> Vec<u8> {
    let mut x = vec![0.0; bytes.len()];
    to_unit(bytes, &mut x);
    let blurred = gaussian::blur(&x, grid, sigma, TRUNCATE, Border::Nearest);
    let mut out = vec![0; bytes.len()];
    to_bytes(&blurred, &mut out);
    out
}

wide! {
    fn to_unit<'a>(bytes: &'a [u8], out: &'a mut [f64]) -> () {
        for (out, &value) in out.iter_mut().zip(bytes) {
            *out = f64::from(value) / 255.0;
        }
    }
}

wide! {
    fn to_bytes<'a>(x: &'a [f64], out: &'a mut [u8]) -> () {
        for (out, value) in out.iter_mut().zip(x) {
            *out = (value * 255.0) as u8;
        }
    }
}

/// Gaussian, then every pixel takes the colour of a random neighbour, then Gaussian.
///
/// The pixels are visited from the bottom right, so a colour can travel several times. The original means to swap the
/// two pixels but, through aliasing, copies.
fn glass_blur(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let (sigma, delta, rounds) = level.pick(
        &[(0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)],
        &[(0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)],
    );
    let grid = Grid::of(image);
    let mut bytes = gaussian_bytes(image.pixels(), grid, sigma);
    let pixels = bytes.as_chunks_mut::<3>().0;
    let offset = |bits: u32| ((u64::from(bits) * 2 * delta as u64) >> 32) as usize;
    for _ in 0..rounds {
        for y in (delta + 1..=grid.height.saturating_sub(delta)).rev() {
            for x in (delta + 1..=grid.width.saturating_sub(delta)).rev() {
                let bits = rng.next_u64();
                // Offsets from -delta to delta - 1.
                let (from_y, from_x) =
                    (y + offset(bits as u32) - delta, x + offset((bits >> 32) as u32) - delta);
                pixels[y * grid.width + x] = pixels[from_y * grid.width + from_x];
            }
        }
    }
    gaussian_bytes(&bytes, grid, sigma)
}

/// Motion along a random direction within 45 degrees of the horizontal.
fn motion_blur(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let (radius, sigma) = level.pick(
        &[(6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)],
        &[(10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)],
    );
    motion::blur(image.pixels(), Grid::of(image), radius, sigma, rng.uniform_in(-45.0, 45.0))
}

/// The mean of the image and `count` zooms of it, `1`, `1 + step`, ...
fn zoom_blur(image: &Image, level: &Level<'_>, _: &mut Rng) -> Vec<u8> {
    let (count, step): (u32, f64) = level.pick(
        &[(7, 0.01), (12, 0.01), (16, 0.01), (21, 0.01), (26, 0.01)],
        &[(12, 0.01), (16, 0.01), (11, 0.02), (13, 0.02), (11, 0.03)],
    );
    // The step as NumPy's `arange` rounds it: factors such as 1.25 lie on the edge of another crop.
    let step = (1.0 + step) - 1.0;
    let grid = Grid::of(image);
    let x: Vec<f32> =
        image.pixels().iter().map(|&value| (f64::from(value) / 255.0) as f32).collect();
    let row = |y: usize| &x[y * grid.stride()..(y + 1) * grid.stride()];
    let mut total = vec![0.0; grid.len()];
    let mut column = vec![0.0; grid.stride()];
    for i in 0..count {
        let factor = 1.0 + f64::from(i) * step;
        let (down, across) = (zoom::taps(grid.height, factor), zoom::taps(grid.width, factor));
        for (tap, total) in down.into_iter().zip(total.chunks_exact_mut(grid.stride())) {
            let total = total.as_chunks_mut::<3>().0;
            zoom::row(
                [row(tap.at[0]), row(tap.at[1])],
                tap,
                &across,
                &mut column,
                |i, pixel: [f64; 3]| {
                    for (total, value) in total[i].iter_mut().zip(pixel) {
                        *total += value as f32;
                    }
                },
            );
        }
    }
    let images = (count + 1) as f32;
    x.iter().zip(total).map(|(x, total)| to_byte((x + total) / images * 255.0)).collect()
}
