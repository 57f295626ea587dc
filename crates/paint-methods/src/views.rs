//! Augmented views of a batch: the transforms of CoTTA (Wang et al. 2022), which PAINT's released code shares.
//!
//! All images of a batch share one set of parameters; only the noise is drawn per pixel. In order: clip to [0, 1],
//! five colour operations in a random order, an affine map, a 5x5 Gaussian blur, the centre crop, a flip, noise,
//! clip. CoTTA pads the image with its edge pixels before the affine map; PAINT's code does not, so its views have
//! black borders ([`Padding`]). All views of a batch are computed on the device in one operation.

use paint_rng::Rng;
pub use paint_tensor::ColorOp;
use paint_tensor::{BLUR_TAPS, Distortion, Noise as Pixels, Tensor};

use crate::Result;

/// Standard deviation of the noise added to every pixel.
pub const NOISE_STD: f32 = 0.005;

/// A blur so narrow that it keeps the image.
const SHARP: f32 = 0.001;

/// What the affine map finds beyond the edge of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// Black (PAINT's released code).
    None,
    /// The edge pixels, half an image wide on each side; black beyond (CoTTA).
    Edge,
}

impl Padding {
    /// Width of the padding on each side.
    fn width(self, side: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Edge => side / 2,
        }
    }
}

/// The noise of one view of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Noise {
    /// Drawn on the device from this seed.
    Seed(u64),
    /// Recorded for all images, already scaled.
    Recorded(Vec<f32>),
    /// There is none.
    None,
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
    /// The scale factor; above 1 enlarges.
    pub scale: f32,
    /// Standard deviation of the blur in pixels.
    pub blur_sigma: f32,
    /// Whether the view is mirrored left to right.
    pub flip: bool,
    /// What lies beyond the edge.
    pub padding: Padding,
}

/// The range a factor is drawn from.
fn range(op: ColorOp) -> [f64; 2] {
    match op {
        ColorOp::Brightness => [0.6, 1.4],
        ColorOp::Contrast | ColorOp::Gamma => [0.7, 1.3],
        ColorOp::Saturation => [0.5, 1.5],
        ColorOp::Hue => [-0.06, 0.06],
    }
}

impl View {
    /// Draws the parameters for images of `[H, W]` pixels.
    pub fn draw(rng: &mut Rng, [h, w]: [usize; 2], padding: Padding) -> Self {
        let order = rng.permutation(5);
        let factors = ColorOp::ALL.map(|op| {
            let [low, high] = range(op);
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

    /// The same without blur.
    #[must_use]
    pub fn sharp(self) -> Self {
        Self { blur_sigma: SHARP, ..self }
    }

    /// The operation on the device, for images of `[H, W]` pixels.
    fn distortion(&self, [h, w]: [usize; 2], seed: u64) -> Distortion {
        let pad = [h, w].map(|side| self.padding.width(side));
        Distortion {
            colors: self.order.map(|op| (op, self.factors[op as usize])),
            pad,
            matrix: self.matrix([h + 2 * pad[0], w + 2 * pad[1]]),
            blur: blur_weights(self.blur_sigma),
            flip: self.flip,
            seed,
        }
    }

    /// The affine map inside a frame of `[H, W]`: with its centre `c`, `d = (x, y) − c − shift` and the angle `a`,
    /// pixel `(x, y)` comes from `u = (cos a · dx + sin a · dy) / scale + c_x`,
    /// `v = (−sin a · dx + cos a · dy) / scale + c_y`.
    fn matrix(&self, [h, w]: [usize; 2]) -> [f64; 6] {
        let (cx, cy) = ((w as f64 - 1.0) / 2.0, (h as f64 - 1.0) / 2.0);
        let [sx, sy] = self.shift.map(f64::from);
        let (angle, scale) = (f64::from(self.angle).to_radians(), f64::from(self.scale));
        let (sin, cos) = (angle.sin() / scale, angle.cos() / scale);
        let from = |along_x: f64, along_y: f64, centre: f64| {
            [along_x, along_y, centre - along_x * (cx + sx) - along_y * (cy + sy)]
        };
        let [u, v] = [from(cos, sin, cx), from(-sin, cos, cy)];
        [u[0], u[1], u[2], v[0], v[1], v[2]]
    }
}

fn blur_weights(sigma: f32) -> [f32; BLUR_TAPS] {
    let weight = |i: usize| {
        let x = i as f64 - (BLUR_TAPS / 2) as f64;
        (-0.5 * (x / f64::from(sigma)).powi(2)).exp()
    };
    let total: f64 = (0..BLUR_TAPS).map(weight).sum();
    std::array::from_fn(|i| (weight(i) / total) as f32)
}

/// Every view of every image, `[B, 3, H, W]` → `[V B, 3, H, W]`, view by view. The noise of all is of one kind.
pub fn apply(views: &[(View, Noise)], images: &Tensor) -> Result<Tensor> {
    let [_, _, h, w] = images.dims4("images")?;
    let (mut recorded, mut std) = (Vec::new(), NOISE_STD);
    let looks: Vec<Distortion> = views
        .iter()
        .map(|(view, noise)| {
            let seed = match noise {
                Noise::Seed(seed) => *seed,
                Noise::Recorded(values) => {
                    recorded.extend_from_slice(values);
                    0
                }
                Noise::None => {
                    std = 0.0;
                    0
                }
            };
            view.distortion([h, w], seed)
        })
        .collect();
    let noise = if recorded.is_empty() { Pixels::Normal(std) } else { Pixels::Given(&recorded) };
    Ok(images.detach().distort(&looks, noise)?)
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;

    type Parameter = fn(&View) -> f32;

    /// The ranges of CoTTA's transforms, which PAINT's code shares but for the padding: an angle in degrees, a shift of
    /// 1/16 of the (padded) side, and so on.
    #[test]
    fn parameters_are_drawn_from_the_whole_of_their_ranges() {
        let size = [48, 80];
        for (padding, [down, right]) in [(Padding::None, [3.0, 5.0]), (Padding::Edge, [6.0, 10.0])]
        {
            let draw = |seed| View::draw(&mut Seed(seed).derive("views", &[]), size, padding);
            let views: Vec<View> = (0..4000).map(draw).collect();
            let ranges: [(&str, Parameter, f32, f32); 10] = [
                ("brightness", |view| view.factors[0], 0.6, 1.4),
                ("contrast", |view| view.factors[1], 0.7, 1.3),
                ("saturation", |view| view.factors[2], 0.5, 1.5),
                ("hue", |view| view.factors[3], -0.06, 0.06),
                ("gamma", |view| view.factors[4], 0.7, 1.3),
                ("angle", |view| view.angle, -15.0, 15.0),
                ("shift to the right", |view| view.shift[0], -right, right),
                ("shift down", |view| view.shift[1], -down, down),
                ("scale", |view| view.scale, 0.9, 1.1),
                ("blur", |view| view.blur_sigma, 0.001, 0.5),
            ];
            for (what, value, low, high) in ranges {
                let (least, most) = views
                    .iter()
                    .map(value)
                    .fold((f32::MAX, f32::MIN), |ends, x| (ends.0.min(x), ends.1.max(x)));
                // 1 %: that 4000 draws miss the last hundredth of a range has the odds of 0.99^4000, 3e-18.
                let near = 0.01 * (high - low);
                assert!(least >= low && least < low + near, "{what}: {least} from {low}");
                assert!(most <= high && most > high - near, "{what}: {most} up to {high}");
            }
            assert!(views.iter().flat_map(|view| view.shift).all(|pixels| pixels.fract() == 0.0));
            assert!(views.iter().all(|view| view.padding == padding));
            // 0.04: five standard errors of a half over 4000 draws; 0.032 for a fifth.
            let share = |is: &dyn Fn(&View) -> bool| {
                views.iter().filter(|view| is(view)).count() as f64 / views.len() as f64
            };
            assert!((share(&|view| view.flip) - 0.5).abs() < 0.04);
            for (op, place) in ColorOp::ALL.into_iter().flat_map(|op| (0..5).map(move |i| (op, i)))
            {
                let found = share(&|view| view.order[place] == op);
                assert!((found - 0.2).abs() < 0.032, "{op:?} at place {place}: {found}");
            }
        }
    }

    #[test]
    fn a_narrow_blur_keeps_the_image_and_a_wide_one_its_mean() {
        assert_eq!(blur_weights(SHARP), [0.0, 0.0, 1.0, 0.0, 0.0]);
        let weights = blur_weights(0.5);
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6 && weights[1] > 0.1);
    }
}
