//! Where answers are computed: two threads of their own, each behind a bounded queue.
//!
//! One predicts with what was published; the other owns the states, takes steps, saves and restores. A prediction
//! reads a [`Predictor`](paint_methods::Predictor), so it does not wait for a step, nor for the kernels of one. A full
//! queue refuses; nothing waits for room.

mod heal;
mod held;
mod job;
mod learn;
mod pool;
mod predict;
mod task;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use paint_tensor::Tensor;
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::journal::Journal;
use crate::metrics::{self, Source};
use crate::model::Model;
use crate::options::Options;
use crate::stream::{Key, Live, Table};
pub(crate) use job::{Answer, Intent, Job, Slot, late};
use learn::Learn;
use pool::Predicting;
use task::Task;
pub(crate) use task::{Command, Done};

/// Administration that may wait.
const COMMANDS: usize = 64;

/// What both threads and the listeners share.
pub(crate) struct Shared {
    /// At least one.
    pub(crate) models: Vec<Arc<Model>>,
    pub(crate) options: Options,
    pub(crate) table: Table,
    pub(crate) journal: Journal,
    queued: Arc<AtomicUsize>,
    /// Whether the thread that learns is at work.
    is_learning: AtomicBool,
    /// Whether a state could not be saved in the end.
    pub(crate) has_lost: AtomicBool,
}

impl Shared {
    pub(crate) fn new(models: Vec<Arc<Model>>, options: Options, journal: Journal) -> Self {
        let (table, queued) = (Table::default(), Arc::default());
        let (is_learning, has_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { models, options, table, journal, queued, is_learning, has_lost }
    }

    /// The model of this name.
    pub(crate) fn model(&self, name: &str) -> std::result::Result<&Arc<Model>, Fault> {
        self.models.iter().find(|model| model.name == name).ok_or_else(|| {
            let known: Vec<String> =
                self.models.iter().map(|model| format!("{:?}", model.name)).collect();
            Fault::NotFound(format!("model: expected {}, found {name:?}", known.join(" or ")))
        })
    }

    /// The streams on the disk.
    pub(crate) fn saved(&self) -> std::io::Result<Vec<Key>> {
        let mut found = Vec::new();
        for model in &self.models {
            let key = |id| Key { model: Arc::clone(model), id };
            found.extend(model.storage.saved()?.into_iter().map(key));
        }
        Ok(found)
    }

    /// What is measured now, as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        let measured = self.models.iter().map(|model| Source {
            model: &model.name,
            metrics: &model.metrics,
            gauges: self.table.gauges(&model.name),
        });
        let sources: Vec<_> = measured.collect();
        metrics::text(&sources, self.queued.load(Ordering::Relaxed))
    }

    /// Counts images that were answered, and keeps those that are to be learnt from. Says how many wait.
    fn answered(&self, live: &Live, images: &Tensor, intent: Intent) -> usize {
        let metrics = &live.key.model.metrics;
        let mut inside = live.lock();
        let count = images.shape().first().copied().unwrap_or(0);
        inside.images += count as u64;
        metrics.images.add(count as u64);
        if intent == Intent::PredictFirst && !inside.is_frozen && !inside.is_closed {
            let dropped = inside.pending.push(images.clone(), 2 * self.options.batch.max(count));
            metrics.unlearnt.add(dropped as u64);
        }
        inside.pending.len()
    }

    /// Room for so many images, or the refusal.
    pub(crate) fn reserve(&self, images: usize) -> std::result::Result<Slot, Fault> {
        let most = self.options.limits.queued;
        let slot = Slot::new(images, &self.queued);
        let waiting = self.queued.load(Ordering::Relaxed);
        if waiting > most {
            let found = waiting - images;
            return Err(Fault::Busy(format!(
                "queue: expected room for {images} images, found {found} of {most} taken"
            )));
        }
        Ok(slot)
    }
}

/// The threads, and the way to them.
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    predict: SyncSender<Job>,
    learn: SyncSender<Task>,
}

/// The threads, to be waited for.
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    /// Waits until everything that was accepted is done and every state is saved. The engine must be gone.
    pub(crate) fn join(self) {
        for thread in self.0 {
            // What a thread panicked of was logged when it happened.
            let _ = thread.join();
        }
    }
}

impl Engine {
    /// Starts the threads.
    pub(crate) fn start(shared: Arc<Shared>) -> Result<(Self, Threads)> {
        let room = shared.options.limits.queued.max(1);
        let (predict, jobs) = sync_channel(room);
        let (learn, tasks) = sync_channel(room + COMMANDS);
        let learner = Learn::new(Arc::clone(&shared));
        let (to_learn, at_predict) = (learn.clone(), Arc::clone(&shared));
        let (predicting, stepping) = (Predicting::new()?, pool::for_steps()?);
        let predicts = move || predict::run(&jobs, &to_learn, &at_predict, &predicting);
        let threads = vec![
            spawn("predict", predicts)?,
            spawn("learn", move || stepping.install(move || learner.run(&tasks)))?,
        ];
        Ok((Self { shared, predict, learn }, Threads(threads)))
    }

    /// Puts a job into the queue of the thread that answers it.
    pub(crate) fn submit(&self, job: Job) -> std::result::Result<(), Fault> {
        if job.is_for_learner() {
            return sent(self.learn.try_send(Task::Infer(job)));
        }
        sent(self.predict.try_send(job))
    }

    /// Does something to a stream.
    pub(crate) async fn command(
        &self,
        stream: Key,
        command: Command,
    ) -> std::result::Result<Done, Fault> {
        let (reply, done) = oneshot::channel();
        sent(self.learn.try_send(Task::Command { stream, command, reply }))?;
        done.await
            .unwrap_or_else(|_| Err(Fault::Failed("the action failed; see the log".to_owned())))
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(Error::Thread)
}

fn sent<T>(result: std::result::Result<(), TrySendError<T>>) -> std::result::Result<(), Fault> {
    result.map_err(|error| match error {
        TrySendError::Full(_) => {
            Fault::Busy("queue: expected room for a request, found none".to_owned())
        }
        TrySendError::Disconnected(_) => Fault::Late("the server is about to end".to_owned()),
    })
}

/// The next task within a while; none at the end of it, an error at the end of all.
fn next<T>(
    queue: &Receiver<T>,
    wait: std::time::Duration,
) -> std::result::Result<Option<T>, std::sync::mpsc::RecvError> {
    use std::sync::mpsc::{RecvError, RecvTimeoutError};
    match queue.recv_timeout(wait) {
        Ok(task) => Ok(Some(task)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(RecvError),
    }
}
