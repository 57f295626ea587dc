//! Noise: each value of each pixel is disturbed on its own.

use paint_rng::Rng;

use super::byte::to_byte;
use super::normal::Normals;
use super::poisson::Counts;
use super::{Corruption, Group, Level};
use crate::Image;

pub(super) const GAUSSIAN_NOISE: Corruption = Corruption {
    name: "gaussian_noise",
    group: Group::Noise,
    held_out: false,
    random: true,
    recipe: gaussian_noise,
};

pub(super) const SHOT_NOISE: Corruption = Corruption {
    name: "shot_noise",
    group: Group::Noise,
    held_out: false,
    random: true,
    recipe: shot_noise,
};

pub(super) const IMPULSE_NOISE: Corruption = Corruption {
    name: "impulse_noise",
    group: Group::Noise,
    held_out: false,
    random: true,
    recipe: impulse_noise,
};

pub(super) const SPECKLE_NOISE: Corruption = Corruption {
    name: "speckle_noise",
    group: Group::Noise,
    held_out: true,
    random: true,
    recipe: speckle_noise,
};

/// `x + N(0, c²)`.
fn gaussian_noise(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let c: f32 = level.pick(&[0.04, 0.06, 0.08, 0.09, 0.1], &[0.08, 0.12, 0.18, 0.26, 0.38]);
    with_normals(image, rng, |value, z| value + 255.0 * c * z)
}

/// `x + x N(0, c²)`.
fn speckle_noise(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let c: f32 = level.pick(&[0.06, 0.1, 0.12, 0.16, 0.2], &[0.15, 0.2, 0.35, 0.45, 0.6]);
    with_normals(image, rng, |value, z| value + value * c * z)
}

/// `disturb(value, z)` of every value with its own standard normal `z`, in grey levels; the cast clips and truncates.
fn with_normals(image: &Image, rng: &mut Rng, disturb: impl Fn(f32, f32) -> f32) -> Vec<u8> {
    let normals = Normals::new();
    let mut pixels = image.pixels().to_vec();
    for pair in pixels.chunks_mut(2) {
        let z = normals.pair(rng);
        for (value, z) in pair.iter_mut().zip(z) {
            *value = to_byte(disturb(f32::from(*value), z));
        }
    }
    pixels
}

/// `Poisson(x c) / c`: the counting noise of `c` photons at full brightness.
fn shot_noise(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let photons = level.pick(&[500, 250, 100, 75, 50], &[60, 25, 12, 5, 3]);
    let counts = Counts::of(photons);
    let mut pixels = image.pixels().to_vec();
    for pair in pixels.chunks_mut(2) {
        let bits = rng.next_u64();
        for (value, u) in pair.iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
            *value = counts.level(*value, u);
        }
    }
    pixels
}

/// A fraction `c` of the values becomes black or white, equally likely.
fn impulse_noise(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let c: f64 = level.pick(&[0.01, 0.02, 0.03, 0.05, 0.07], &[0.03, 0.06, 0.09, 0.17, 0.27]);
    let flipped = (c * 2f64.powi(32)) as u32;
    let salt = flipped / 2;
    let mut pixels = image.pixels().to_vec();
    for pair in pixels.chunks_mut(2) {
        let bits = rng.next_u64();
        for (value, u) in pair.iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
            // Bit masks instead of branches: a third of them would be mispredicted.
            let (kept, white) =
                (u8::from(u < flipped).wrapping_sub(1), u8::from(u < salt).wrapping_neg());
            *value = (*value & kept) | white;
        }
    }
    pixels
}
