//! How accurate a model is on a batch, without labels, after AETTA (Lee et al., CVPR 2024).
//!
//! Symbols: `h` the features before the head, `W` its weight, `z` logits, `P` passes, `C` classes, `E` the entropy of
//! the mean prediction. A pass adds `W (h ∘ ε)` to `z`, `ε` signs: dropout before the head, to second order. With `d`
//! the share of images and passes whose class changes, `accuracy = 1 - 11.3 d / (ln C e²)`,
//! `e = min(1, E / ln min(C, B))`: a model that sees few classes is trusted less.
//!
//! The noise is that of the frozen model's features for the adapted model too: a method gives logits, not features. A
//! method that learns from its own predictions grows surer than it is right: its noise is that times the ratio of the
//! spreads of the logits, and two fifths of what it seems to gain are believed. Of a method with a classifier of its
//! own, which speaks on another scale, no gain is. Only `keel` without a gradient is taken at its word: it keeps the
//! head and learns nothing.
//!
//! No gain or loss is larger than the share of images that are given another class. Where an estimated one is, the
//! frozen model's estimate follows the adapted one's.
//!
//! The constant and its fall with `ln C` fit four corruptions that no benchmark here uses at severities 1, 3 and 5
//! and clean images, 400 images each, on two frozen models: the embedded one (10 classes) and DeiT-Tiny (1,000); the
//! two fifths fit PAINT and keel on the same two. `e` assumes classes that come about equally often: where they come
//! in runs, `E` is compared with the frozen model's.

use paint_nn::backbone::Backbone;
use paint_nn::params::Slot;
use paint_rng::Seed;
use paint_tensor::Tensor;

use crate::{Result, head};

/// `P`.
const PASSES: usize = 20;
const FACTOR: f64 = 11.3;
const POWER: i32 = 2;
/// How much of a gain is believed.
pub(super) const BELIEVED: f64 = 0.4;

/// What the passes add to the logits of one batch.
pub(super) struct Noise {
    /// `[P, B, C]`, flat.
    values: Vec<f32>,
    classes: usize,
}

impl Noise {
    /// From features `[B, D]` of the frozen model; none if it has no linear head of that width.
    pub(super) fn new(
        model: &dyn Backbone,
        pooled: &Tensor,
        classes: Option<&[usize]>,
    ) -> Result<Option<Self>> {
        let [b, d] = pooled.dims2("features")?;
        let weight = head::parameter(model, Slot::Weight, classes)?;
        let Some(weight) = weight.filter(|weight| weight.shape().get(1) == Some(&d)) else {
            return Ok(None);
        };
        let h = pooled.to_vec()?;
        let mut rows = Vec::with_capacity(PASSES * b * d);
        for pass in 0..PASSES {
            let mut rng = Seed(0).derive("guard/noise", &[pass as u64]);
            let signs: Vec<f32> =
                (0..d).map(|_| if rng.uniform() < 0.5 { -1.0 } else { 1.0 }).collect();
            rows.extend(h.iter().enumerate().map(|(at, h)| h * signs[at % d]));
        }
        let rows = Tensor::from_vec(rows, [PASSES * b, d], pooled.device())?;
        let values = rows.linear(&weight, None)?.to_vec()?;
        Ok(Some(Self { values, classes: weight.shape()[0] }))
    }

    /// `d`, the share of images and passes whose class changes.
    fn changed(&self, logits: &[f32], strength: f32) -> f64 {
        let rows = logits.chunks_exact(self.classes).map(|row| (row, largest(row.iter().copied())));
        let noise = self.values.chunks_exact(self.classes);
        let changed = rows.cycle().zip(noise).filter(|((row, class), noise)| {
            largest(row.iter().zip(*noise).map(|(z, n)| z + strength * n)) != *class
        });
        changed.count() as f64 * self.classes as f64 / self.values.len().max(1) as f64
    }

    /// The estimated accuracy of rows of logits with noise of so many times the `strength`, for `e`.
    pub(super) fn accuracy(&self, logits: &[f32], e: f64, strength: f32) -> f64 {
        let classes = self.classes.max(2) as f64;
        let error =
            FACTOR / classes.ln() * self.changed(logits, strength) / e.clamp(1e-3, 1.0).powi(POWER);
        (1.0 - error).max(1.0 / classes)
    }
}

/// The place of the largest value, the first of equals.
pub(super) fn largest(values: impl Iterator<Item = f32>) -> usize {
    let first = (0, f32::NEG_INFINITY);
    values
        .enumerate()
        .fold(first, |best, (at, value)| if value > best.1 { (at, value) } else { best })
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sure_predictions_of_many_classes_are_trusted_and_unsure_or_uniform_ones_are_not() {
        let (classes, b) = (4, 8);
        let mut rng = Seed(2).derive("estimate", &[]);
        let values = (0..PASSES * b * classes).map(|_| rng.normal() as f32).collect();
        let noise = Noise { values, classes };
        let logits = |margin: f32, class: fn(usize) -> usize| -> Vec<f32> {
            let at = |i: usize| move |c| if c == class(i) { margin } else { 0.0 };
            (0..b).flat_map(|i| (0..classes).map(at(i))).collect()
        };
        let sure = noise.accuracy(&logits(20.0, |i| i % 4), 1.0, 1.0);
        let unsure = noise.accuracy(&logits(0.5, |i| i % 4), 1.0, 1.0);
        assert_eq!(sure, 1.0);
        assert_eq!(unsure, 0.25, "no better than chance");
        let middling = logits(4.0, |i| i % 4);
        let [mixed, alike] = [1.0, 0.8].map(|e| noise.accuracy(&middling, e, 1.0));
        assert!(alike < mixed && mixed < 1.0, "{alike} {mixed}");
        assert!(noise.accuracy(&middling, 1.0, 2.0) < mixed, "sharper logits, stronger noise");
    }
}
