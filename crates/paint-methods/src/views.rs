//! Augmented views of a batch: the transforms of CoTTA (Wang et al. 2022), which PAINT's released code shares.
//!
//! One set of parameters serves all images of a batch; only the noise is drawn by pixel. In order: clip to [0, 1], five
//! colour operations in a drawn order, an affine map, a 5x5 Gaussian blur, the centre crop, a flip, noise, clip.
//! CoTTA pads the image with its edge pixels before the affine map, PAINT's code does not and so gets black borders:
//! [`Padding`]. Images are planar `[3, H, W]` on the host, one task each.

mod color;
mod spatial;

use paint_rng::Rng;
use paint_tensor::Tensor;
use rayon::prelude::*;

use crate::Result;
pub use color::ColorOp;

/// Standard deviation of the noise added to every pixel.
pub const NOISE_STD: f64 = 0.005;

/// What lies beyond the edge of the image when the affine map asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// Black (PAINT's released code).
    None,
    /// The edge pixels, half an image wide on each side; black beyond (CoTTA).
    Edge,
}

/// The parameters of one view.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The order of the colour operations.
    pub order: [ColorOp; 5],
    /// Their factors, in the order of [`ColorOp::ALL`].
    pub factors: [f32; 5],
    /// Rotation in degrees.
    pub angle: f32,
    /// Shift in pixels, to the right and down.
    pub shift: [f32; 2],
    /// Enlargement.
    pub scale: f32,
    /// Standard deviation of the blur in pixels.
    pub blur_sigma: f32,
    /// Whether left and right change places.
    pub flip: bool,
    /// What lies beyond the edge.
    pub padding: Padding,
}

impl View {
    /// Draws the parameters for images of `[H, W]` pixels.
    pub fn draw(rng: &mut Rng, [h, w]: [usize; 2], padding: Padding) -> Self {
        let order = rng.permutation(5);
        let factors = ColorOp::ALL.map(|op| {
            let [low, high] = op.range();
            rng.uniform_in(low, high) as f32
        });
        let margin = |side: usize| match padding {
            Padding::None => side as f64 / 16.0,
            Padding::Edge => side as f64 / 8.0,
        };
        let mut shift = |side| rng.uniform_in(-margin(side), margin(side)).round() as f32;
        let shift = [shift(w), shift(h)];
        Self {
            order: std::array::from_fn(|i| ColorOp::ALL[order[i]]),
            factors,
            angle: rng.uniform_in(-15.0, 15.0) as f32,
            shift,
            scale: rng.uniform_in(0.9, 1.1) as f32,
            blur_sigma: rng.uniform_in(0.001, 0.5) as f32,
            flip: rng.uniform() < 0.5,
            padding,
        }
    }

    /// The view of every image, `[B, 3, H, W]` → the same. `noise(i)` gives the noise of image `i`, already scaled.
    pub fn apply(
        &self,
        images: &Tensor,
        noise: impl Fn(usize) -> Vec<f32> + Sync,
    ) -> Result<Tensor> {
        let [_, c, h, w] = images.dims4("images")?;
        let mut pixels = images.to_vec()?;
        pixels.par_chunks_mut((c * h * w).max(1)).enumerate().for_each(|(i, image)| {
            image.iter_mut().for_each(|x| *x = x.clamp(0.0, 1.0));
            for op in self.order {
                op.apply(image, self.factors[op as usize]);
            }
            spatial::transform(self, image, [h, w]);
            for (x, noise) in image.iter_mut().zip(noise(i)) {
                *x = (*x + noise).clamp(0.0, 1.0);
            }
        });
        Ok(Tensor::from_vec(pixels, images.shape(), images.device())?)
    }
}
