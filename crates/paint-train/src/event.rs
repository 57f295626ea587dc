//! What a training tells while it runs. The training itself prints nothing.

use serde::{Deserialize, Serialize};

/// Something happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The training begins or continues.
    Started {
        /// Epochs done before.
        done: usize,
        /// All epochs.
        epochs: usize,
        /// Steps of an epoch.
        steps: usize,
    },
    /// Some steps of an epoch are done.
    Progress(Progress),
    /// An epoch is over.
    EpochDone(Epoch),
    /// Everything needed to continue is on disk.
    Saved {
        /// Epochs done.
        epochs: usize,
    },
}

/// Where an epoch stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Progress {
    /// The epoch, from 1.
    pub epoch: usize,
    /// Steps of it done.
    pub step: usize,
    /// Mean loss of the epoch so far.
    pub loss: f64,
    /// Percent of the epoch's images so far whose larger part was recognised.
    pub train_accuracy: f64,
    /// Over the time since the training was begun or continued, evaluations not counted.
    pub images_per_second: f64,
    /// Until all epochs are done, at that rate.
    pub remaining_s: f64,
}

/// An epoch in the history of a training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// Its number, from 1.
    pub epoch: usize,
    /// Mean loss.
    pub loss: f64,
    /// Percent of images whose larger part was recognised, augmented and mixed as they were.
    pub train_accuracy: f64,
    /// The learning rate of its last step.
    pub lr: f64,
    /// Images a second.
    pub images_per_second: f64,
    /// Percent of the test images, with the weights of now; not taken after every epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_accuracy: Option<f64>,
    /// The same with the averaged weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averaged_test_accuracy: Option<f64>,
}

/// Someone who wants to know.
pub trait Observer {
    /// Told of every event, in order.
    fn observe(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Observer for F {
    fn observe(&mut self, event: &Event) {
        self(event);
    }
}
