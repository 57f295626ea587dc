//! The thread that owns the states: it takes steps, answers what only it can answer, saves, restores and evicts.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Shared;
use super::held::Held;
use super::job::{Answer, Intent, Job};
use super::next;
use super::task::{Command, Done, Task};
use crate::fault::Fault;
use crate::journal::log;
use crate::stream::Key;

/// How long it waits for a task before it looks for images that wait.
const TICK: Duration = Duration::from_millis(100);

/// The thread's own.
pub(super) struct Learn {
    shared: Arc<Shared>,
    held: BTreeMap<Key, Held>,
    /// Streams that were ever asked for, here or on the disk.
    known: BTreeSet<Key>,
    looked: Instant,
}

impl Learn {
    #[expect(clippy::mutable_key_type, reason = "keys are ordered by names, which never change")]
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let known = shared.saved().unwrap_or_default().into_iter().collect();
        Self { shared, held: BTreeMap::new(), known, looked: Instant::now() }
    }

    /// Works until nobody can ask for anything, then saves everything.
    pub(super) fn run(self, tasks: &Receiver<Task>) {
        let shared = Arc::clone(&self.shared);
        let (stop, stopped) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            if let Some(lease) = shared.options.lease {
                scope.spawn(move || renew(&shared, lease / 3, &stopped));
            }
            self.work(tasks);
            drop(stop);
        });
    }

    fn work(mut self, tasks: &Receiver<Task>) {
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
                self.shared.has_lost.store(true, Ordering::Relaxed);
                log("error", "save", &json!({ "stream": stream, "error": format!("{fault:?}") }));
            }
        }
    }

    /// A stream whose work panicked is forgotten, and comes back from its last save.
    fn surviving(&mut self, stream: &Key, work: impl FnOnce(&mut Self)) {
        self.shared.is_learning.store(true, Ordering::Relaxed);
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        self.shared.is_learning.store(false, Ordering::Relaxed);
        if done.is_err() {
            self.held.remove(stream);
            self.shared.table.remove(stream);
            log("error", "panic", &json!({ "thread": "learn", "stream": stream }));
            self.shared.journal.audit(stream, "restore", "the step panicked", 0);
        }
    }

    /// Streams with images that have waited for long enough.
    fn due(&self) -> Vec<Key> {
        let is_due = |held: &&Held| held.live.lock().is_due(&self.shared.options);
        self.held.values().filter(is_due).map(|held| held.live.key.clone()).collect()
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
    fn open(&mut self, id: &Key) -> Result<&mut Held, Fault> {
        self.forget_if_lost(id);
        if !self.held.contains_key(id) {
            let is_saved = id.find().is_some();
            let most = self.shared.options.limits.streams;
            if !self.known.contains(id) && self.known.len() >= most {
                return Err(Fault::Busy(format!(
                    "streams: expected at most {most}, found one more: {id}"
                )));
            }
            let held = Held::open(id)?;
            let step = held.session.batches_seen();
            self.known.insert(id.clone());
            let how = if is_saved { "restore" } else { "begin" };
            self.shared.journal.audit(id, how, "asked for", step);
            self.shared.table.insert(Arc::clone(&held.live));
            self.held.insert(id.clone(), held);
            self.make_room(id);
        }
        let held = self.held.get_mut(id);
        held.ok_or_else(|| Fault::Failed(format!("expected stream {id} in memory, found none")))
    }

    /// Lets go of a stream that another server has, or may have. What it learnt and did not save is not worth keeping.
    fn forget_if_lost(&mut self, id: &Key) {
        if let Some(held) = self.held.get(id).filter(|held| !held.live.is_ours()) {
            let step = held.session.batches_seen();
            self.shared.table.remove(id);
            self.held.remove(id);
            self.shared.journal.audit(id, "lose", "the lease has run out or was taken", step);
        }
    }

    /// Moves the streams that were not used for the longest time to the disk, until the rest fits. One that cannot be
    /// saved stays, and is tried again after all others: a disk that is full for one is often full for all, and whoever
    /// asks for this stream should not wait for that.
    fn make_room(&mut self, id: &Key) {
        while self.shared.table.bytes() > self.shared.options.stream_memory
            && let Some(oldest) = self.shared.table.oldest(id)
        {
            if let Err(fault) = self.evict(&oldest, "memory") {
                log("error", "evict", &json!({ "stream": oldest, "error": format!("{fault:?}") }));
                self.shared.table.touch(&oldest);
                return;
            }
        }
    }

    /// Moves a stream to the disk, on record.
    fn evict(&mut self, id: &Key, why: &str) -> Result<(), Fault> {
        let Some(step) = self.release(id)? else { return Ok(()) };
        id.model.metrics.evictions.add(1);
        self.shared.journal.audit(id, "evict", why, step);
        Ok(())
    }

    /// Saves a stream and lets go of it. Says after how many steps; one that cannot be saved stays.
    fn release(&mut self, id: &Key) -> Result<Option<u64>, Fault> {
        self.forget_if_lost(id);
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
        let model = Arc::clone(&job.stream.model);
        model.metrics.queue.add(begun.duration_since(job.accepted));
        let answer = self.answer(&job);
        model.metrics.predict.add(begun.elapsed());
        let Job { stream, bounds, reply, slot, .. } = job;
        let is_answered = answer.is_ok();
        // Whoever asks again on this answer finds the room free.
        drop(slot);
        let _ = reply.send(answer);
        if !(bounds.end && is_answered) {
            self.make_room(&stream);
        } else if let Err(fault) = self.end(&stream) {
            log("error", "save", &json!({ "stream": stream, "error": format!("{fault:?}") }));
        }
    }

    fn end(&mut self, stream: &Key) -> Result<(), Fault> {
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
            shared.journal.audit(&job.stream, "reset", "the sequence began", 0);
        }
        let is_step = job.intent == Intent::AdaptFirst && !held.is_frozen();
        let logits = if is_step {
            let stepped = held.step(&job.images, &shared);
            stepped.map_err(|fault| held.explain(fault))?.logits
        } else {
            held.session.method().predict(&job.images)?
        };
        held.confirm()?;
        let facts = {
            let mut inside = held.live.lock();
            inside.used = Some(Instant::now());
            inside.facts.clone()
        };
        let answer = Answer::new(&logits, facts, is_step)?;
        shared.answered(&held.live, &job.images, job.intent);
        Ok(answer)
    }

    /// Learns from images that wait.
    fn lesson(&mut self, stream: &Key) {
        let shared = Arc::clone(&self.shared);
        self.forget_if_lost(stream);
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
                stream,
                "step failed",
                &format!("{fault:?}"),
                held.session.batches_seen(),
            );
        }
        self.make_room(stream);
    }

    fn command(&mut self, stream: &Key, command: Command) -> Result<Done, Fault> {
        if !self.held.contains_key(stream) && !stream.is_known() {
            return Err(Fault::NotFound(format!(
                "stream: expected one that has been used, found {stream}"
            )));
        }
        let shared = Arc::clone(&self.shared);
        let command = match self.open(stream) {
            Err(damage @ Fault::Damaged(_)) => {
                let found = damage.message().to_owned();
                log("error", "damage", &json!({ "stream": stream, "error": found }));
                Held::heal(stream, command, damage, &shared)?
            }
            opened => opened.map(|_| command)?,
        };
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
        held.confirm()?;
        let (step, version) = (held.session.batches_seen(), held.version());
        shared.journal.audit(stream, command.name(), "asked for", step);
        Ok(Done { stream: stream.id.clone(), action: command.name(), step, version })
    }
}

/// Renews the leases of streams in memory until the other end is gone.
fn renew(shared: &Shared, every: Duration, stopped: &Receiver<()>) {
    while matches!(stopped.recv_timeout(every), Err(RecvTimeoutError::Timeout)) {
        for live in shared.table.all() {
            if let Some(lease) = &live.lease {
                lease.renew();
            }
        }
    }
}
