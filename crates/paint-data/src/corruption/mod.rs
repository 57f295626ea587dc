//! The fifteen benchmark corruptions and the four held-out ones (Hendrycks & Dietterich, arXiv:1903.12261).
//!
//! A corruption is one row of [`CORRUPTIONS`]: a name, a group and a recipe. A recipe is a pure function of the image,
//! the severity, the parameter [`Table`] and a generator, so an image corrupted twice from the same stream has the same
//! bytes, on any machine and any thread.
//!
//! ```
//! use paint_data::{Image, corruption::{self, Table}};
//! use paint_rng::Seed;
//! let image = Image::new(4, 2, vec![128; 24])?;
//! let fog = corruption::by_name("fog")?;
//! let mut rng = fog.stream(Seed(0), 5, 17);
//! let foggy = fog.apply(&image, 5, Table::for_size(4, 2), &mut rng)?;
//! assert_eq!((foggy.width(), foggy.height()), (4, 2));
//! # Ok::<(), paint_data::Error>(())
//! ```
//!
//! # Fidelity
//! The parameters and recipes are those of the authors' two generators (CIFAR-10-C and ImageNet-C); float results are
//! clipped and truncated to bytes as theirs are. Where they fix the size to 32 or 224 we take the image's own:
//! lengths stay in pixels, each axis is zoomed about its own centre, and the fog map is the next power of two. The
//! random corruptions draw from our generator, so they agree in distribution. The frost textures are our own, see
//! [`FrostTextures`].

mod blur;
mod box_resize;
mod byte;
mod canny;
mod chamfer;
mod digital;
mod disk;
mod gaussian;
mod grid;
mod hsv;
mod ice;
mod jpeg;
mod motion;
mod noise;
mod normal;
mod plasma;
mod poisson;
mod spatter;
mod texture;
mod warp;
mod weather;
mod weighted;
mod zoom;
use paint_rng::{Rng, Seed};

use crate::{Error, Image, Result};

pub use texture::FrostTextures;

/// What kind of disturbance a corruption is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Independent per value.
    Noise,
    /// Loss of focus or movement.
    Blur,
    /// Something between the camera and the scene.
    Weather,
    /// Processing of the pixels.
    Digital,
}

impl Group {
    /// All groups, in the benchmark's order.
    pub const ALL: [Self; 4] = [Self::Noise, Self::Blur, Self::Weather, Self::Digital];

    /// The name in lists, tables and charts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noise => "noise",
            Self::Blur => "blur",
            Self::Weather => "weather",
            Self::Digital => "digital",
        }
    }
}

/// Which of the two published parameter tables to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// CIFAR-10-C, made for 32x32 pixels.
    Cifar,
    /// ImageNet-C, made for 224x224 pixels.
    ImageNet,
}

impl Table {
    /// The table whose strengths suit an image of this size: CIFAR's up to a short side of 64.
    pub fn for_size(width: usize, height: usize) -> Self {
        if width.min(height) <= 64 { Self::Cifar } else { Self::ImageNet }
    }
}

/// One severity of one table, as a recipe sees it.
struct Level<'a> {
    /// 0 to 4.
    index: usize,
    table: Table,
    /// `None` for the built-in ones, which are made only if frost asks for them.
    textures: Option<&'a FrostTextures>,
}

impl Level<'_> {
    fn pick<T: Copy>(&self, cifar: &[T; 5], imagenet: &[T; 5]) -> T {
        match self.table {
            Table::Cifar => cifar[self.index],
            Table::ImageNet => imagenet[self.index],
        }
    }
}

/// The corrupted bytes `[H, W, 3]` of an image.
type Recipe = fn(&Image, &Level<'_>, &mut Rng) -> Vec<u8>;

/// One corruption.
#[derive(Debug)]
pub struct Corruption {
    /// The benchmark's name of it, as in its files.
    pub name: &'static str,
    /// Its kind.
    pub group: Group,
    /// Kept for choosing hyper-parameters, not part of the benchmark's fifteen.
    pub held_out: bool,
    /// Draws random numbers; otherwise a function of the image alone.
    pub random: bool,
    recipe: Recipe,
}

impl Corruption {
    /// The largest severity; the smallest is 1.
    pub const MAX_SEVERITY: u8 = 5;

    /// The generator of one image's draws at one severity, for [`Corruption::apply`].
    pub fn stream(&self, seed: Seed, severity: u8, image_index: u64) -> Rng {
        seed.derive(&format!("corruption/{}", self.name), &[u64::from(severity), image_index])
    }

    /// The corrupted image, of the same size, with the built-in frost textures. `severity` is 1 to 5.
    pub fn apply(&self, image: &Image, severity: u8, table: Table, rng: &mut Rng) -> Result<Image> {
        self.run(image, severity, table, None, rng)
    }

    /// The same with other frost textures.
    pub fn apply_with(
        &self,
        image: &Image,
        severity: u8,
        table: Table,
        textures: &FrostTextures,
        rng: &mut Rng,
    ) -> Result<Image> {
        self.run(image, severity, table, Some(textures), rng)
    }

    fn run(
        &self,
        image: &Image,
        severity: u8,
        table: Table,
        textures: Option<&FrostTextures>,
        rng: &mut Rng,
    ) -> Result<Image> {
        if !(1..=Self::MAX_SEVERITY).contains(&severity) {
            return Err(Error::Argument {
                what: "severity",
                expected: format!("1 to {}", Self::MAX_SEVERITY),
                got: severity.to_string(),
            });
        }
        let level = Level { index: usize::from(severity - 1), table, textures };
        Image::new(image.width(), image.height(), (self.recipe)(image, &level, rng))
    }
}

/// The corruption of this name; the error lists the known ones.
pub fn by_name(name: &str) -> Result<&'static Corruption> {
    CORRUPTIONS.iter().find(|corruption| corruption.name == name).ok_or_else(|| Error::Argument {
        what: "corruption",
        expected: format!(
            "one of {}",
            CORRUPTIONS.iter().map(|c| c.name).collect::<Vec<_>>().join(", ")
        ),
        got: name.to_owned(),
    })
}

/// The fifteen in the benchmark's order, then the four held-out ones.
pub const CORRUPTIONS: &[Corruption] = &[
    noise::GAUSSIAN_NOISE,
    noise::SHOT_NOISE,
    noise::IMPULSE_NOISE,
    blur::DEFOCUS_BLUR,
    blur::GLASS_BLUR,
    blur::MOTION_BLUR,
    blur::ZOOM_BLUR,
    weather::SNOW,
    weather::FROST,
    weather::FOG,
    digital::BRIGHTNESS,
    digital::CONTRAST,
    digital::ELASTIC_TRANSFORM,
    digital::PIXELATE,
    digital::JPEG_COMPRESSION,
    noise::SPECKLE_NOISE,
    blur::GAUSSIAN_BLUR,
    spatter::SPATTER,
    digital::SATURATE,
];

/// Held-out corruptions one after the other, `first+second`: harder than each alone, so settings that ruin a model on
/// hard images are seen to do so before a benchmark is run.
pub const HELD_OUT_PAIRS: [&str; 2] = ["spatter+gaussian_blur", "saturate+speckle_noise"];
