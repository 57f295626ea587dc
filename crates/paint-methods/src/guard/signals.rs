//! What a batch tells of two models without labels: the frozen one, and the adapted one.

use paint_tensor::{Tensor, largest};

use super::estimate::Noise;
use crate::Result;

/// Fewer sure images than this tell nothing.
const FEW: usize = 5;
/// How many times sharper than they are predictions count for [`View::variety`].
const SHARPER: i32 = 4;

/// One model on one batch.
#[derive(Debug, Clone)]
pub(super) struct View {
    logits: Vec<f32>,
    predicted: Vec<usize>,
    confidence: Vec<f64>,
    /// The largest share of one predicted class.
    pub(super) top: f64,
    /// The entropy of the mean prediction, in nats.
    pub(super) entropy: f64,
    /// The same of sharper predictions: how many classes are predicted, whether the model is sure of them or not.
    pub(super) variety: f64,
    /// The root mean square of logits about the mean of their row.
    spread: f64,
}

impl View {
    /// Of logits `[B, C]`.
    pub(super) fn new(logits: &Tensor) -> Result<Self> {
        let [b, c] = logits.dims2("logits")?;
        let p = logits.softmax()?.to_vec()?;
        let predicted: Vec<usize> =
            p.chunks_exact(c).map(|row| largest(row.iter().copied())).collect();
        let mut counts = vec![0_usize; c];
        predicted.iter().for_each(|class| counts[*class] += 1);
        let at = |(row, class): (&[f32], &usize)| f64::from(row[*class]);
        let logits = logits.to_vec()?;
        let spread = |row: &[f32]| -> f64 {
            let mean = row.iter().map(|z| f64::from(*z)).sum::<f64>() / c as f64;
            row.iter().map(|z| (f64::from(*z) - mean).powi(2)).sum()
        };
        let squares: f64 = logits.chunks_exact(c).map(spread).sum();
        Ok(Self {
            spread: (squares / logits.len().max(1) as f64).sqrt(),
            logits,
            confidence: p.chunks_exact(c).zip(&predicted).map(at).collect(),
            predicted,
            top: counts.iter().copied().max().unwrap_or(0) as f64 / b as f64,
            entropy: entropy_of_mean(&p, c, 1),
            variety: entropy_of_mean(&p, c, SHARPER),
        })
    }

    /// Whether every logit is finite.
    pub(super) fn is_finite(&self) -> bool {
        self.logits.iter().all(|z| z.is_finite())
    }

    /// `φ`: of the images of which this model is `sure`, the share that `other` gives another class; none if they are
    /// too few to tell.
    pub(super) fn differs(&self, other: &Self, sure: f64) -> Option<f64> {
        let rows = self.predicted.iter().zip(&other.predicted).zip(&self.confidence);
        let sure: Vec<bool> =
            rows.filter(|(_, p)| **p >= sure).map(|((ours, theirs), _)| ours != theirs).collect();
        let count = sure.iter().filter(|differs| **differs).count();
        (sure.len() >= FEW).then(|| count as f64 / sure.len() as f64)
    }

    /// Which images this model is `sure` of and `other` gives another class.
    pub(super) fn contradicted(&self, other: &Self, sure: f64) -> Vec<bool> {
        let rows = self.predicted.iter().zip(&other.predicted).zip(&self.confidence);
        rows.map(|((ours, theirs), p)| *p >= sure && ours != theirs).collect()
    }

    /// The predicted classes.
    pub(super) fn predicted(&self) -> &[usize] {
        &self.predicted
    }

    /// The share of images that another model gives another class.
    pub(super) fn changed(&self, other: &Self) -> f64 {
        let pairs = self.predicted.iter().zip(&other.predicted);
        pairs.filter(|(ours, theirs)| ours != theirs).count() as f64
            / self.predicted.len().max(1) as f64
    }

    /// The ratio of the spreads of these logits and another model's.
    pub(super) fn sharpness(&self, other: &Self) -> f64 {
        self.spread / other.spread.max(1e-6)
    }

    /// The estimated accuracy for `e`, with noise of so many times the `strength`.
    pub(super) fn accuracy(&self, noise: &Noise, e: f64, strength: f64) -> Result<f64> {
        noise.accuracy(&self.logits, e, strength)
    }
}

/// In nats, of the mean of rows of `c` probabilities so many times `sharper`: `softmax(k z)` is `softmax(z)` to the
/// power `k`, made to sum to 1.
fn entropy_of_mean(p: &[f32], c: usize, sharper: i32) -> f64 {
    let b = (p.len() / c.max(1)).max(1) as f64;
    let mut mean = vec![0.0; c];
    for row in p.chunks_exact(c) {
        let powers = row.iter().map(|p| f64::from(*p).powi(sharper));
        let sum: f64 = powers.clone().sum();
        mean.iter_mut().zip(powers).for_each(|(mean, p)| *mean += p / (b * sum));
    }
    mean.iter().filter(|m| **m > 0.0).map(|m| -m * m.ln()).sum()
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn view(rows: &[[f32; 3]]) -> View {
        let data = rows.concat();
        View::new(&Tensor::from_vec(data, [rows.len(), 3], &Device::cpu()).unwrap()).unwrap()
    }

    #[test]
    fn only_images_that_the_frozen_model_is_sure_of_count() {
        let frozen = view(&[[9.0, 0.0, 0.0]; 6]);
        let mut rows = [[9.0, 0.0, 0.0]; 6];
        rows[0] = [0.0, 9.0, 0.0];
        assert_eq!(frozen.differs(&view(&rows), 0.8), Some(1.0 / 6.0));
        let unsure = view(&[[0.1, 0.0, 0.0]; 6]);
        assert_eq!(unsure.differs(&view(&rows), 0.8), None);
        let first = [true, false, false, false, false, false];
        assert_eq!(frozen.contradicted(&view(&rows), 0.8), first);
        assert_eq!(unsure.contradicted(&view(&rows), 0.8), [false; 6]);
        assert_eq!(frozen.top, 1.0);
        assert!(view(&[[0.0; 3]; 4]).entropy > 1.09);
    }

    #[test]
    fn variety_is_in_the_classes_and_not_in_the_doubt() {
        let doubtful = view(&[[2.0, 0.0, 0.0]; 6]);
        assert!(doubtful.entropy > 0.6 && doubtful.variety < 0.01, "{doubtful:?}");
        let several = view(&[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]);
        assert!((several.variety - 3_f64.ln()).abs() < 1e-6, "{several:?}");
    }

    #[test]
    fn a_logit_that_is_no_number_is_seen() {
        assert!(!view(&[[f32::NAN, 0.0, 0.0]]).is_finite());
        assert!(view(&[[1.0, 0.0, 0.0]]).is_finite());
    }
}
