//! What the thread that learns can be asked for.

use serde::Serialize;
use tokio::sync::oneshot;

use super::job::Job;
use crate::fault::Fault;
use crate::stream::StreamId;

/// Something to do.
pub(super) enum Task {
    /// A request that only this thread can answer.
    Infer(Job),
    /// Enough images of a stream wait.
    Lesson(StreamId),
    /// Somebody wants something done to a stream.
    Command { stream: StreamId, command: Command, reply: oneshot::Sender<Result<Done, Fault>> },
}

impl Task {
    /// The stream that it is about.
    pub(super) fn stream(&self) -> &StreamId {
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
            Self::Reset => "reset",
            Self::Freeze => "freeze",
            Self::Resume => "resume",
        }
    }

    /// The command of this name; `step` is for a rollback.
    pub(crate) fn from_name(name: &str, step: Option<u64>) -> Option<Self> {
        let all = [Self::Snapshot, Self::RollBack(step), Self::Reset, Self::Freeze, Self::Resume];
        all.into_iter().find(|command| command.name() == name)
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
