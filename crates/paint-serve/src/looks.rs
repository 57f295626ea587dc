//! What images look like, in three numbers, and how two sets of them differ, in words.

use serde::Serialize;

/// Means over images of grey values in [0, 1].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Looks {
    /// The mean.
    pub(crate) brightness: f64,
    /// The standard deviation.
    pub(crate) contrast: f64,
    /// What smoothing over 2 x 2 pixels takes away, as a share of the contrast: blur lowers it, noise raises it.
    pub(crate) detail: f64,
}

/// Images that are looked at; more tell little more.
const MOST: usize = 8;

/// A change of this factor has a word.
const FACTOR: f64 = 1.25;

impl Looks {
    /// Of images `[B, 3, H, W]` in [0, 1], flat.
    pub(crate) fn of(pixels: &[f32], [height, width]: [usize; 2]) -> Self {
        let plane = height * width;
        let mut looks = Self::default();
        for (count, image) in pixels.chunks_exact(3 * plane).take(MOST).enumerate() {
            let grey: Vec<f64> = (0..plane)
                .map(|at| (0..3).map(|c| f64::from(image[c * plane + at])).sum::<f64>() / 3.0)
                .collect();
            looks.mix(Self::of_grey(&grey, height, width), count as u64);
        }
        looks
    }

    fn of_grey(grey: &[f64], height: usize, width: usize) -> Self {
        let n = grey.len().max(1) as f64;
        let brightness = grey.iter().sum::<f64>() / n;
        let variance = grey.iter().map(|g| (g - brightness).powi(2)).sum::<f64>() / n;
        let contrast = variance.sqrt();
        let mut fine = 0.0;
        for y in 0..height.saturating_sub(1) {
            for x in 0..width.saturating_sub(1) {
                let at = y * width + x;
                let around = grey[at] + grey[at + 1] + grey[at + width] + grey[at + width + 1];
                fine += (grey[at] - around / 4.0).abs();
            }
        }
        Self { brightness, contrast, detail: fine / n / (contrast + 1e-3) }
    }

    /// The mean with others, of which `count` are in here.
    pub(crate) fn mix(&mut self, other: Self, count: u64) {
        let share = 1.0 / (count as f64 + 1.0);
        let pairs = [
            (&mut self.brightness, other.brightness),
            (&mut self.contrast, other.contrast),
            (&mut self.detail, other.detail),
        ];
        for (mean, value) in pairs {
            *mean += share * (value - *mean);
        }
    }

    /// How these images differ from those of `before`.
    pub(crate) fn words(&self, before: &Self) -> Vec<&'static str> {
        let changes = [
            (self.brightness, before.brightness, ["darker", "brighter"]),
            (self.contrast, before.contrast, ["less contrast", "more contrast"]),
            (self.detail, before.detail, ["blurrier", "noisier"]),
        ];
        let word = |(now, then, [less, more]): (f64, f64, [&'static str; 2])| {
            let change = (now + 1e-3) / (then + 1e-3);
            (change > FACTOR).then_some(more).or((change < 1.0 / FACTOR).then_some(less))
        };
        changes.into_iter().filter_map(word).collect()
    }
}

#[cfg(test)]
mod tests {
    use paint_data::corruption::{Table, by_name};
    use paint_data::{Dataset as _, dataset};
    use paint_rng::Seed;

    use super::*;

    fn looks(corruption: Option<&str>) -> Looks {
        let images = dataset::embedded().unwrap();
        let mut pixels = vec![0.0; MOST * 3 * 32 * 32];
        for (index, out) in pixels.chunks_exact_mut(3 * 32 * 32).enumerate() {
            let mut image = images.sample(0, index).unwrap().image;
            if let Some(name) = corruption {
                let row = by_name(name).unwrap();
                let mut rng = row.stream(Seed(0), 5, index as u64);
                image = row.apply(&image, 5, Table::for_size(32, 32), &mut rng).unwrap();
            }
            image.to_chw(out);
        }
        Looks::of(&pixels, [32, 32])
    }

    #[test]
    fn corruptions_are_called_what_they_look_like() {
        let clean = looks(None);
        assert!(clean.words(&clean).is_empty());
        for (name, word) in [
            ("brightness", "brighter"),
            ("contrast", "less contrast"),
            ("gaussian_noise", "noisier"),
            ("defocus_blur", "blurrier"),
        ] {
            let words = looks(Some(name)).words(&clean);
            assert!(words.contains(&word), "{name}: {words:?}");
        }
    }
}
