//! The thread that owns the states: it takes steps, answers what only it can answer, saves, restores and evicts.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Shared;
use super::held::Held;
use super::job::{Answer, Intent, Job};
use super::next;
use super::task::{Command, Done, Task};
use crate::fault::Fault;
use crate::journal::log;
use crate::stream::StreamId;

/// How long it waits for a task before it looks for images that wait.
const TICK: Duration = Duration::from_millis(100);

/// The thread's own.
pub(super) struct Learn {
    shared: Arc<Shared>,
    held: BTreeMap<StreamId, Held>,
    /// Streams that were ever asked for, here or on the disk.
    known: BTreeSet<StreamId>,
    looked: Instant,
}

impl Learn {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let known = shared.saved().unwrap_or_default().into_iter().collect();
        Self { shared, held: BTreeMap::new(), known, looked: Instant::now() }
    }

    /// Works until nobody can ask for anything, then saves everything.
    pub(super) fn run(mut self, tasks: &Receiver<Task>) {
        while let Ok(task) = next(tasks, TICK) {
            if let Some(task) = task {
                let stream = task.stream().clone();
                self.surviving(&stream, |learn| learn.handle(task));
            }
            if self.looked.elapsed() >= TICK {
                self.looked = Instant::now();
                for stream in self.due() {
                    self.surviving(&stream, |learn| learn.lesson(&stream));
                }
            }
        }
        for stream in self.held.keys().cloned().collect::<Vec<_>>() {
            if let Err(fault) = self.release(&stream) {
                log("error", "save", &json!({ "stream": stream, "error": format!("{fault:?}") }));
            }
        }
    }

    /// A stream whose work panicked is forgotten, and comes back from its last save.
    fn surviving(&mut self, stream: &StreamId, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.held.remove(stream);
            self.shared.table.remove(stream);
            log("error", "panic", &json!({ "thread": "learn", "stream": stream }));
            self.shared.journal.audit(stream.as_str(), "restore", "the step panicked", 0);
        }
    }

    /// Streams with images that have waited for long enough.
    fn due(&self) -> Vec<StreamId> {
        let is_due = |held: &&Held| held.live.lock().is_due(&self.shared.options);
        self.held.values().filter(is_due).map(|held| held.live.id.clone()).collect()
    }

    fn handle(&mut self, task: Task) {
        match task {
            Task::Infer(job) => {
                if let Some(job) = job.still_wanted() {
                    self.infer(job);
                }
            }
            Task::Lesson(stream) => self.lesson(&stream),
            Task::Command { stream, command, reply } => {
                let _ = reply.send(self.command(&stream, command));
            }
        }
    }

    /// The stream, restored from the disk or begun; others make room for it.
    fn open(&mut self, id: &StreamId) -> Result<&mut Held, Fault> {
        if !self.held.contains_key(id) {
            let is_saved = self.shared.path(id).exists();
            let most = self.shared.options.limits.streams;
            if !self.known.contains(id) && self.known.len() >= most {
                return Err(Fault::Busy(format!(
                    "streams: expected at most {most}, found one more: {id}"
                )));
            }
            let held = Held::open(&self.shared, id)?;
            let step = held.session.batches_seen();
            self.known.insert(id.clone());
            let how = if is_saved { "restore" } else { "begin" };
            self.shared.journal.audit(id.as_str(), how, "asked for", step);
            self.shared.table.insert(Arc::clone(&held.live));
            self.held.insert(id.clone(), held);
            self.make_room(id)?;
        }
        let held = self.held.get_mut(id);
        held.ok_or_else(|| Fault::Failed(format!("expected stream {id} in memory, found none")))
    }

    /// Moves the streams that were not used for the longest time to the disk, until the rest fits.
    fn make_room(&mut self, id: &StreamId) -> Result<(), Fault> {
        while self.shared.table.bytes() > self.shared.options.stream_memory
            && let Some(oldest) = self.shared.table.oldest(id)
        {
            self.evict(&oldest, "memory")?;
        }
        Ok(())
    }

    /// Moves a stream to the disk, on record.
    fn evict(&mut self, id: &StreamId, why: &str) -> Result<(), Fault> {
        let Some(step) = self.release(id)? else { return Ok(()) };
        self.shared.metrics.evictions.add(1);
        self.shared.journal.audit(id.as_str(), "evict", why, step);
        Ok(())
    }

    /// Saves a stream and lets go of it. Says after how many steps; one that cannot be saved stays.
    fn release(&mut self, id: &StreamId) -> Result<Option<u64>, Fault> {
        let Some(held) = self.held.get_mut(id) else { return Ok(None) };
        held.save()?;
        self.shared.table.remove(id);
        let kept = held.keep_pending();
        let step = held.session.batches_seen();
        self.held.remove(id);
        kept.map(|()| Some(step))
    }

    fn infer(&mut self, job: Job) {
        let begun = Instant::now();
        self.shared.metrics.queue.add(begun.duration_since(job.accepted));
        let answer = self.answer(&job);
        self.shared.metrics.predict.add(begun.elapsed());
        let Job { stream, bounds, reply, slot, .. } = job;
        let is_answered = answer.is_ok();
        let _ = reply.send(answer);
        drop(slot);
        let closed =
            if bounds.end && is_answered { self.end(&stream) } else { self.make_room(&stream) };
        if let Err(fault) = closed {
            log("error", "save", &json!({ "stream": stream, "error": format!("{fault:?}") }));
        }
    }

    fn end(&mut self, stream: &StreamId) -> Result<(), Fault> {
        let count = self.shared.options.snapshots;
        if let Some(held) = self.held.get_mut(stream) {
            held.keep(count)?;
        }
        self.evict(stream, "the sequence ended")
    }

    fn answer(&mut self, job: &Job) -> Result<Answer, Fault> {
        let shared = Arc::clone(&self.shared);
        let held = self.open(&job.stream)?;
        if job.bounds.start && held.session.batches_seen() > 0 {
            held.snapshot(shared.options.snapshots)?;
            held.reset()?;
            shared.journal.audit(job.stream.as_str(), "reset", "the sequence began", 0);
        }
        let is_step = job.intent == Intent::AdaptFirst && !held.is_frozen();
        let logits = if is_step {
            held.step(&job.images, &shared)?.logits
        } else {
            held.session.method().predict(&job.images)?
        };
        let mut inside = held.live.lock();
        inside.used = Some(Instant::now());
        let answer = Answer::new(&logits, inside.facts.clone(), is_step)?;
        shared.answered(&mut inside, &job.images, job.intent);
        Ok(answer)
    }

    /// Learns from images that wait.
    fn lesson(&mut self, stream: &StreamId) {
        let shared = Arc::clone(&self.shared);
        let Some(held) = self.held.get_mut(stream) else { return };
        let lesson = {
            let mut inside = held.live.lock();
            if !inside.is_due(&shared.options) {
                return;
            }
            inside.pending.take(shared.options.batch)
        };
        let learnt = lesson
            .map_err(Fault::from)
            .and_then(|lesson| lesson.map(|images| held.step(&images, &shared)).transpose());
        if let Err(fault) = learnt {
            log("error", "step", &json!({ "stream": stream, "error": format!("{fault:?}") }));
            shared.journal.audit(
                stream.as_str(),
                "step failed",
                &format!("{fault:?}"),
                held.session.batches_seen(),
            );
        }
        if let Err(fault) = self.make_room(stream) {
            log("error", "evict", &json!({ "error": format!("{fault:?}") }));
        }
    }

    fn command(&mut self, stream: &StreamId, command: Command) -> Result<Done, Fault> {
        if !self.held.contains_key(stream) && !self.shared.path(stream).exists() {
            return Err(Fault::NotFound(format!(
                "stream: expected one that has been used, found {stream}"
            )));
        }
        let shared = Arc::clone(&self.shared);
        let held = self.open(stream)?;
        match command {
            Command::Snapshot => held.snapshot(shared.options.snapshots)?,
            Command::RollBack(step) => held.roll_back(step)?,
            Command::Pin(step) => held.pin(step)?,
            Command::Unpin(step) => held.unpin(step)?,
            Command::Reset => held.reset()?,
            Command::Freeze => held.set_frozen(true)?,
            Command::Resume => held.set_frozen(false)?,
        }
        let (step, version) = (held.session.batches_seen(), held.version());
        shared.journal.audit(stream.as_str(), command.name(), "asked for", step);
        Ok(Done { stream: stream.clone(), action: command.name(), step, version })
    }
}
