//! How accurate a model is on a batch, without labels, after AETTA (Lee et al., CVPR 2024).
//!
//! Symbols: `h` the features before the head, `W` its weight, `z` logits, `t` the predicted class, `C` classes, `E`
//! the entropy of the mean of `softmax(4 z)` over the batch, which counts classes rather than doubt. Dropout before the
//! head adds `W (h ∘ ε)` to `z`, to second order, `ε` random signs. Class `j` then overtakes `t` with a probability of
//! about
//!
//! `p_j = Φ((z_j − z_t) / σ_j)`, `σ_j² = Σ_k (W_tk − W_jk)² h_k²`,
//!
//! `Φ` the normal distribution. With `d` the mean over images of `1 − Π_j (1 − p_j)`, the probability that the class
//! changes, `accuracy = 1 − 7.9 d / (e² ln C)`, `e = min(1, E / ln min(C, B))`: a model that sees few classes is
//! trusted less. AETTA draws `ε`; with twenty draws the estimate of a batch of 50 moves by three points.
//!
//! A method gives logits, not features, so `σ` of the adapted model is the frozen one's times the ratio of the spreads
//! of their logits. A method that learns from its own predictions grows surer than it is right: two fifths of what it
//! seems to gain are believed. Of a method with a classifier of its own, which speaks on another scale, no gain is.
//! Only `keel` without a gradient is taken at its word: it keeps the head and learns nothing.
//!
//! No gain or loss is larger than the share of images that are given another class. Where an estimated one is, the
//! frozen model's estimate follows the adapted one's.
//!
//! The constants fit four corruptions that no benchmark here uses, pairs of them, and darkness, gamma, grey, a colour
//! cast, few levels, a vignette and solarised images, on three frozen models: two of 10 classes and DeiT-Tiny. The two
//! fifths fit PAINT, TENT and CoTTA on the first, and TENT and `keel` with gradients on the last. `e` assumes classes
//! that come about equally often: where they come in runs, `E` is compared with the frozen model's.

use paint_nn::backbone::Backbone;
use paint_nn::params::Slot;
use paint_tensor::{Tensor, largest};

use crate::{Result, head};

const FACTOR: f64 = 7.9;
/// How much of a gain is believed.
pub(super) const BELIEVED: f64 = 0.4;

/// What dropout would add to the logits of one batch.
pub(super) struct Noise {
    /// `W`, `[C, D]`.
    weight: Tensor,
    /// `h²`, `[B, D]`.
    squares: Tensor,
    /// `Σ_k W_jk² h_k²`, `[B, C]`, flat.
    own: Vec<f32>,
}

impl Noise {
    /// From features `[B, D]` of the frozen model; none if it has no linear head of that width.
    pub(super) fn new(
        model: &dyn Backbone,
        pooled: &Tensor,
        classes: Option<&[usize]>,
    ) -> Result<Option<Self>> {
        let [_, d] = pooled.dims2("features")?;
        let weight = head::parameter(model, Slot::Weight, classes)?;
        let weight = weight.filter(|weight| weight.shape().get(1) == Some(&d));
        weight.map(|weight| Self::of(weight.detach(), pooled)).transpose()
    }

    fn of(weight: Tensor, pooled: &Tensor) -> Result<Self> {
        let squares = pooled.mul(pooled)?;
        let own = squares.linear(&weight.mul(&weight)?, None)?.to_vec()?;
        Ok(Self { weight, squares, own })
    }

    fn classes(&self) -> usize {
        self.weight.shape()[0]
    }

    /// `d`, with noise of so many times the `strength`.
    fn changed(&self, logits: &[f32], strength: f64) -> Result<f64> {
        let c = self.classes();
        let top = |row: &[f32]| largest(row.iter().copied());
        let predicted: Vec<usize> = logits.chunks_exact(c).map(top).collect();
        // Σ_k W_tk W_jk h_k², `[B, C]`.
        let cross = self.squares.mul(&self.weight.gather(&predicted)?)?;
        let cross = cross.linear(&self.weight, None)?.to_vec()?;
        let stays = |(image, &t): (usize, &usize)| -> f64 {
            let row = |values: &[f32], j: usize| f64::from(values[image * c + j]);
            let beats = |j: usize| {
                let variance = row(&self.own, t) + row(&self.own, j) - 2.0 * row(&cross, j);
                // NaN stays NaN, which `accuracy` takes for chance.
                let sigma = strength * if variance < 0.0 { 0.0 } else { variance }.sqrt();
                let sigma = if sigma < 1e-12 { 1e-12 } else { sigma };
                1.0 - normal_tail((row(logits, t) - row(logits, j)) / sigma)
            };
            (0..c).filter(|j| *j != t).map(beats).product()
        };
        let stay: f64 = predicted.iter().enumerate().map(stays).sum();
        Ok(1.0 - stay / predicted.len().max(1) as f64)
    }

    /// The estimated accuracy of rows of logits with noise of so many times the `strength`, for `e`.
    pub(super) fn accuracy(&self, logits: &[f32], e: f64, strength: f64) -> Result<f64> {
        let classes = self.classes().max(2) as f64;
        let changed = self.changed(logits, strength)?;
        let scale = classes.ln() * e.clamp(1e-3, 1.0).powi(2);
        let error = FACTOR * changed / scale;
        Ok((1.0 - error).max(1.0 / classes))
    }
}

/// The probability that a normal variable is above `x`, 0 or more (Abramowitz & Stegun 26.2.17, 1e-7 off at most).
fn normal_tail(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x);
    let factors = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let series = factors.iter().fold(0.0, |sum, factor| t * (sum + factor));
    series * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;
    use paint_tensor::Device;

    use super::*;

    #[test]
    fn sure_predictions_of_many_classes_are_trusted_and_unsure_or_uniform_ones_are_not() {
        let (classes, b) = (4, 8);
        // W = I and h = 1: every σ is √2.
        let eye: Vec<f32> = (0..16).map(|at| if at % 5 == 0 { 1.0 } else { 0.0 }).collect();
        let weight = Tensor::from_vec(eye, [classes, classes], &Device::cpu()).unwrap();
        let h = Tensor::full([b, classes], 1.0, &Device::cpu()).unwrap();
        let noise = Noise::of(weight, &h).unwrap();
        let logits = |margin: f32| -> Vec<f32> {
            let at = |i: usize| move |c| if c == i % 4 { margin } else { 0.0 };
            (0..b).flat_map(|i| (0..classes).map(at(i))).collect()
        };
        let accuracy = |margin, e, strength| noise.accuracy(&logits(margin), e, strength).unwrap();
        assert_eq!(accuracy(20.0, 1.0, 1.0), 1.0);
        assert_eq!(accuracy(0.5, 1.0, 1.0), 0.25, "no better than chance");
        let [mixed, alike] = [1.0, 0.8].map(|e| accuracy(4.0, e, 1.0));
        assert!(alike < mixed && mixed < 1.0, "{alike} {mixed}");
        assert!(accuracy(4.0, 1.0, 2.0) < mixed, "sharper logits, stronger noise");
        // Three classes, each 2 √2 deviations away.
        let expected = 1.0 - 0.997_661_133_f64.powi(3);
        let changed = noise.changed(&logits(4.0), 1.0).unwrap();
        assert!((changed - expected).abs() < 1e-6, "{changed} and {expected}");
    }

    #[test]
    fn the_tail_of_the_normal_distribution() {
        for (x, expected) in [(0.0, 0.5), (1.0, 0.158_655_254), (3.0, 0.001_349_898)] {
            assert!((normal_tail(x) - expected).abs() < 1e-7, "{x}");
        }
    }

    #[test]
    fn the_noise_is_that_of_random_signs() {
        let mut rng = Seed(2).derive("estimate", &[]);
        let (b, c, d) = (6, 3, 200);
        let mut draw = |n: usize| -> Vec<f32> { (0..n).map(|_| rng.normal() as f32).collect() };
        let (weight, h, z) = (draw(c * d), draw(b * d), draw(b * c));
        let logits: Vec<f32> = z.iter().map(|z| 20.0 * z).collect();
        let tensor = |data: &[f32], shape| Tensor::from_vec(data.to_vec(), shape, &Device::cpu());
        let noise =
            Noise::of(tensor(&weight, [c, d]).unwrap(), &tensor(&h, [b, d]).unwrap()).unwrap();
        let mut changed = 0;
        let draws = 4000;
        for _ in 0..draws {
            let signs: Vec<f32> =
                (0..d).map(|_| if rng.uniform() < 0.5 { -1.0 } else { 1.0 }).collect();
            for i in 0..b {
                let moved = |j: usize| {
                    let products = (0..d).map(|k| weight[j * d + k] * h[i * d + k] * signs[k]);
                    logits[i * c + j] + products.sum::<f32>()
                };
                let before = largest(logits[i * c..(i + 1) * c].iter().copied());
                changed += usize::from(largest((0..c).map(moved)) != before);
            }
        }
        let drawn = changed as f64 / (draws * b) as f64;
        let found = noise.changed(&logits, 1.0).unwrap();
        // Classes that overtake together count twice in the product.
        assert!(drawn > 0.1 && (found - drawn).abs() < 0.05, "{found} and {drawn}");
    }
}
