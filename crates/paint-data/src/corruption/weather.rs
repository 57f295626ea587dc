//! Weather: snow, frost, fog.

use paint_rng::Rng;

use super::byte::to_byte;
use super::grid::Grid;
use super::normal::Normals;
use super::plasma::plasma;
use super::{Corruption, FrostTextures, Group, Level, motion, zoom};
use crate::Image;
use crate::simd::wide;

pub(super) const SNOW: Corruption =
    Corruption { name: "snow", group: Group::Weather, held_out: false, random: true, recipe: snow };

pub(super) const FROST: Corruption = Corruption {
    name: "frost",
    group: Group::Weather,
    held_out: false,
    random: true,
    recipe: frost,
};

pub(super) const FOG: Corruption =
    Corruption { name: "fog", group: Group::Weather, held_out: false, random: true, recipe: fog };

/// The parameters of one severity of snow.
#[derive(Clone, Copy)]
struct Snow {
    mean: f32,
    sd: f32,
    zoom: f64,
    threshold: f64,
    radius: usize,
    sigma: f64,
    /// The weight of the image against its whitened self.
    keep: f32,
}

impl Snow {
    const fn new([mean, sd, zoom, threshold, radius, sigma, keep]: [f64; 7]) -> Self {
        Self {
            mean: mean as f32,
            sd: sd as f32,
            zoom,
            threshold,
            radius: radius as usize,
            sigma,
            keep: keep as f32,
        }
    }

    const CIFAR: [Self; 5] = [
        Self::new([0.1, 0.2, 1.0, 0.6, 8.0, 3.0, 0.95]),
        Self::new([0.1, 0.2, 1.0, 0.5, 10.0, 4.0, 0.9]),
        Self::new([0.15, 0.3, 1.75, 0.55, 10.0, 4.0, 0.9]),
        Self::new([0.25, 0.3, 2.25, 0.6, 12.0, 6.0, 0.85]),
        Self::new([0.3, 0.3, 1.25, 0.65, 14.0, 12.0, 0.8]),
    ];

    const IMAGENET: [Self; 5] = [
        Self::new([0.1, 0.3, 3.0, 0.5, 10.0, 4.0, 0.8]),
        Self::new([0.2, 0.3, 2.0, 0.5, 12.0, 4.0, 0.7]),
        Self::new([0.55, 0.3, 4.0, 0.9, 12.0, 8.0, 0.7]),
        Self::new([0.55, 0.3, 4.5, 0.85, 12.0, 8.0, 0.65]),
        Self::new([0.55, 0.3, 2.5, 0.85, 12.0, 12.0, 0.55]),
    ];

    /// Normal noise, enlarged, cut below the threshold and smeared downwards: flakes, one byte per pixel.
    fn flakes(self, grid: Grid, rng: &mut Rng) -> Vec<u8> {
        let normals = Normals::new();
        let mut noise = vec![0.0; grid.len()];
        for pair in noise.chunks_mut(2) {
            for (out, z) in pair.iter_mut().zip(normals.pair(rng)) {
                *out = self.mean + self.sd * z;
            }
        }
        let row = |y: usize| &noise[y * grid.width..(y + 1) * grid.width];
        let mut flakes = vec![0; grid.len()];
        let mut column = vec![0.0; grid.width];
        let (down, across) =
            (zoom::taps(grid.height, self.zoom), zoom::taps(grid.width, self.zoom));
        for (tap, out) in down.into_iter().zip(flakes.chunks_exact_mut(grid.width)) {
            zoom::row(
                [row(tap.at[0]), row(tap.at[1])],
                tap,
                &across,
                &mut column,
                |i, [flake]: [f64; 1]| {
                    out[i] = if flake < self.threshold { 0 } else { (flake * 255.0) as u8 };
                },
            );
        }
        motion::blur(&flakes, grid, self.radius, self.sigma, rng.uniform_in(-135.0, -45.0))
    }
}

/// Flakes, and the same turned by half a turn, over a whitened image.
fn snow(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let snow = level.pick(&Snow::CIFAR, &Snow::IMAGENET);
    let flakes = snow.flakes(Grid::of(image).plane(), rng);
    let mut pixels = image.pixels().to_vec();
    let fallen = flakes.iter().zip(flakes.iter().rev());
    for (pixel, (&a, &b)) in pixels.as_chunks_mut::<3>().0.iter_mut().zip(fallen) {
        let rgb = pixel.map(f32::from);
        let grey = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
        let white = 1.5 * grey + 127.5;
        let flakes = f32::from(a) + f32::from(b);
        *pixel = rgb.map(|x| to_byte(snow.keep * x + (1.0 - snow.keep) * x.max(white) + flakes));
    }
    pixels
}

/// A weighted sum of the image and a random crop of an ice texture.
fn frost(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let (keep, ice): (f32, f32) = level.pick(
        &[(1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)],
        &[(1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)],
    );
    let mut pixels = image.pixels().to_vec();
    let textures = level.textures.unwrap_or_else(|| FrostTextures::built_in());
    let texture = textures.crop(Grid::of(image), level.table, rng);
    for (row, texture) in pixels.chunks_exact_mut(3 * image.width()).zip(texture) {
        mix(row, &texture, keep, ice);
    }
    pixels
}

wide! {
    fn mix<'a>(row: &'a mut [u8], texture: &'a [u8], keep: f32, ice: f32) -> () {
        for (value, &frost) in row.iter_mut().zip(texture) {
            *value = to_byte(keep * f32::from(*value) + ice * f32::from(frost));
        }
    }
}

/// `(x + a plasma) m / (m + a)`, where `m` is the image's largest value.
fn fog(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let (amount, decay): (f32, f32) = level.pick(
        &[(0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)],
        &[(1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)],
    );
    let side = image.width().max(image.height()).next_power_of_two();
    let map = plasma(side, decay, rng);
    let mut pixels = image.pixels().to_vec();
    let brightest = f32::from(pixels.iter().copied().max().unwrap_or(0)) / 255.0;
    let scale = brightest / (brightest + amount);
    for (row, map) in pixels.chunks_exact_mut(3 * image.width()).zip(map.chunks_exact(side)) {
        veil(row.as_chunks_mut().0, map, 255.0 * amount, scale);
    }
    pixels
}

wide! {
    fn veil<'a>(row: &'a mut [[u8; 3]], map: &'a [f32], amount: f32, scale: f32) -> () {
        for (pixel, fog) in row.iter_mut().zip(map) {
            *pixel = pixel.map(|x| to_byte((f32::from(x) + amount * fog) * scale));
        }
    }
}
