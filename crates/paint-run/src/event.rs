//! What happens in a run, told to whoever listens. The runner prints nothing itself.

use std::collections::BTreeMap;

use paint_methods::PromptUse;
use paint_methods::guard::{Acted, Report};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::summary::{DomainResult, Summary};

/// One thing that happened. In JSON the kind stands under `event`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The stream is about to start or to continue.
    RunStarted {
        /// The method's name.
        method: String,
        /// Batches of the whole stream.
        batches: usize,
        /// Images of the whole stream.
        samples: usize,
        /// The batch it starts with: 0, or where a checkpoint was taken.
        position: usize,
    },
    /// A batch was adapted to and predicted.
    BatchDone(BatchDone),
    /// A visit of a domain ended.
    DomainDone(DomainResult),
    /// The stream ended.
    RunDone(Box<Summary>),
}

/// One batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchDone {
    /// Its place in the stream.
    pub index: usize,
    /// Batches of the stream.
    pub of: usize,
    /// The visit it belongs to.
    pub segment: usize,
    /// The domain's name, `mixed` where the batch has several.
    pub domain: String,
    /// Its severity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<u8>,
    /// Images in it.
    pub samples: usize,
    /// Accuracy of the visit so far, in percent.
    pub domain_accuracy: Option<f64>,
    /// Accuracy of the run so far, in percent.
    pub running_accuracy: Option<f64>,
    /// The prompt it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Prompt>,
    /// The method's own figures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scalars: BTreeMap<String, f64>,
    /// What the guard did about it, if there is one and it did anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Intervention>,
    /// Time in the method, in milliseconds.
    pub ms: f64,
}

/// What a guard did about a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intervention {
    /// What it did.
    pub action: String,
    /// Why.
    pub reason: String,
}

impl Intervention {
    /// What a report says of the last step.
    pub(crate) fn of(report: Option<&Report>) -> Option<Self> {
        let Acted { action, reason } = report?.acted?;
        Some(Self { action: action.to_string(), reason: reason.to_string() })
    }
}

/// Which prompt a batch used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Its number.
    pub index: usize,
    /// True if it was made for this batch.
    pub allocated: bool,
    /// How well the batch matched its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliability: Option<f32>,
}

impl From<&PromptUse> for Prompt {
    fn from(prompt: &PromptUse) -> Self {
        let &PromptUse { index, allocated, reliability, .. } = prompt;
        Self { index, allocated, reliability }
    }
}

/// Someone who wants to know.
pub trait Observer {
    /// Told of every event, in order. An error ends the run: a log that cannot be written must not go unnoticed.
    fn observe(&mut self, event: &Event) -> Result<()>;
}

impl<F: FnMut(&Event)> Observer for F {
    fn observe(&mut self, event: &Event) -> Result<()> {
        self(event);
        Ok(())
    }
}
