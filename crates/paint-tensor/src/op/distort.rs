//! Augmented looks at a batch: colours, an affine map, a small blur, a flip and noise in one pass over each.

use crate::shape::checked_count;
use crate::{Error, Result, Tensor};

/// A change of the colours of an RGB image with values in [0, 1], by the formulas of torchvision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorOp {
    /// `f x`.
    Brightness,
    /// `f x + (1 − f) m`, with `m` the mean grey of the image.
    Contrast,
    /// `f x + (1 − f) g`, with `g` the grey of the pixel.
    Saturation,
    /// Hue turned by `f` full circles.
    Hue,
    /// `x^f`.
    Gamma,
}

impl ColorOp {
    /// Every operation.
    pub const ALL: [Self; 5] =
        [Self::Brightness, Self::Contrast, Self::Saturation, Self::Hue, Self::Gamma];
}

/// Taps of the blur along each axis.
pub const BLUR_TAPS: usize = 5;

/// What happens to every image of a batch. In order: clip to [0, 1], `colors`, the map, the blur, the flip, noise,
/// clip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distortion {
    /// The colour operations and their factors, in the order they are applied; each occurs once.
    pub colors: [(ColorOp, f32); 5],
    /// Rows and columns that the image is widened by on each side, with its edge pixels. Beyond lies black.
    pub pad: [usize; 2],
    /// Where pixel `(x, y)` of the widened image comes from: column `m₀ x + m₁ y + m₂`, row `m₃ x + m₄ y + m₅`, by
    /// linear interpolation.
    pub matrix: [f64; 6],
    /// The weights of the blur, along rows and along columns. At the edge of the widened image it sees the mirror
    /// image.
    pub blur: [f32; BLUR_TAPS],
    /// Whether left and right change places.
    pub flip: bool,
    /// The seed of this look's noise, unless its values are given.
    pub seed: u64,
}

/// The noise of looks.
#[derive(Debug, Clone, Copy)]
pub enum Noise<'a> {
    /// Normal, of this standard deviation, computed on the device from the seeds.
    Normal(f32),
    /// These values, in the order of the results.
    Given(&'a [f32]),
}

impl Tensor {
    /// Every look at every image, `[B, 3, H, W]` → `[V B, 3, H, W]`, those of a look together. It has no gradient rule.
    pub fn distort(&self, looks: &[Distortion], noise: Noise) -> Result<Self> {
        let [b, c, h, w] = self.dims4("images")?;
        if c != 3 || h == 0 || w == 0 {
            return Err(self.shape_error("images", "[B, 3, H, W] with at least one pixel"));
        }
        self.refuse_gradient("distort")?;
        let shape = vec![looks.len().saturating_mul(b), c, h, w];
        let count = checked_count(&shape, "distort")?;
        if let Noise::Given(values) = noise
            && values.len() != count
        {
            let expected = format!("{count} values of noise");
            return Err(Error::Shape { what: "distort", expected, got: vec![values.len()] });
        }
        let backend = self.device().backend();
        let out = backend.distort(self.storage(), [h, w], looks, noise)?;
        Ok(Self::frozen(shape, out, self.device().clone()))
    }
}
