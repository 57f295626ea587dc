//! What one look at a training image is like: drawn here, done on the device ([`paint_tensor::Images`]).
//!
//! Geometry (crop, flip, rotation) and colour alone: no noise, blur or weather, because a model trained on what
//! adaptation is measured on would make the benchmark meaningless. Brightness, contrast and saturation are among the
//! corruptions too; no preset jitters them, and the grey images of one are all that it does to saturation.

use paint_rng::Rng;
use paint_settings::{above_to, between, choice, settings};
use paint_tensor::{Edge, Rect, Tone, View};

use crate::error::{Error, Result};

settings! {
    /// How strongly images are changed. A key at 0 (`scale` at 1) does nothing and draws nothing.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// Pixels of the stored image that a crop may reach over each side
        pub pad: usize,
        /// What lies there
        pub edge: EdgeKind,
        /// Smallest share of the image's area that is seen, stretched to the whole; its sides differ by up to 4:3
        #[within(above_to(0.0, 1.0))]
        pub scale: f64,
        /// Probability of a mirror image
        #[within(between(0.0, 1.0))]
        pub flip: f64,
        /// Degrees of rotation to either side
        #[within(between(0.0, 180.0))]
        pub rotate: f64,
        /// Brightness is multiplied by one plus or minus up to this
        #[within(between(0.0, 1.0))]
        pub brightness: f64,
        /// Contrast is multiplied by one plus or minus up to this
        #[within(between(0.0, 1.0))]
        pub contrast: f64,
        /// Saturation is multiplied by one plus or minus up to this
        #[within(between(0.0, 1.0))]
        pub saturation: f64,
        /// Probability of a grey image
        #[within(between(0.0, 1.0))]
        pub grey: f64,
        /// Probability of a solarized image, which is never grey too
        #[within(between(0.0, 1.0))]
        pub solarize: f64,
        /// Probability that a rectangle of 2 to 33 % of the area is painted over
        #[within(between(0.0, 1.0))]
        pub erase: f64,
    }
}

choice! {
    /// What lies outside an image.
    pub enum EdgeKind {
        /// Black
        Zeros = "zeros",
        /// The image, mirrored
        Reflect = "reflect",
    }
}

impl EdgeKind {
    /// As the device takes it.
    pub fn edge(self) -> Edge {
        match self {
            Self::Zeros => Edge::Zeros,
            Self::Reflect => Edge::Reflect,
        }
    }
}

impl Config {
    /// Refuses settings that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        let sum = self.grey + self.solarize;
        if sum > 1.0 {
            let why = format!("augment.grey + augment.solarize: expected 0 to 1, got {sum}");
            return Err(Error::recipe(why));
        }
        Ok(())
    }

    /// A look at image `index` of size `stored`, for a batch of `size`.
    pub fn view(&self, index: usize, stored: [usize; 2], size: [usize; 2], rng: &mut Rng) -> View {
        let stored = stored.map(|side| side as f64);
        let size = size.map(|side| side as f64);
        let mut window = stored;
        let mut centre = stored.map(|side| 0.5 * (side - 1.0));
        if self.scale < 1.0 {
            let area = rng.uniform_in(self.scale, 1.0).sqrt();
            let ratio = (rng.uniform_in(-1.0, 1.0) * (4.0_f64 / 3.0).ln()).exp().sqrt();
            window = [(area * ratio).min(1.0) * stored[0], (area / ratio).min(1.0) * stored[1]];
            for axis in 0..2 {
                centre[axis] += (rng.uniform() - 0.5) * (stored[axis] - window[axis]);
            }
        }
        if self.pad > 0 {
            let pad = self.pad as f64;
            centre = centre.map(|at| at + rng.below(2 * self.pad + 1) as f64 - pad);
        }
        let mirrored = self.flip > 0.0 && rng.uniform() < self.flip;
        let mut angle = 0.0;
        if self.rotate > 0.0 {
            angle = rng.uniform_in(-self.rotate, self.rotate).to_radians();
        }
        let step = [window[0] / size[0], window[1] / size[1]];
        let turn = if mirrored { -1.0 } else { 1.0 };
        let (sin, cos) = (angle.sin(), angle.cos());
        // Rows and columns of the batch, from its centre, to rows and columns of the image, from the window's.
        let rows = [cos * step[0], -sin * step[0] * turn];
        let columns = [sin * step[1], cos * step[1] * turn];
        let middle = size.map(|side| 0.5 * (side - 1.0));
        let start = |axis: [f64; 2], at: f64| at - axis[0] * middle[0] - axis[1] * middle[1];
        let matrix = [
            rows[0],
            rows[1],
            start(rows, centre[0]),
            columns[0],
            columns[1],
            start(columns, centre[1]),
        ];
        let mut factor = |strength: f64| match strength {
            0.0 => 1.0,
            _ => rng.uniform_in(1.0 - strength, 1.0 + strength) as f32,
        };
        View {
            index,
            matrix: matrix.map(|x| x as f32),
            brightness: factor(self.brightness),
            contrast: factor(self.contrast),
            saturation: factor(self.saturation),
            tone: self.tone(rng),
        }
    }

    fn tone(&self, rng: &mut Rng) -> Tone {
        if self.grey + self.solarize == 0.0 {
            return Tone::Natural;
        }
        let u = rng.uniform();
        if u < self.grey {
            Tone::Grey
        } else if u < self.grey + self.solarize {
            Tone::Solarized
        } else {
            Tone::Natural
        }
    }

    /// What is painted over in an image of the batch.
    pub fn erased(&self, size: [usize; 2], rng: &mut Rng) -> Rect {
        if self.erase == 0.0 || rng.uniform() >= self.erase {
            return Rect::default();
        }
        let area = rng.uniform_in(0.02, 1.0 / 3.0) * (size[0] * size[1]) as f64;
        let ratio = (rng.uniform_in(-1.0, 1.0) * (10.0_f64 / 3.0).ln()).exp();
        let side = |length: f64, most: usize| (length.round() as usize).clamp(1, most);
        let sides = [side((area * ratio).sqrt(), size[0]), side((area / ratio).sqrt(), size[1])];
        let [top, left] = [0, 1].map(|axis| rng.below(size[axis] - sides[axis] + 1));
        Rect { top, left, bottom: top + sides[0], right: left + sides[1] }
    }
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;
    use crate::recipe::plain_augment;

    const SIZE: [usize; 2] = [6, 9];

    fn rng() -> Rng {
        Seed(5).derive("augment/test", &[])
    }

    #[test]
    fn nothing_asked_for_is_the_image_itself() {
        assert_eq!(plain_augment().view(3, SIZE, SIZE, &mut rng()), View::new(3));
        let stretched = plain_augment().view(3, [3, 3], SIZE, &mut rng());
        assert_eq!(stretched, View::stretched(3, [3, 3], SIZE));
    }

    #[test]
    fn a_crop_moves_by_whole_pixels_and_reaches_every_place() {
        let config = Config { pad: 2, flip: 0.5, ..plain_augment() };
        let mut rng = rng();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..600 {
            let m = config.view(0, SIZE, SIZE, &mut rng).matrix;
            let (dy, mirrored) = (m[2], m[4] < 0.0);
            let dx = if mirrored { m[5] - 8.0 } else { m[5] };
            assert!(dy.fract() == 0.0 && dx.fract() == 0.0 && dy.abs() <= 2.0 && dx.abs() <= 2.0);
            assert_eq!([m[0], m[1], m[3], m[4].abs()], [1.0, 0.0, 0.0, 1.0]);
            seen.insert((dy as i32, dx as i32, mirrored));
        }
        assert_eq!(seen.len(), 50);
    }

    #[test]
    fn a_scaled_window_stays_inside_the_image() {
        let config = Config { scale: 0.3, ..plain_augment() };
        let mut rng = rng();
        for _ in 0..300 {
            let m = config.view(0, SIZE, SIZE, &mut rng).matrix;
            for (step, start, n) in [(m[0], m[2], 6.0_f32), (m[4], m[5], 9.0)] {
                let (from, to) = (start - 0.5 * step, start + step * (n - 1.0) + 0.5 * step);
                assert!(from > -0.501 && to < n - 0.499, "{from} {to} of {n}");
            }
        }
    }

    #[test]
    fn a_quarter_turn_exchanges_rows_and_columns() {
        let config = Config { rotate: 90.0, ..plain_augment() };
        let mut rng = rng();
        let m = config.view(0, [5, 5], [5, 5], &mut rng).matrix;
        assert!((m[0] * m[4] - m[1] * m[3] - 1.0).abs() < 1e-5, "a rotation keeps areas: {m:?}");
        let centre = [m[0] * 2.0 + m[1] * 2.0 + m[2], m[3] * 2.0 + m[4] * 2.0 + m[5]];
        assert!(centre.iter().all(|x| (x - 2.0).abs() < 1e-5), "{centre:?}");
    }

    #[test]
    fn tones_come_as_often_as_asked_and_erasing_stays_inside() {
        let config = Config { grey: 0.25, solarize: 0.25, erase: 0.5, ..plain_augment() };
        let mut rng = rng();
        let views: Vec<View> = (0..4000).map(|_| config.view(0, SIZE, SIZE, &mut rng)).collect();
        for tone in [Tone::Grey, Tone::Solarized] {
            let share = views.iter().filter(|view| view.tone == tone).count() as f64 / 4000.0;
            assert!((share - 0.25).abs() < 0.03, "{tone:?}: {share}");
        }
        let rects: Vec<Rect> = (0..1000).map(|_| config.erased([8, 12], &mut rng)).collect();
        let painted = rects.iter().filter(|rect| rect.area() > 0).count();
        assert!((400..600).contains(&painted), "{painted}");
        assert!(rects.iter().all(|rect| rect.bottom <= 8 && rect.right <= 12));
    }

    #[test]
    fn more_tones_than_images_are_refused_by_name() {
        let tones = Config { grey: 0.75, solarize: 0.5, ..plain_augment() };
        let error = tones.check().unwrap_err().to_string();
        assert!(error.contains("augment.grey + augment.solarize"), "{error}");
    }
}
