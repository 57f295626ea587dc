//! Digital corruptions: changes of the stored values.

use paint_rng::Rng;

use super::hsv::Hsv;
use super::{Corruption, Group, Level};
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
