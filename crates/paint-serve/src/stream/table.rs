//! The streams in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::key::Key;
use super::live::Live;
use crate::metrics::Gauges;

/// The streams in memory, for every thread.
#[derive(Default)]
pub(crate) struct Table(Mutex<BTreeMap<Key, Arc<Live>>>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Live>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Live>> {
        self.lock().get(key).cloned()
    }

    pub(crate) fn insert(&self, live: Arc<Live>) {
        self.lock().insert(live.key.clone(), live);
    }

    /// Takes a stream out; nothing can be added to it from then on.
    pub(crate) fn remove(&self, key: &Key) {
        if let Some(live) = self.lock().remove(key) {
            live.lock().is_closed = true;
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        self.lock().values().cloned().collect()
    }

    /// Bytes of all states and of the images that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.all().iter().map(|live| live.lock().total_bytes()).sum()
    }

    /// The stream that was not used for the longest time, other than one.
    pub(crate) fn oldest(&self, except: &Key) -> Option<Key> {
        let all = self.all();
        let others = all.iter().filter(|live| live.key != *except);
        others.min_by_key(|live| live.lock().used).map(|live| live.key.clone())
    }

    /// Makes a stream the one that was used last.
    pub(crate) fn touch(&self, key: &Key) {
        if let Some(live) = self.get(key) {
            live.lock().used = Some(Instant::now());
        }
    }

    /// What is measured of all streams of a model.
    pub(crate) fn gauges(&self, model: &str) -> Gauges {
        let mut all = self.all();
        all.retain(|live| live.key.model.name == model);
        let mut gauges = Gauges { streams: all.len(), ..Gauges::default() };
        let (mut estimates, mut frozen) = (Vec::new(), Vec::new());
        for live in &all {
            let inside = live.lock();
            gauges.state_bytes += inside.total_bytes();
            gauges.prompts += inside.conditions.len();
            estimates.extend(inside.facts.estimated_accuracy);
            frozen.extend(inside.points.back().map(|point| f64::from(u8::from(point.is_frozen))));
        }
        let mean = |values: &[f64]| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        gauges.estimated_accuracy = mean(&estimates);
        gauges.frozen_answers = mean(&frozen);
        gauges
    }
}
