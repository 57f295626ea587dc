//! What the thread that learns can be asked for.

use serde::Serialize;
use tokio::sync::oneshot;

use super::job::Job;
use crate::fault::Fault;
use crate::storage::StreamId;
use crate::stream::Key;

/// Something to do.
pub(super) enum Task {
    /// A request that only this thread can answer.
    Infer(Job),
    /// Enough images of a stream wait.
    Lesson(Key),
    /// Somebody wants something done to a stream.
    Command { stream: Key, command: Command, reply: oneshot::Sender<Result<Done, Fault>> },
}

impl Task {
    /// The stream that it is about.
    pub(super) fn stream(&self) -> &Key {
        match self {
            Self::Infer(job) => &job.stream,
            Self::Lesson(stream) | Self::Command { stream, .. } => stream,
        }
    }
}

/// What can be done to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Keep the state as it is now.
    Snapshot,
    /// Go back to the snapshot after so many steps, or to the newest that is older.
    RollBack(Option<u64>),
    /// Keep the snapshot after so many steps, or the newest, until it is unpinned.
    Pin(Option<u64>),
    /// Let newer snapshots take its place.
    Unpin(Option<u64>),
    /// Go back to the source model.
    Reset,
    /// Learn no more.
    Freeze,
    /// Learn again.
    Resume,
}

impl Command {
    /// Its name in the audit log and in addresses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::RollBack(_) => "rollback",
            Self::Pin(_) => "pin",
            Self::Unpin(_) => "unpin",
            Self::Reset => "reset",
            Self::Freeze => "freeze",
            Self::Resume => "resume",
        }
    }

    /// All of them; `step` is the snapshot for those that are about one.
    pub(crate) fn all(step: Option<u64>) -> [Self; 7] {
        let [roll_back, pin, unpin] = [Self::RollBack(step), Self::Pin(step), Self::Unpin(step)];
        [Self::Snapshot, roll_back, pin, unpin, Self::Reset, Self::Freeze, Self::Resume]
    }
}

/// The stream after a command.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Done {
    pub(crate) stream: StreamId,
    pub(crate) action: &'static str,
    pub(crate) step: u64,
    pub(crate) version: String,
}
