//! The thread that answers with what was published.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::Instant;

use serde_json::json;

use super::Shared;
use super::job::{Answer, Job};
use super::pool::Predicting;
use super::task::Task;
use crate::fault::Fault;
use crate::journal::log;

/// Answers until there are no more jobs.
pub(super) fn run(
    jobs: &Receiver<Job>,
    learn: &SyncSender<Task>,
    shared: &Shared,
    threads: &Predicting,
) {
    for job in jobs {
        let Some(job) = job.still_wanted() else { continue };
        let stream = job.stream.clone();
        if catch_unwind(AssertUnwindSafe(|| handle(job, learn, shared, threads))).is_err() {
            log("error", "panic", &json!({ "thread": "predict", "stream": stream }));
        }
    }
}

fn handle(job: Job, learn: &SyncSender<Task>, shared: &Shared, threads: &Predicting) {
    let live = shared.table.get(&job.stream).filter(|live| live.is_ours());
    let published = live.as_ref().and_then(|live| {
        let mut inside = live.lock();
        inside.used = Some(Instant::now());
        Some((inside.predictor.clone()?, inside.facts.clone()))
    });
    let (Some(live), Some((predictor, facts))) = (live, published) else {
        // Not in memory: the thread that learns restores it, and answers.
        if let Err(TrySendError::Full(Task::Infer(job))) = learn.try_send(Task::Infer(job)) {
            let _ = job
                .reply
                .send(Err(Fault::Busy("queue: expected room for a stream, found none".to_owned())));
        }
        return;
    };
    let begun = Instant::now();
    let metrics = &live.key.model.metrics;
    metrics.queue.add(begun.duration_since(job.accepted));
    let threads = threads.of(job.slot.images, shared.is_learning.load(Ordering::Relaxed));
    let logits = threads.install(|| predictor.logits(&job.images)).map_err(Fault::from);
    let answer = logits.and_then(|logits| Answer::new(&logits, facts, false));
    metrics.predict.add(begun.elapsed());
    let Job { images, intent, reply, slot, .. } = job;
    // Whoever asks again on this answer finds the room free and the images counted.
    let waiting = if answer.is_ok() { shared.answered(&live, &images, intent) } else { 0 };
    drop(slot);
    let _ = reply.send(answer);
    if waiting >= shared.options.batch {
        // A full queue is no loss: waiting images are looked for again and again.
        let _ = learn.try_send(Task::Lesson(live.key.clone()));
    }
}
