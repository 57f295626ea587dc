//! How images are prepared for a set of weights.
//!
//! A wrong mean or standard deviation costs accuracy without an error, so it is never guessed: it comes from a file
//! beside the weights (`config.json` as timm writes it, `preprocessor_config.json` as Hugging Face does) or from the
//! user.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::model_config::{CONFIG, PROCESSOR, read_model_config};

/// What happens to an image before the network sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preprocess {
    /// Subtracted from each channel of pixels in `[0, 1]`.
    pub mean: [f32; 3],
    /// Divides each channel after that.
    pub std: [f32; 3],
    /// Height and width of the network's input.
    pub input_size: [usize; 2],
    /// The part of the resized image that the centre crop keeps, in `(0, 1]`.
    pub crop_pct: f32,
    /// How the image is brought to `input_size / crop_pct`.
    pub crop_mode: CropMode,
    /// The filter of the resize.
    pub interpolation: Interpolation,
}

/// How an image is brought to the proportions of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CropMode {
    /// It is resized until it covers the input, keeping its proportions, and the centre is cut out.
    Center,
    /// Both sides are resized, whatever that does to the proportions, and the centre is cut out.
    Squash,
}

/// A resize filter, as PIL names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// Nearest neighbour.
    Nearest,
    /// Linear.
    Bilinear,
    /// Cubic, a = -0.5.
    Bicubic,
    /// Windowed sinc, three lobes.
    Lanczos,
}

impl Interpolation {
    /// Every filter.
    pub const ALL: [Self; 4] = [Self::Nearest, Self::Bilinear, Self::Bicubic, Self::Lanczos];

    /// Its name in configuration files and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Bilinear => "bilinear",
            Self::Bicubic => "bicubic",
            Self::Lanczos => "lanczos",
        }
    }

    /// The filter of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|filter| filter.name() == name)
    }

    /// The filter with PIL's number, which Hugging Face stores.
    pub(super) fn from_pil(number: u64) -> Option<Self> {
        [Self::Nearest, Self::Lanczos, Self::Bilinear, Self::Bicubic]
            .get(usize::try_from(number).ok()?)
            .copied()
    }
}

/// What the user says about preprocessing; what is given wins over the files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreprocessFlags {
    /// `model.mean` of a configuration.
    pub mean: Option<[f32; 3]>,
    /// `model.std`.
    pub std: Option<[f32; 3]>,
    /// `model.input_size`, height and width.
    pub input_size: Option<[usize; 2]>,
    /// `model.crop_pct`; 1 unless given.
    pub crop_pct: Option<f32>,
    /// `model.crop_mode`; the middle unless given.
    pub crop_mode: Option<CropMode>,
    /// `model.interpolation`; bicubic unless given.
    pub interpolation: Option<Interpolation>,
}

impl Preprocess {
    /// What drawn weights get: values of [0, 1] moved to [-1, 1], the whole image.
    pub fn usual(input_size: [usize; 2]) -> Self {
        Self {
            mean: [0.5; 3],
            std: [0.5; 3],
            input_size,
            crop_pct: 1.0,
            crop_mode: CropMode::Center,
            interpolation: Interpolation::Bicubic,
        }
    }
}

impl PreprocessFlags {
    /// What the user says, completed by what was found beside the weights; or the flags that are still needed.
    pub fn complete(
        &self,
        found: Option<&Preprocess>,
    ) -> std::result::Result<Preprocess, Vec<&'static str>> {
        let mean = self.mean.or(found.map(|f| f.mean));
        let std = self.std.or(found.map(|f| f.std));
        let input_size = self.input_size.or(found.map(|f| f.input_size));
        let (Some(mean), Some(std), Some(input_size)) = (mean, std, input_size) else {
            let needed = [
                (mean.is_none(), "--set 'model.mean=[R,G,B]'"),
                (std.is_none(), "--set 'model.std=[R,G,B]'"),
                (input_size.is_none(), "--set 'model.input_size=[H,W]'"),
            ];
            return Err(needed.into_iter().filter_map(|(is, flag)| is.then_some(flag)).collect());
        };
        let usual = Preprocess::usual(input_size);
        let rest = found.unwrap_or(&usual);
        Ok(Preprocess {
            mean,
            std,
            input_size,
            crop_pct: self.crop_pct.unwrap_or(rest.crop_pct),
            crop_mode: self.crop_mode.unwrap_or(rest.crop_mode),
            interpolation: self.interpolation.unwrap_or(rest.interpolation),
        })
    }
}

/// The preprocessing that belongs to a set of weights: what the user says, completed from the files beside the weights.
/// If mean, standard deviation or input size remain unknown, that is an error which says what to do.
pub fn read_preprocess(weights: impl AsRef<Path>, flags: &PreprocessFlags) -> Result<Preprocess> {
    let weights = weights.as_ref();
    let found = read_model_config(weights)?.preprocess;
    flags.complete(found.as_ref()).map_err(|needed| Error::NoPreprocessing {
        looked_for: format!(
            "{CONFIG} (pretrained_cfg or top level: mean, std, input_size) and {PROCESSOR} \
             (image_mean, image_std, size) in the folder of the weights"
        ),
        flags: needed.join(" "),
        path: weights.to_owned(),
    })
}
