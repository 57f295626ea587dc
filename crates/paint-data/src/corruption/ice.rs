//! Procedural ice: feathered crystals over noise of all scales.
//!
//! Frost on glass has sharp feathers (a spine with side branches at 60 degrees, the angle of ice) and an uneven ground.
//! The ground is a sum of smooth noises of doubling size with equal variance, which gives the slowly falling
//! correlation of the photographs used by the original generator. Colour, contrast and grain of each texture are chosen
//! after the published statistics of frost-corrupted images.

use std::f64::consts::{FRAC_PI_3, TAU};

use paint_rng::{Rng, Seed};

use super::normal::Normals;
use crate::{Image, Result};

/// One kind of ice.
struct Ice {
    height: usize,
    width: usize,
    mean: [f32; 3],
    sd: [f32; 3],
    /// The share of the variance that the feathers have; negative where they are darker than the ground.
    feathers: f32,
}

/// The variance of each octave of the ground, from single pixels upwards.
const SHARES: [f32; 8] = [0.4, 1.0, 1.4, 1.2, 1.0, 1.0, 1.0, 1.0];

const KINDS: [Ice; 5] = [
    Ice {
        height: 600,
        width: 900,
        mean: [72.0, 147.0, 164.0],
        sd: [31.0, 17.0, 15.0],
        feathers: 0.2,
    },
    Ice {
        height: 315,
        width: 560,
        mean: [195.0, 199.0, 207.0],
        sd: [21.0, 21.5, 22.0],
        feathers: -0.3,
    },
    Ice {
        height: 315,
        width: 560,
        mean: [200.0, 205.0, 214.0],
        sd: [19.0, 19.5, 20.5],
        feathers: -0.3,
    },
    Ice {
        height: 350,
        width: 527,
        mean: [138.0, 152.0, 164.0],
        sd: [28.5, 28.5, 29.5],
        feathers: 0.4,
    },
    Ice {
        height: 495,
        width: 660,
        mean: [105.0, 116.0, 127.0],
        sd: [38.0, 37.5, 36.5],
        feathers: 0.5,
    },
];

/// The five built-in textures, the same on every machine.
pub(super) fn textures() -> Result<Vec<Image>> {
    (0..)
        .zip(&KINDS)
        .map(|(i, ice)| ice.paint(&mut Seed(0).derive("corruption/ice", &[i])))
        .collect()
}

impl Ice {
    fn paint(&self, rng: &mut Rng) -> Result<Image> {
        let mut feathers = Canvas::new(self.height, self.width);
        for _ in 0..self.height * self.width / 500 {
            feathers.feather(rng);
        }
        let mut ground = vec![0.0; self.height * self.width];
        for octave in 0..SHARES.len() {
            add_noise(&mut ground, self.width, 1 << octave, SHARES[octave].sqrt(), rng);
        }
        standardise(&mut feathers.data);
        standardise(&mut ground);
        let share = self.feathers.abs();
        let (a, b) = (share.sqrt().copysign(self.feathers), (1.0 - share).sqrt());
        let pixels = feathers.data.iter().zip(&ground).flat_map(|(feather, ground)| {
            let height = a * feather + b * ground;
            std::array::from_fn::<u8, 3, _>(|c| (self.mean[c] + self.sd[c] * height) as u8)
        });
        Image::new(self.width, self.height, pixels.collect())
    }
}

/// Brightness that crystals add.
struct Canvas {
    height: usize,
    width: usize,
    data: Vec<f32>,
}

impl Canvas {
    fn new(height: usize, width: usize) -> Self {
        Self { height, width, data: vec![0.0; height * width] }
    }

    /// A spine with branches that shorten towards its tip.
    fn feather(&mut self, rng: &mut Rng) {
        let length = 10.0 * (-(1.0 - rng.uniform()).ln() + 0.5);
        let direction = rng.uniform_in(0.0, TAU);
        let (y, x) =
            (rng.uniform_in(0.0, self.height as f64), rng.uniform_in(0.0, self.width as f64));
        let brightness = rng.uniform_in(0.3, 1.0) as f32;
        self.needle(y, x, direction, length, brightness);
        let mut along = 0.0;
        while along < length {
            for side in [-FRAC_PI_3, FRAC_PI_3] {
                let reach = 0.5 * (length - along) * rng.uniform_in(0.5, 1.0);
                let (y, x) = (y + along * direction.sin(), x + along * direction.cos());
                self.needle(y, x, direction + side, reach, 0.7 * brightness);
            }
            along += 3.0;
        }
    }

    /// A line that fades out, spread over the four pixels around each of its points.
    fn needle(&mut self, y: f64, x: f64, direction: f64, length: f64, brightness: f32) {
        let (sin, cos) = direction.sin_cos();
        for step in 0..length as usize {
            let (y, x) = (y + step as f64 * sin, x + step as f64 * cos);
            if y < 0.0 || x < 0.0 || y >= (self.height - 1) as f64 || x >= (self.width - 1) as f64 {
                return;
            }
            let (row, column) = (y as usize, x as usize);
            let (fy, fx) = ((y - row as f64) as f32, (x - column as f64) as f32);
            let light = brightness * (1.0 - step as f32 / length as f32);
            let at = row * self.width + column;
            self.data[at] += light * (1.0 - fy) * (1.0 - fx);
            self.data[at + 1] += light * (1.0 - fy) * fx;
            self.data[at + self.width] += light * fy * (1.0 - fx);
            self.data[at + self.width + 1] += light * fy * fx;
        }
    }
}

/// Adds noise that is independent every `cell` pixels and interpolated in between.
fn add_noise(field: &mut [f32], width: usize, cell: usize, amplitude: f32, rng: &mut Rng) {
    let normals = Normals::new();
    let height = field.len() / width;
    let (rows, columns) = (height / cell + 2, width / cell + 2);
    let knots: Vec<f32> =
        (0..(rows * columns).div_ceil(2)).flat_map(|_| normals.pair(rng)).collect();
    // Interpolation leaves (2/3)² of the knots' variance on average; single pixels are the knots themselves.
    let amplitude = if cell == 1 { amplitude } else { 1.5 * amplitude };
    for (y, row) in field.chunks_exact_mut(width).enumerate() {
        let fy = (y % cell) as f32 / cell as f32;
        let above = &knots[y / cell * columns..];
        let below = &above[columns..];
        for (x, value) in row.iter_mut().enumerate() {
            let (at, fx) = (x / cell, (x % cell) as f32 / cell as f32);
            let top = above[at] + fx * (above[at + 1] - above[at]);
            let bottom = below[at] + fx * (below[at + 1] - below[at]);
            *value += amplitude * (top + fy * (bottom - top));
        }
    }
}

/// Mean 0, standard deviation 1.
fn standardise(field: &mut [f32]) {
    let n = field.len() as f64;
    let mean = field.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
    let variance = field.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
    let scale = 1.0 / variance.sqrt().max(1e-12);
    for value in field {
        *value = ((f64::from(*value) - mean) * scale) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_texture_has_the_colour_and_contrast_it_is_meant_to_have() {
        for (texture, ice) in textures().unwrap().iter().zip(&KINDS) {
            assert_eq!((texture.height(), texture.width()), (ice.height, ice.width));
            for c in 0..3 {
                let values = || texture.pixels().iter().skip(c).step_by(3).map(|&v| f64::from(v));
                let n = (ice.height * ice.width) as f64;
                let mean = values().sum::<f64>() / n;
                let sd = (values().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
                // Where many feathers cross, white clips: it takes up to a twelfth of the contrast.
                let (mean_gap, sd_gap) =
                    (mean + 0.5 - f64::from(ice.mean[c]), sd / f64::from(ice.sd[c]) - 1.0);
                assert!(mean_gap.abs() < 2.0, "mean {mean} for {}", ice.mean[c]);
                assert!(sd_gap.abs() < 0.1, "sd {sd} for {}", ice.sd[c]);
            }
        }
    }
}
