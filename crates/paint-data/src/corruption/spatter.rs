//! Spatter: drops of water or mud on the lens.

use paint_rng::Rng;

use super::grid::{Border, Grid};
use super::normal::Normals;
use super::{Corruption, Group, Level, canny, chamfer, gaussian};
use crate::Image;

pub(super) const SPATTER: Corruption = Corruption {
    name: "spatter",
    group: Group::Weather,
    held_out: true,
    random: true,
    recipe: spatter,
};

/// The parameters of one severity.
#[derive(Clone, Copy)]
struct Spatter {
    mean: f64,
    sd: f64,
    sigma: f64,
    threshold: f64,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// The strength of the gloss.
    Water(f32),
    /// The softness of the blots.
    Mud(f64),
}

impl Spatter {
    const fn new(mean: f64, sd: f64, sigma: f64, threshold: f64, kind: Kind) -> Self {
        Self { mean, sd, sigma, threshold, kind }
    }

    const CIFAR: [Self; 5] = [
        Self::new(0.62, 0.1, 0.7, 0.7, Kind::Water(0.5)),
        Self::new(0.65, 0.1, 0.8, 0.7, Kind::Water(0.5)),
        Self::new(0.65, 0.3, 1.0, 0.69, Kind::Water(0.5)),
        Self::new(0.65, 0.1, 0.7, 0.69, Kind::Mud(0.6)),
        Self::new(0.65, 0.1, 0.5, 0.68, Kind::Mud(0.6)),
    ];

    const IMAGENET: [Self; 5] = [
        Self::new(0.65, 0.3, 4.0, 0.69, Kind::Water(0.6)),
        Self::new(0.65, 0.3, 3.0, 0.68, Kind::Water(0.6)),
        Self::new(0.65, 0.3, 2.0, 0.68, Kind::Water(0.5)),
        Self::new(0.65, 0.3, 1.0, 0.65, Kind::Mud(1.5)),
        Self::new(0.67, 0.4, 1.0, 0.65, Kind::Mud(1.5)),
    ];
}

fn spatter(image: &Image, level: &Level<'_>, rng: &mut Rng) -> Vec<u8> {
    let spatter = level.pick(&Spatter::CIFAR, &Spatter::IMAGENET);
    let grid = Grid::of(image).plane();
    let normals = Normals::new();
    let mut noise = vec![0.0; grid.len()];
    for pair in noise.chunks_mut(2) {
        for (out, z) in pair.iter_mut().zip(normals.pair(rng)) {
            *out = spatter.mean + spatter.sd * f64::from(z);
        }
    }
    let mut liquid = gaussian::blur(&noise, grid, spatter.sigma, 4.0, Border::Nearest);
    for value in &mut liquid {
        *value = if *value < spatter.threshold { 0.0 } else { *value };
    }
    let mut pixels = image.pixels().to_vec();
    match spatter.kind {
        Kind::Water(strength) => {
            let film = film(&liquid, grid);
            let largest = film.iter().copied().fold(0.0, f32::max);
            // Without a single drop there is nothing to scale.
            let scale = if largest > 0.0 { strength / largest } else { 0.0 };
            for (pixel, film) in pixels.as_chunks_mut::<3>().0.iter_mut().zip(film) {
                for (value, colour) in pixel.iter_mut().zip([175.0, 238.0, 238.0]) {
                    *value = (f32::from(*value) + film * scale * colour) as u8;
                }
            }
        }
        Kind::Mud(softness) => {
            let blots: Vec<f64> =
                liquid.iter().map(|&value| f64::from(value > spatter.threshold)).collect();
            let mask = gaussian::blur(&blots, grid, softness, 4.0, Border::Nearest);
            for (pixel, mask) in pixels.as_chunks_mut::<3>().0.iter_mut().zip(mask) {
                if mask < 0.8 {
                    continue;
                }
                for (value, colour) in pixel.iter_mut().zip([63.0, 42.0, 20.0]) {
                    *value = (f64::from(*value) * (1.0 - mask) + colour * mask) as u8;
                }
            }
        }
    }
    pixels
}

/// The gloss of a film of water: its thickness times a relief of the distance from the drops' rims.
fn film(liquid: &[f64], grid: Grid) -> Vec<f32> {
    let liquid: Vec<u8> = liquid.iter().map(|value| (value * 255.0) as u8).collect();
    let rims = canny::edges(&liquid, grid, 50, 150);
    let distance = chamfer::distance(&rims, grid, 20.0);
    let smooth: Vec<u8> = neighbourhood(&distance, grid, &[1.0; 9], |sum| (sum / 9.0) as u8);
    let mut levels = equalise(&smooth);
    let relief = [-2.0, -1.0, 0.0, -1.0, 1.0, 1.0, 0.0, 1.0, 2.0];
    levels = neighbourhood(&levels, grid, &relief, |sum| sum as u8);
    levels = neighbourhood(&levels, grid, &[1.0; 9], |sum| (sum / 9.0).round() as u8);
    liquid.iter().zip(levels).map(|(&liquid, level)| f32::from(liquid) * f32::from(level)).collect()
}

/// Sums over 3x3 neighbourhoods, reflected at the edges.
fn neighbourhood<T: Copy + Into<f32>>(
    data: &[T],
    grid: Grid,
    kernel: &[f32; 9],
    finish: impl Fn(f32) -> u8,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(grid.len());
    let mut rows = [const { Vec::new() }; 3];
    for y in 0..grid.height as isize {
        for (dy, padded) in (-1..=1).zip(&mut rows) {
            let at = Border::Reflect101.index(y + dy, grid.height) * grid.width;
            Border::Reflect101.pad_row(&data[at..at + grid.width], 1, 1, padded, T::into);
        }
        out.extend((0..grid.width).map(|x| {
            let sum =
                |row: usize| (0..3).map(|k| kernel[3 * row + k] * rows[row][x + k]).sum::<f32>();
            finish(sum(0) + sum(1) + sum(2))
        }));
    }
    out
}

/// Spreads the levels so that their cumulative histogram is a line.
fn equalise(data: &[u8]) -> Vec<u8> {
    let mut histogram = [0_usize; 256];
    for &level in data {
        histogram[usize::from(level)] += 1;
    }
    let first = histogram.iter().position(|&count| count > 0).unwrap_or(0);
    if histogram[first] == data.len() {
        return data.to_vec();
    }
    let scale = 255.0 / (data.len() - histogram[first]) as f32;
    let mut map = [0; 256];
    let mut sum = 0;
    for level in first + 1..256 {
        sum += histogram[level];
        map[level] = (sum as f32 * scale).round_ties_even() as u8;
    }
    data.iter().map(|&level| map[usize::from(level)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equalised_levels_follow_the_cumulative_histogram() {
        assert_eq!(equalise(&[5, 5, 7, 9, 9]), [0, 0, 85, 255, 255]);
        assert_eq!(equalise(&[4, 4]), [4, 4]);
    }

    #[test]
    fn a_neighbourhood_sum_reflects_without_the_edge_pixel() {
        let grid = Grid { height: 1, width: 3, channels: 1 };
        assert_eq!(
            neighbourhood(&[1_u8, 10, 100], grid, &[1.0; 9], |sum| sum as u8),
            [63, 255, 255]
        );
    }
}
