//! Sums over images, from which every figure of a report follows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Score;

/// Bins of the expected calibration error.
pub const ECE_BINS: usize = 15;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Bin {
    samples: u64,
    correct: u64,
    confidence: f64,
}

/// Sums over images.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Images.
    pub samples: u64,
    /// Images with a known class.
    pub labelled: u64,
    /// Images predicted right.
    pub correct: u64,
    /// Batches.
    pub batches: u64,
    /// Prompts made.
    pub prompts_allocated: u64,
    /// Time in the method, in milliseconds.
    pub ms: f64,
    nll: f64,
    bins: [Bin; ECE_BINS],
}

impl Tally {
    pub(super) fn add_batch(&mut self, duration: Duration, prompts_made: usize) {
        self.batches += 1;
        self.ms += duration.as_secs_f64() * 1e3;
        self.prompts_allocated += prompts_made as u64;
    }

    pub(super) fn add(&mut self, score: &Score) {
        self.samples += 1;
        let (Some(correct), Some(nll)) = (score.correct, score.nll) else { return };
        self.labelled += 1;
        self.correct += u64::from(correct);
        self.nll += nll;
        // Bins are closed above, so a confidence of exactly b/15 belongs to bin b - 1.
        let bin = (score.confidence * ECE_BINS as f64).ceil() as usize;
        let bin = &mut self.bins[bin.clamp(1, ECE_BINS) - 1];
        bin.samples += 1;
        bin.correct += u64::from(correct);
        bin.confidence += score.confidence;
    }

    fn of_labelled(&self, sum: f64) -> Option<f64> {
        (self.labelled > 0).then(|| sum / self.labelled as f64)
    }

    /// In percent; none without labels, as for the others.
    pub fn accuracy(&self) -> Option<f64> {
        self.of_labelled(100.0 * self.correct as f64)
    }

    /// In percent.
    pub fn error(&self) -> Option<f64> {
        self.accuracy().map(|accuracy| 100.0 - accuracy)
    }

    /// Expected calibration error in percent.
    pub fn ece(&self) -> Option<f64> {
        let gap = |bin: &Bin| (bin.correct as f64 - bin.confidence).abs();
        self.of_labelled(100.0 * self.bins.iter().map(gap).sum::<f64>())
    }

    /// Mean negative log-likelihood of the true class, in nats.
    pub fn nll(&self) -> Option<f64> {
        self.of_labelled(self.nll)
    }

    /// Mean time of a batch in milliseconds.
    pub fn ms_per_batch(&self) -> f64 {
        self.ms / self.batches.max(1) as f64
    }

    /// Images a second.
    pub fn images_per_s(&self) -> f64 {
        if self.ms > 0.0 { self.samples as f64 / self.ms * 1e3 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(confidence: f64, correct: bool) -> Score {
        Score { predicted: 0, confidence, correct: Some(correct), nll: Some(-confidence.ln()) }
    }

    #[test]
    fn figures_by_hand() {
        let mut tally = Tally::default();
        // Bin (0.8, 0.867]: two images, one right, mean confidence 0.83; bin (0.333, 0.4]: one, right, 0.35.
        for score in [scored(0.82, true), scored(0.84, false), scored(0.35, true)] {
            tally.add(&score);
        }
        tally.add_batch(Duration::from_millis(30), 1);
        assert_eq!(tally.accuracy(), Some(200.0 / 3.0));
        assert!((tally.error().unwrap() - 100.0 / 3.0).abs() < 1e-12);
        let ece = 100.0 * ((0.5_f64 - 0.83).abs() * 2.0 + (1.0 - 0.35)) / 3.0;
        assert!((tally.ece().unwrap() - ece).abs() < 1e-12, "{:?}", tally.ece());
        let nll = -(0.82_f64.ln() + 0.84_f64.ln() + 0.35_f64.ln()) / 3.0;
        assert!((tally.nll().unwrap() - nll).abs() < 1e-12);
        assert_eq!((tally.ms_per_batch(), tally.images_per_s()), (30.0, 100.0));
        assert_eq!(tally.prompts_allocated, 1);
    }

    #[test]
    fn a_bin_is_closed_above() {
        // 0.2 = 3/15 belongs to the third bin, with 0.19 (right) and not with 0.21 (wrong).
        let mut tally = Tally::default();
        for score in [scored(0.19, true), scored(3.0 / 15.0, false), scored(0.21, false)] {
            tally.add(&score);
        }
        let ece = 100.0 * ((1.0 - 0.39_f64).abs() + 0.21) / 3.0;
        assert!((tally.ece().unwrap() - ece).abs() < 1e-9, "{:?} {ece}", tally.ece());
    }

    #[test]
    fn without_labels_nothing_is_claimed() {
        let mut tally = Tally::default();
        tally.add(&Score { predicted: 0, confidence: 0.5, correct: None, nll: None });
        assert_eq!(
            (tally.samples, tally.accuracy(), tally.ece(), tally.nll()),
            (1, None, None, None)
        );
    }
}
