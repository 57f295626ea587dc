//! What happens in a session, for whoever listens.

use std::collections::BTreeMap;
use std::path::PathBuf;

use paint_methods::Step;
use paint_methods::guard::Account;
use serde::Serialize;

use crate::event::{Intervention, Prompt};

/// What the model says an image is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    /// The class with the largest logit.
    pub class: usize,
    /// Its probability.
    pub confidence: f64,
}

/// One thing that happened while images were read.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The first image is about to be read.
    Started {
        /// Images of the list, if that is known.
        images: Option<usize>,
        /// The first one that is read: 0, or where an earlier session stopped.
        position: usize,
        /// Whether an earlier session has read the same list to its end.
        is_repeated: bool,
        /// Images that the state had adapted to before.
        seen: u64,
    },
    /// A batch was read, adapted to and predicted.
    BatchDone(BatchDone),
    /// The state is on the disk.
    Saved,
}

/// One batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BatchDone {
    /// Its number in this session, from 0.
    pub index: u64,
    /// Its images.
    pub predictions: Vec<Predicted>,
    /// Images that could not be read.
    pub skipped: Vec<Skipped>,
    /// The prompt it used, for methods with a prompt memory.
    pub prompt: Option<Prompt>,
    /// The method's own figures.
    pub scalars: BTreeMap<String, f64>,
    /// What the guard did about it, if there is one and it did anything.
    pub guard: Option<Intervention>,
    /// Time in the method, in milliseconds.
    pub ms: f64,
}

/// An image and what it was predicted to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// What the image is called.
    pub file: String,
    /// What the model says.
    pub prediction: Prediction,
}

/// An image that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// What the image is called.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

/// What a session has done so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Images adapted to and predicted.
    pub images: u64,
    /// Images that could not be read.
    pub skipped: u64,
    /// Batches.
    pub batches: u64,
    /// What became of prompts, for methods with a prompt memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Prompts>,
    /// Conditions that the method tells apart, for methods that do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<u64>,
    /// What the guard saw and did, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guarded>,
    /// Time in the method, in seconds.
    pub method_s: f64,
    /// The file that keeps what was learnt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
}

/// What became of prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Prompts {
    /// Prompts that were made.
    pub allocated: u64,
    /// Batches for which none was made.
    pub reused: u64,
}

/// What a guard saw and did in a session. Estimates are accuracies in percent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Guarded {
    /// Steps that it watched.
    pub steps: u64,
    /// Images in them.
    pub images: u64,
    /// Those of steps that the frozen model answered.
    pub frozen_images: u64,
    /// Of the frozen model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_before: Option<f64>,
    /// Of the answers that were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_after: Option<f64>,
    /// What it did and why, how often.
    pub acted: BTreeMap<String, u64>,
    /// Whether the frozen model answered most of the images, because adaptation did not help.
    pub kept_frozen: bool,
}

impl From<&Account> for Guarded {
    fn from(account: &Account) -> Self {
        let estimates = account.estimates().map(|of| of.map(|estimate| 100.0 * estimate));
        Self {
            steps: account.steps,
            images: account.images,
            frozen_images: account.frozen_images,
            estimate_before: estimates.map(|[frozen, ..]| frozen),
            estimate_after: estimates.map(|[_, _, given]| given),
            acted: account.acted.iter().map(|(acted, count)| (acted.to_string(), *count)).collect(),
            kept_frozen: 2 * account.frozen_images > account.images,
        }
    }
}

impl Summary {
    pub(super) fn count(&mut self, images: usize, step: &Step, ms: f64) {
        self.images += images as u64;
        self.batches += 1;
        self.method_s += ms / 1e3;
        let told = |names: &[&str]| {
            let mut known = step.scalars.iter().filter(|(name, _)| names.contains(name));
            known.next().map(|(_, count)| *count as u64)
        };
        self.conditions = told(&["domains", "prompts"]).or(self.conditions);
        if let Some(prompt) = &step.prompt {
            let prompts = self.prompts.get_or_insert_default();
            prompts.allocated += prompt.made.len() as u64;
            prompts.reused += u64::from(prompt.made.is_empty());
        }
    }
}
