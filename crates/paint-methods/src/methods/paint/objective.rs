//! The objective of a batch, `L_mi + β L_ic` (Eq. 10).

use paint_tensor::Tensor;

use super::config::Config;
use super::quirks::Quirks;
use crate::Result;
use crate::learner::finite;

/// The terms of the objective (Eq. 10).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Losses {
    /// The mean entropy of the predictions.
    pub entropy: f32,
    /// The entropy of the mean prediction.
    pub diversity: f32,
    /// `L_ic`; none where nothing was mixed.
    pub consistency: Option<f32>,
    /// The weighted sum that was minimised.
    pub total: f32,
}

impl Losses {
    /// Adds `β L_ic` as it was computed at batch `step`.
    pub(super) fn add_consistency(&mut self, l_ic: f32, beta: f64, step: u64) -> Result<()> {
        let value = finite("L_ic", l_ic, step)?;
        self.consistency = Some(value);
        self.total += beta as f32 * value;
        Ok(())
    }
}

/// `L_mi` (Eq. 6) term by term, because each has a weight: with both 1 it is [`paint_nn::loss::mutual_information`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct MutualInformation {
    quirks: Quirks,
    entropy_weight: f32,
    diversity_weight: f32,
}

impl MutualInformation {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            quirks: Quirks::of(config),
            entropy_weight: config.entropy_weight as f32,
            diversity_weight: config.diversity_weight as f32,
        }
    }

    /// Whether it takes part for a batch of `b`.
    ///
    /// The mean prediction of a single image is the image's own, so that the two terms are equal and say nothing about
    /// the model. With equal weights Adam would turn the rounding of their gradients into steps; with a smaller weight
    /// of the first, as on ImageNet-R, the entropy of the image would be raised. Entropy alone stays what it is.
    pub(crate) fn counts(self, b: usize) -> bool {
        let is_void = b == 1 && self.diversity_weight > 0.0;
        !is_void && (self.entropy_weight > 0.0 || self.diversity_weight > 0.0)
    }

    /// The mean entropy of the predictions and the entropy of their mean.  `[B, C]` logits → `[]`, `[]`
    pub(crate) fn terms(self, z: &Tensor) -> Result<(Tensor, Tensor)> {
        self.quirks.entropies(z)
    }

    /// Their weighted difference.
    pub(crate) fn total(self, entropy: &Tensor, diversity: &Tensor) -> Result<Tensor> {
        let entropy = entropy.scale(self.entropy_weight)?;
        Ok(entropy.sub(&diversity.scale(self.diversity_weight)?)?)
    }

    /// The terms of a batch of `b` as they were computed at batch `step`; the total is 0 where they do not take part.
    pub(super) fn losses(
        self,
        [entropy, diversity]: [f32; 2],
        b: usize,
        step: u64,
    ) -> Result<Losses> {
        let entropy = finite("the mean entropy", entropy, step)?;
        let diversity = finite("the entropy of the mean", diversity, step)?;
        let total = self.entropy_weight * entropy - self.diversity_weight * diversity;
        let total = if self.counts(b) { total } else { 0.0 };
        Ok(Losses { entropy, diversity, consistency: None, total })
    }
}
