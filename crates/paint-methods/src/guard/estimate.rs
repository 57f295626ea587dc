//! How accurate a model is on a batch, without labels, after AETTA (Lee et al., CVPR 2024).
//!
//! Symbols: `h` the features before the head, `W` its weight, `z` logits, `P` passes, `E` the entropy of the mean
//! prediction. A pass adds `4 W (h ∘ ε)` to `z`, `ε` signs: strong dropout before the head, to second order. With `d`
//! the share of images and passes whose class changes,
//! `accuracy = 1 - 0.4 d / e^8`, `e = min(1, E / ln min(C, B))`: a model that sees few classes is trusted less.
//!
//! The noise is that of the frozen model's features for the adapted model too, times the ratio of the spreads of their
//! logits: a method gives logits, not features, and one that sharpens its logits has not learnt by that.
//!
//! The three constants fit 800 images of four corruptions that no benchmark here uses, on the embedded model, frozen and
//! adapted by PAINT, within five points on average; on other models they have not been tested. `e` assumes
//! classes that come about equally often: on a stream of few classes the estimate is too low for both models.

use paint_nn::backbone::Backbone;
use paint_nn::params::{Role, Slot};
use paint_rng::Seed;
use paint_tensor::Tensor;

use crate::Result;

/// `P`.
const PASSES: usize = 10;
const SCALE: f32 = 4.0;
const FACTOR: f64 = 0.4;
const POWER: i32 = 8;

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
        let head = model.params().iter().find(|param| param.role() == Role::Head(Slot::Weight));
        let Some(weight) = head.map(|param| param.tensor().detach()) else { return Ok(None) };
        if weight.shape().get(1) != Some(&d) {
            return Ok(None);
        }
        let weight = classes.map_or_else(|| Ok(weight.clone()), |rows| weight.gather(rows))?;
        let h = pooled.to_vec()?;
        let mut rows = Vec::with_capacity(PASSES * b * d);
        for pass in 0..PASSES {
            let mut rng = Seed(0).derive("guard/noise", &[pass as u64]);
            let signs: Vec<f32> =
                (0..d).map(|_| if rng.uniform() < 0.5 { -SCALE } else { SCALE }).collect();
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

    /// The estimated accuracy of rows of logits whose mean prediction has the entropy `entropy`, in nats, with noise of so
    /// many times the strength.
    pub(super) fn accuracy(&self, logits: &[f32], entropy: f64, strength: f32) -> f64 {
        let b = logits.len() / self.classes;
        let most = (self.classes.min(b).max(2) as f64).ln();
        let spread = (entropy / most).clamp(1e-3, 1.0);
        let error = FACTOR * self.changed(logits, strength) / spread.powi(POWER);
        (1.0 - error).max(1.0 / self.classes as f64)
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
        let full = (classes as f64).ln();
        let sure = noise.accuracy(&logits(20.0, |i| i % 4), full, 1.0);
        let unsure = noise.accuracy(&logits(0.5, |i| i % 4), full, 1.0);
        assert_eq!(sure, 1.0);
        assert!(unsure < 0.85, "{unsure}");
        let middling = logits(3.0, |i| i % 4);
        let [mixed, alike] =
            [full, 0.8 * full].map(|entropy| noise.accuracy(&middling, entropy, 1.0));
        assert!(alike < mixed && mixed < 1.0, "{alike} {mixed}");
        assert!(noise.accuracy(&middling, full, 3.0) < mixed, "sharper logits, stronger noise");
    }
}
