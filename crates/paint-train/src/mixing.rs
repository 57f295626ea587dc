//! Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019), drawn anew for every sample, and the targets that follow.
//!
//! Symbols: `λ` the share of the first image, `ε` the label smoothing, `C` classes. Mixup: `x = λ a + (1 − λ) b`.
//! CutMix: a rectangle of `1 − λ` of the area, centred anywhere and cut at the border, shows `b`; `λ` is then what is
//! left of `a`. Target: `λ s(a) + (1 − λ) s(b)` with `s(y)_c = (1 − ε) [c = y] + ε / C`.

use paint_rng::Rng;
use paint_settings::{between, settings};
use paint_tensor::Rect;
use rand_distr::Beta;

settings! {
    /// How much is mixed.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// `α` of mixup's `λ ~ Beta(α, α)`; 0 leaves mixup out
        #[within(between(0.0, 100.0))]
        pub mixup: f64,
        /// `α` of CutMix's `λ ~ Beta(α, α)`; 0 leaves CutMix out
        #[within(between(0.0, 100.0))]
        pub cutmix: f64,
        /// Share of CutMix where both are on
        #[within(between(0.0, 1.0))]
        pub switch: f64,
        /// Probability that a sample is mixed at all
        #[within(between(0.0, 1.0))]
        pub chance: f64,
    }
}

/// How two images become one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// `λ` of the pixels outside the cut.
    pub weight: f32,
    /// Where the second image alone is seen.
    pub cut: Rect,
    /// `λ` of the target.
    pub lambda: f32,
}

impl Config {
    /// How the next sample of a batch of images of `size` is mixed; none if it is not.
    pub fn draw(&self, size: [usize; 2], rng: &mut Rng) -> Option<Mix> {
        if self.mixup == 0.0 && self.cutmix == 0.0 {
            return None;
        }
        if self.chance < 1.0 && rng.uniform() >= self.chance {
            return None;
        }
        let cut = match (self.mixup > 0.0, self.cutmix > 0.0) {
            (true, true) => rng.uniform() < self.switch,
            (_, cutmix) => cutmix,
        };
        let alpha = if cut { self.cutmix } else { self.mixup };
        let lambda = rng.sample(&Beta::new(alpha, alpha).ok()?);
        if !cut {
            let (weight, cut) = (lambda as f32, Rect::default());
            return Some(Mix { weight, cut, lambda: weight });
        }
        let cut = rectangle(1.0 - lambda, size, rng);
        let lambda = 1.0 - cut.area() as f32 / (size[0] * size[1]) as f32;
        Some(Mix { weight: 1.0, cut, lambda })
    }
}

/// A rectangle of a share of the area, centred anywhere, cut at the border.
fn rectangle(share: f64, size: [usize; 2], rng: &mut Rng) -> Rect {
    let [rows, columns] = size.map(|side| {
        let (half, centre) = ((side as f64 * share.sqrt()) as usize / 2, rng.below(side));
        centre.saturating_sub(half)..(centre + half).min(side)
    });
    Rect { top: rows.start, left: columns.start, bottom: rows.end, right: columns.end }
}

/// Adds `weight · s(label)` to one row of targets, `C` long.
pub fn add_target(row: &mut [f32], label: usize, weight: f32, smoothing: f32) {
    let rest = smoothing / row.len() as f32;
    for (class, target) in row.iter_mut().enumerate() {
        let hit = if class == label { 1.0 - smoothing } else { 0.0 };
        *target += weight * (hit + rest);
    }
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;

    const BOTH: Config = Config { mixup: 0.8, cutmix: 1.0, switch: 0.25, chance: 0.8 };

    #[test]
    fn the_target_share_is_what_is_seen_of_each_image() {
        let mut rng = Seed(1).derive("mix/test", &[]);
        let (mut mixed, mut cut) = (0, 0);
        for _ in 0..4000 {
            let Some(mix) = BOTH.draw([8, 12], &mut rng) else { continue };
            mixed += 1;
            assert!((0.0..=1.0).contains(&mix.lambda));
            if mix.weight == 1.0 {
                cut += 1;
                assert!(mix.cut.bottom <= 8 && mix.cut.right <= 12);
                assert!((mix.lambda - (1.0 - mix.cut.area() as f32 / 96.0)).abs() < 1e-6);
            } else {
                assert_eq!((mix.cut.area(), mix.lambda), (0, mix.weight));
            }
        }
        let (chance, switch) = (f64::from(mixed) / 4000.0, f64::from(cut) / f64::from(mixed));
        assert!((chance - 0.8).abs() < 0.03 && (switch - 0.25).abs() < 0.03, "{chance} {switch}");
    }

    #[test]
    fn nothing_asked_for_mixes_nothing() {
        let none = Config { mixup: 0.0, cutmix: 0.0, ..BOTH };
        assert_eq!(none.draw([8, 8], &mut Seed(1).derive("mix/test", &[])), None);
    }

    #[test]
    fn a_smoothed_mixed_target_sums_to_one() {
        let mut row = [0.0; 4];
        add_target(&mut row, 1, 0.7, 0.1);
        add_target(&mut row, 3, 0.3, 0.1);
        let expected = [0.025, 0.655, 0.025, 0.295];
        for (got, expected) in row.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-6, "{row:?}");
        }
    }
}
