//! A stream in memory: the version that answers, the images that wait, and what the page shows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use paint_methods::Predictor;
use serde::Serialize;

use super::key::Key;
use super::pending::Pending;
use crate::fault::Fault;
use crate::looks::Looks;
use crate::options::Options;
use crate::storage::Lease;

/// Steps of the timeline.
const POINTS: usize = 4096;
/// Conditions of the table.
const CONDITIONS: usize = 256;

/// What an answer says of the state that gave it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Facts {
    /// Steps of the stream.
    pub(crate) step: u64,
    /// The state: resets and rollbacks, then steps.
    pub(crate) version: String,
    /// The condition of the last step: a prompt, or what the method calls a domain.
    pub(crate) prompt: Option<u64>,
    /// Whether it was new then.
    pub(crate) prompt_new: bool,
    /// How like it the images were.
    pub(crate) reliability: Option<f64>,
    /// Of the adapted model, in 0..1.
    pub(crate) estimated_accuracy: Option<f64>,
    /// What the guard did last.
    pub(crate) guard: Option<String>,
}

/// One step of the timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Point {
    /// Seconds since 1970.
    pub(crate) time: f64,
    pub(crate) step: u64,
    pub(crate) images: usize,
    pub(crate) condition: u64,
    pub(crate) is_new: bool,
    pub(crate) reliability: Option<f64>,
    /// Mean entropy of the predictions as a share of its largest value.
    pub(crate) entropy: f64,
    pub(crate) estimate_adapted: Option<f64>,
    pub(crate) estimate_frozen: Option<f64>,
    /// Whether the frozen model answered.
    pub(crate) is_frozen: bool,
    pub(crate) guard: Option<String>,
    /// Time of the step, in milliseconds.
    pub(crate) ms: f64,
}

/// Images that the method thinks alike.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Condition {
    pub(crate) first_step: u64,
    pub(crate) last_step: u64,
    pub(crate) last_time: f64,
    pub(crate) steps: u64,
    pub(crate) images: u64,
    /// Means of its images.
    pub(crate) looks: Looks,
    /// How they differ from those of the first condition, in words.
    pub(crate) words: Vec<&'static str>,
    /// Small copies as PNG.
    #[serde(skip)]
    pub(crate) thumbnails: Vec<Vec<u8>>,
    /// How many there are.
    pub(crate) thumbnail_count: usize,
}

/// What changes while a stream is in memory.
#[derive(Default)]
pub(crate) struct Inside {
    /// What answers; none if answers wait for the thread that learns.
    pub(crate) predictor: Option<Arc<dyn Predictor>>,
    pub(crate) facts: Facts,
    pub(crate) pending: Pending,
    /// Whether somebody stopped it from learning.
    pub(crate) is_frozen: bool,
    /// Whether it has left the memory, so that nothing may be added.
    pub(crate) is_closed: bool,
    pub(crate) used: Option<Instant>,
    /// Images answered since it came into memory.
    pub(crate) images: u64,
    /// Bytes of the state.
    pub(crate) bytes: usize,
    pub(crate) points: VecDeque<Point>,
    pub(crate) conditions: BTreeMap<u64, Condition>,
}

impl Inside {
    /// Adds a step to the timeline and to its condition.
    pub(crate) fn record(&mut self, point: Point, looks: Looks, thumbnail: Option<Vec<u8>>) {
        let first = self.conditions.values().next().map(|condition| condition.looks);
        if self.conditions.len() >= CONDITIONS && !self.conditions.contains_key(&point.condition) {
            self.conditions.pop_first();
        }
        let condition = self.conditions.entry(point.condition).or_default();
        if condition.steps == 0 {
            condition.first_step = point.step;
        }
        condition.looks.mix(looks, condition.steps);
        condition.words = first.map(|first| condition.looks.words(&first)).unwrap_or_default();
        condition.steps += 1;
        condition.images += point.images as u64;
        condition.last_step = point.step;
        condition.last_time = point.time;
        if condition.thumbnails.len() < 4 {
            condition.thumbnails.extend(thumbnail);
            condition.thumbnail_count = condition.thumbnails.len();
        }
        self.points.push_back(point);
        if self.points.len() > POINTS {
            self.points.pop_front();
        }
    }

    /// Bytes of the state and of the images that wait.
    pub(crate) fn total_bytes(&self) -> usize {
        self.bytes + self.pending.bytes()
    }

    /// Whether enough images wait to be learnt from, or some have waited for long enough.
    pub(crate) fn is_due(&self, options: &Options) -> bool {
        let waited = self.pending.since().map(|since| since.elapsed());
        let is_late = options.max_delay.is_some_and(|most| waited.is_some_and(|it| it >= most));
        !self.is_frozen && (self.pending.len() >= options.batch || is_late)
    }

    /// Forgets the timeline, as a reset does.
    pub(crate) fn forget(&mut self) {
        self.conditions.clear();
    }
}

/// A stream in memory.
pub(crate) struct Live {
    pub(crate) key: Key,
    /// The right to write it, where several servers could.
    pub(crate) lease: Option<Lease>,
    inside: Mutex<Inside>,
}

impl Live {
    pub(crate) fn new(key: Key, lease: Option<Lease>) -> Self {
        Self { key, lease, inside: Mutex::default() }
    }

    /// Whether no other server has it, as far as the clock says.
    pub(crate) fn is_ours(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::is_valid)
    }

    /// An error if another server has it.
    pub(crate) fn confirm(&self) -> Result<(), Fault> {
        self.lease.as_ref().map_or(Ok(()), Lease::confirm)
    }

    /// Everything inside; held for moments only.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
