//! A request for inference on its way to the thread that answers it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use paint_tensor::Tensor;
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::storage::Bounds;
use crate::stream::{Facts, Key};

/// What becomes of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// They are predicted.
    Predict,
    /// They are predicted, and learnt from later.
    PredictFirst,
    /// They are learnt from, and the step's own prediction is the answer.
    AdaptFirst,
}

/// The room that a job takes in the queue, until it is done.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) images: usize,
    queued: Arc<AtomicUsize>,
}

impl Slot {
    pub(super) fn new(images: usize, queued: &Arc<AtomicUsize>) -> Self {
        queued.fetch_add(images, Ordering::Relaxed);
        Self { images, queued: Arc::clone(queued) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.images, Ordering::Relaxed);
    }
}

/// A request for inference.
pub(crate) struct Job {
    pub(crate) stream: Key,
    /// `[B, 3, H, W]` in [0, 1].
    pub(crate) images: Tensor,
    pub(crate) intent: Intent,
    pub(crate) bounds: Bounds,
    pub(crate) deadline: Instant,
    pub(crate) accepted: Instant,
    pub(crate) reply: oneshot::Sender<Result<Answer, Fault>>,
    pub(crate) slot: Slot,
}

/// What the client gets.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `[B, C]`, flat.
    pub(crate) logits: Vec<f32>,
    pub(crate) facts: Facts,
    /// Whether the answer is a step's own.
    pub(crate) adapted: bool,
    /// Mean entropy of the predictions, in nats.
    pub(crate) entropy: f64,
}

impl Job {
    pub(super) fn is_for_learner(&self) -> bool {
        self.intent == Intent::AdaptFirst || self.bounds != Bounds::default()
    }

    /// The job, if somebody still waits for it; one whose deadline has passed is refused.
    pub(super) fn still_wanted(self) -> Option<Self> {
        if self.reply.is_closed() {
            return None;
        }
        if Instant::now() < self.deadline {
            return Some(self);
        }
        let _ = self.reply.send(Err(late()));
        None
    }
}

/// The refusal of a request that waited too long.
pub(crate) fn late() -> Fault {
    Fault::Late(
        "deadline: expected an answer in time, found it passed while the request waited".to_owned(),
    )
}

impl Answer {
    /// What logits `[B, C]` say; NaN and infinity say nothing.
    pub(super) fn new(logits: &Tensor, facts: Facts, adapted: bool) -> Result<Self, Fault> {
        let [_, classes] = logits.dims2("logits")?;
        let logits = logits.to_vec()?;
        if logits.iter().any(|logit| !logit.is_finite()) {
            return Err(Fault::Failed(
                "logits: expected finite numbers, found NaN or infinity".to_owned(),
            ));
        }
        let entropy = mean_entropy(&logits, classes);
        Ok(Self { logits, facts, adapted, entropy })
    }
}

/// The mean over rows of logits, in nats.
pub(super) fn mean_entropy(logits: &[f32], classes: usize) -> f64 {
    let rows = logits.chunks_exact(classes);
    let count = rows.len().max(1);
    rows.map(entropy).sum::<f64>() / count as f64
}

/// Of one row of logits, in nats.
fn entropy(row: &[f32]) -> f64 {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp: Vec<f64> = row.iter().map(|z| f64::from(z - top).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).filter(|p| *p > 0.0).map(|p| -p * p.ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_of_equal_logits_is_ln_c_and_of_a_sure_row_none() {
        assert!((entropy(&[2.0; 4]) - 4.0_f64.ln()).abs() < 1e-12);
        assert!(entropy(&[90.0, 0.0, 0.0]) < 1e-12);
    }

    #[test]
    fn a_slot_gives_its_room_back() {
        let queued = Arc::new(AtomicUsize::new(0));
        let slot = Slot::new(7, &queued);
        assert_eq!(queued.load(Ordering::Relaxed), 7);
        drop(slot);
        assert_eq!(queued.load(Ordering::Relaxed), 0);
    }
}
