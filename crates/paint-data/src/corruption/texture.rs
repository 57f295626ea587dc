//! The ice textures of the frost corruption: our own or the user's.

use std::borrow::Cow;
use std::sync::OnceLock;

use paint_rng::Rng;

use super::grid::{Border, Grid};
use super::{Table, ice};
use crate::{Error, Image, Result};

/// CIFAR's recipe takes every fifth pixel of a texture (bilinear resizing by 0.2 falls on whole pixels).
const CIFAR_STEP: usize = 5;

/// The pictures of ice that frost lays over an image.
///
/// The original generator crops five photographs, whose licence is unknown. [`FrostTextures::built_in`] has five
/// procedural ones of the same sizes, colours, contrasts and correlations; [`FrostTextures::new`] takes any others.
#[derive(Debug, Clone)]
pub struct FrostTextures {
    full: Vec<Image>,
    fifth: Vec<Image>,
}

impl FrostTextures {
    /// Textures given by the user, for example the five photographs of the original generator in their order.
    pub fn new(textures: Vec<Image>) -> Result<Self> {
        if textures.is_empty() {
            return Err(Error::Argument {
                what: "frost textures",
                expected: "at least one image".to_owned(),
                got: "none".to_owned(),
            });
        }
        let fifth = textures.iter().map(every_fifth_pixel).collect::<Result<_>>()?;
        Ok(Self { full: textures, fifth })
    }

    /// Our own procedural textures, made on first use.
    ///
    /// # Panics
    /// Never: their sizes are constants.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: OnceLock<FrostTextures> = OnceLock::new();
        BUILT_IN.get_or_init(|| {
            ice::textures()
                .and_then(Self::new)
                .expect("the built-in textures have fixed, positive sizes")
        })
    }

    /// A random crop of a random texture, row by row. A texture smaller than the image is mirrored at its edges.
    pub(super) fn crop(
        &self,
        grid: Grid,
        table: Table,
        rng: &mut Rng,
    ) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let textures = match table {
            Table::Cifar => &self.fifth,
            Table::ImageNet => &self.full,
        };
        let texture = &textures[rng.below(textures.len())];
        let mut start = |room: usize, needed: usize| rng.below(room.saturating_sub(needed).max(1));
        let (top, left) =
            (start(texture.height(), grid.height), start(texture.width(), grid.width));
        let stride = 3 * texture.width();
        (top..top + grid.height).map(move |y| {
            let at = Border::Reflect.index(y as isize, texture.height()) * stride;
            let row = &texture.pixels()[at..at + stride];
            if left + grid.width <= texture.width() {
                Cow::Borrowed(&row[3 * left..3 * (left + grid.width)])
            } else {
                let pixels = row.as_chunks::<3>().0;
                let mirrored = |x: usize| pixels[Border::Reflect.index(x as isize, pixels.len())];
                Cow::Owned((left..left + grid.width).flat_map(mirrored).collect())
            }
        })
    }
}

fn every_fifth_pixel(texture: &Image) -> Result<Image> {
    // The middle one of each five; what is left of a short last group has its own.
    let middles = |n: usize| {
        (0..n.div_ceil(CIFAR_STEP)).map(move |i| (CIFAR_STEP * i + CIFAR_STEP / 2).min(n - 1))
    };
    let pixels = texture.pixels().as_chunks::<3>().0;
    let (height, width) = (texture.height(), texture.width());
    let kept: Vec<u8> = middles(height)
        .flat_map(|y| middles(width).flat_map(move |x| pixels[y * width + x]))
        .collect();
    Image::new(width.div_ceil(CIFAR_STEP), height.div_ceil(CIFAR_STEP), kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paint_rng::Seed;

    fn numbered(width: usize, height: usize) -> Image {
        Image::new(width, height, (0..width * height).flat_map(|i| [i as u8; 3]).collect()).unwrap()
    }

    #[test]
    fn the_cifar_table_sees_the_middle_of_every_five_pixels() {
        let small = every_fifth_pixel(&numbered(12, 10)).unwrap();
        assert_eq!((small.width(), small.height()), (3, 2));
        let values: Vec<u8> = small.pixels().iter().copied().step_by(3).collect();
        assert_eq!(values, [26, 31, 35, 86, 91, 95]);
    }

    #[test]
    fn an_image_larger_than_the_texture_sees_it_mirrored() {
        let textures = FrostTextures::new(vec![numbered(3, 2)]).unwrap();
        let grid = Grid { height: 4, width: 5, channels: 3 };
        let mut rng = Seed(0).derive("crop", &[]);
        let rows: Vec<Vec<u8>> = textures
            .crop(grid, Table::ImageNet, &mut rng)
            .map(|row| row.iter().copied().step_by(3).collect())
            .collect();
        assert_eq!(rows, [[0, 1, 2, 2, 1], [3, 4, 5, 5, 4], [3, 4, 5, 5, 4], [0, 1, 2, 2, 1]]);
    }

    #[test]
    fn no_texture_at_all_is_refused() {
        assert!(FrostTextures::new(Vec::new()).unwrap_err().to_string().contains("at least one"));
    }
}
