//! Loss and accuracy over an epoch, read from the device in bundles: one read stalls a GPU as long as a hundred.

use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::trainer::Outcome;

/// Sums over an epoch, and outcomes that are not in them yet.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    waiting: Vec<(Outcome, Vec<usize>)>,
    sums: Sums,
}

/// Sums over the steps of an epoch so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sums {
    pub(crate) steps: usize,
    loss: f64,
    right: usize,
    images: usize,
}

impl Meter {
    /// A meter of an epoch that goes on.
    pub(crate) fn begun(sums: Sums) -> Self {
        Self { waiting: Vec::new(), sums }
    }

    /// What was read.
    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// Takes the outcome of a step, unread.
    pub(crate) fn push(&mut self, outcome: Outcome, labels: Vec<usize>) {
        self.waiting.push((outcome, labels));
    }

    /// How many outcomes wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Reads what waits; `step` counts all steps of the training, for the message about a loss that is no number.
    pub(crate) fn read(&mut self, step: usize) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let losses: Vec<Tensor> = (self.waiting.iter())
            .map(|(outcome, _)| outcome.loss.reshape([1]))
            .collect::<paint_tensor::Result<_>>()?;
        let losses = Tensor::concat(&losses.iter().collect::<Vec<_>>(), 0)?.to_vec()?;
        let logits: Vec<&Tensor> =
            self.waiting.iter().map(|(outcome, _)| &outcome.logits).collect();
        let predicted = Tensor::concat(&logits, 0)?.argmax()?;
        let labels = self.waiting.iter().flat_map(|(_, labels)| labels);
        self.sums.right += predicted.iter().zip(labels).filter(|(a, b)| a == b).count();
        self.sums.images += predicted.len();
        let sum: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
        if !sum.is_finite() {
            return Err(Error::Diverged { loss: sum, step });
        }
        self.sums.loss += sum;
        self.sums.steps += losses.len();
        self.waiting.clear();
        Ok(())
    }

    /// Mean loss of what was read.
    pub(crate) fn loss(&self) -> f64 {
        self.sums.loss / self.sums.steps.max(1) as f64
    }

    /// Percent of rightly recognised images of what was read.
    pub(crate) fn accuracy(&self) -> f64 {
        100.0 * self.sums.right as f64 / self.sums.images.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn outcome(loss: f32, logits: &[f32]) -> Outcome {
        let device = Device::cpu();
        Outcome {
            loss: Tensor::full([], loss, &device).unwrap(),
            logits: Tensor::from_vec(logits.to_vec(), [logits.len() / 2, 2], &device).unwrap(),
        }
    }

    #[test]
    fn several_steps_are_summed_in_one_read() {
        let mut meter = Meter::default();
        meter.push(outcome(1.0, &[1.0, 0.0, 0.0, 1.0]), vec![0, 0]);
        meter.push(outcome(2.0, &[1.0, 0.0]), vec![0]);
        assert_eq!(meter.waiting(), 2);
        meter.read(2).unwrap();
        meter.push(outcome(6.0, &[0.0, 1.0]), vec![1]);
        meter.read(3).unwrap();
        assert_eq!((meter.loss(), meter.accuracy(), meter.waiting()), (3.0, 75.0, 0));
    }

    #[test]
    fn a_loss_that_is_no_number_ends_the_training() {
        let mut meter = Meter::default();
        meter.push(outcome(f32::NAN, &[1.0, 0.0]), vec![0]);
        assert!(meter.read(7).unwrap_err().to_string().contains("step 7"));
    }
}
