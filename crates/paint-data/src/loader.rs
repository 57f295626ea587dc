//! Decoded batches, read ahead by background threads.
//!
//! Threads take the samples of the stream one by one, in order, so even a single large batch is decoded in parallel;
//! the thread that finishes the last sample of a batch assembles it. They never run more than a few batches ahead of
//! the reader, which bounds the memory. Batches, and errors, leave in the order of the stream, whichever thread
//! finishes first.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use crate::{BatchPlan, Dataset, Error, Result, Sample, SampleRef, Stream};

/// How far and how wide a [`Loader`] reads ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAhead {
    /// Decoding threads; 0 for as many as compute.
    pub threads: usize,
    /// Batches that may be in work or waiting.
    pub batches: usize,
}

impl Default for ReadAhead {
    /// As many threads as compute, and three batches.
    fn default() -> Self {
        Self { threads: 0, batches: 3 }
    }
}

impl ReadAhead {
    /// The threads to start: those of the pool that the kernels run on, unless a number is given.
    fn num_threads(self) -> usize {
        if self.threads == 0 { rayon::current_num_threads() } else { self.threads }
    }
}

/// One decoded batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// `[B, 3, H, W]` in `[0, 1]`.
    pub images: Vec<f32>,
    /// `[B, 3, H, W]`.
    pub shape: [usize; 4],
    /// The class of each image, where known.
    pub labels: Vec<Option<usize>>,
    /// Which samples these are, and where in the stream.
    pub plan: BatchPlan,
    /// Samples that were to be in the batch, and are damaged; always empty unless the loader skips them.
    pub damaged: Vec<Damaged>,
}

/// An image that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Which one.
    pub sample: SampleRef,
    /// What is wrong, with the name of the file.
    pub why: String,
}

/// What a damaged image does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDamage {
    Stop,
    Skip,
}

/// The batches of a stream, in order.
pub struct Loader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    dataset: Arc<dyn Dataset>,
    batches: Vec<BatchPlan>,
    ahead: usize,
    on_damage: OnDamage,
    state: Mutex<State>,
    /// Notified when there is room to work, or no need to.
    room: Condvar,
    /// Notified when a batch is laid out.
    ready: Condvar,
}

#[derive(Default)]
struct State {
    /// The batches in work or waiting; the first is number `delivered`.
    pending: VecDeque<Pending>,
    delivered: usize,
    /// The next sample to decode: batch and place in it.
    next: (usize, usize),
    closed: bool,
}

enum Pending {
    Decoding { samples: Vec<Option<Result<Sample>>>, missing: usize },
    Done(Result<Batch>),
}

impl Loader {
    /// Starts to read `stream` from `dataset`. A batch with an image that cannot be read is an error.
    pub fn new(dataset: Arc<dyn Dataset>, stream: Stream, ahead: ReadAhead) -> Self {
        Self::start(dataset, stream, ahead, OnDamage::Stop)
    }

    /// The same, but images that are [damaged](Error::is_damaged_image) are left out of their batch, which lists
    /// them. A batch may be left without any image. Other errors are errors as before.
    pub fn skipping_damaged(dataset: Arc<dyn Dataset>, stream: Stream, ahead: ReadAhead) -> Self {
        Self::start(dataset, stream, ahead, OnDamage::Skip)
    }

    fn start(
        dataset: Arc<dyn Dataset>,
        stream: Stream,
        ahead: ReadAhead,
        on_damage: OnDamage,
    ) -> Self {
        let shared = Arc::new(Shared {
            dataset,
            batches: stream.batches,
            ahead: ahead.batches.max(1),
            on_damage,
            state: Mutex::default(),
            room: Condvar::new(),
            ready: Condvar::new(),
        });
        let worker = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.work())
        };
        let threads = (0..ahead.num_threads()).map(worker).collect();
        Self { shared, threads }
    }
}

impl Iterator for Loader {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let mut state = self.shared.lock();
        if state.delivered == self.shared.batches.len() {
            return None;
        }
        loop {
            if matches!(state.pending.front(), Some(Pending::Done(_)))
                && let Some(Pending::Done(batch)) = state.pending.pop_front()
            {
                state.delivered += 1;
                self.shared.room.notify_all();
                return Some(batch);
            }
            state = self.shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.shared.batches.len() - self.shared.lock().delivered;
        (left, Some(left))
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.room.notify_all();
        for thread in self.threads.drain(..) {
            // A worker catches the panics of what it calls; there is nothing to report here.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// No code that can panic runs under the lock, so its state is sound even if poisoned.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((batch, place)) = self.take() {
            let sample = self.decode(self.batches[batch].samples[place]);
            let mut state = self.lock();
            let at = batch - state.delivered;
            let Pending::Decoding { samples, missing } = &mut state.pending[at] else { continue };
            samples[place] = Some(sample);
            *missing -= 1;
            if *missing > 0 {
                continue;
            }
            let samples = std::mem::take(samples);
            drop(state);
            let done = self.assemble(samples.into_iter().flatten(), &self.batches[batch]);
            let mut state = self.lock();
            // Meanwhile earlier batches may have left, but not this one.
            let at = batch - state.delivered;
            state.pending[at] = Pending::Done(done);
            self.ready.notify_one();
        }
    }

    /// The next sample to decode, when there is room for its batch; `None` when there is none left.
    fn take(&self) -> Option<(usize, usize)> {
        let mut state = self.lock();
        loop {
            let (batch, place) = state.next;
            if state.closed || batch == self.batches.len() {
                return None;
            }
            if batch < state.delivered + self.ahead {
                let len = self.batches[batch].samples.len();
                if place == 0 {
                    state.pending.push_back(Pending::Decoding {
                        samples: (0..len).map(|_| None).collect(),
                        missing: len,
                    });
                }
                state.next = if place + 1 < len { (batch, place + 1) } else { (batch + 1, 0) };
                return Some((batch, place));
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The batch of these samples, in the order of its plan.
    fn assemble(
        &self,
        decoded: impl Iterator<Item = Result<Sample>>,
        plan: &BatchPlan,
    ) -> Result<Batch> {
        let mut present = BatchPlan { samples: Vec::with_capacity(plan.samples.len()), ..*plan };
        let (mut samples, mut damaged) = (Vec::new(), Vec::new());
        for (sample, decoded) in plan.samples.iter().zip(decoded) {
            match decoded {
                Ok(decoded) => {
                    samples.push(decoded);
                    present.samples.push(*sample);
                }
                Err(error) if self.on_damage == OnDamage::Skip && error.is_damaged_image() => {
                    damaged.push(Damaged { sample: *sample, why: error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Batch { damaged, ..lay_out(&samples, present)? })
    }

    /// A decoder that panics on a hostile file must not take the reader with it.
    fn decode(&self, sample: SampleRef) -> Result<Sample> {
        let decode = || self.dataset.sample(sample.domain, sample.index);
        catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(Error::Panic {
                domain: self.dataset.domains()[sample.domain].name.clone(),
                index: sample.index,
                message: text.unwrap_or_else(|| "no message".into()),
            })
        })
    }
}

/// The images, which must be of one size, one after the other.
fn lay_out(samples: &[Sample], plan: BatchPlan) -> Result<Batch> {
    let (width, height) =
        samples.first().map_or((0, 0), |first| (first.image.width(), first.image.height()));
    let mut images = vec![0.0; samples.len() * 3 * height * width];
    let mut labels = Vec::with_capacity(samples.len());
    for ((sample, out), source) in
        samples.iter().zip(images.chunks_exact_mut((3 * height * width).max(1))).zip(&plan.samples)
    {
        if (sample.image.width(), sample.image.height()) != (width, height) {
            return Err(Error::Argument {
                what: "images of a batch",
                expected: format!("one size after preprocessing, {height}x{width}"),
                got: format!(
                    "{}x{} at index {}",
                    sample.image.height(),
                    sample.image.width(),
                    source.index
                ),
            });
        }
        sample.image.to_chw(out);
        labels.push(sample.label);
    }
    let shape = [samples.len(), 3, height, width];
    Ok(Batch { images, shape, labels, plan, damaged: Vec::new() })
}

#[cfg(test)]
mod tests;
