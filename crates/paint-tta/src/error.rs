//! The one error of the library.

use std::fmt;

use paint_run::Error as Run;

/// What kind of thing went wrong, for programs that decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request makes no sense: an unknown name, a setting out of range, a GPU that is not there.
    Request,
    /// The weights cannot be read, or make no network that is known here.
    Weights,
    /// An image cannot be read, or does not fit the model.
    Image,
    /// A saved state is missing or damaged, or belongs to another model or method.
    State,
    /// The batch does not fit into the memory of the device.
    Memory,
    /// Anything else: the operating system refused, or a method failed.
    Failed,
}

/// The error of every fallible function here; those of [`run`](crate::run), [`bench`](crate::bench) and
/// [`method`](crate::method) become one with `?`.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    source: Box<Run>,
}

/// The result of every fallible function here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What went wrong with a saved state.
    pub(crate) fn of_state(source: Run) -> Self {
        Self { kind: ErrorKind::State, source: Box::new(source) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.source)
    }
}

impl<E: Into<Run>> From<E> for Error {
    fn from(error: E) -> Self {
        let source = error.into();
        Self { kind: kind(&source), source: Box::new(source) }
    }
}

fn kind(error: &Run) -> ErrorKind {
    match error {
        Run::BatchTooLarge { .. } => ErrorKind::Memory,
        Run::Method(error) if error.is_out_of_memory() => ErrorKind::Memory,
        error if error.is_usage() => ErrorKind::Request,
        Run::Weights { .. }
        | Run::NotFiniteWeights { .. }
        | Run::ForeignNetwork { .. }
        | Run::UnknownNetwork { .. }
        | Run::Model(_)
        | Run::Arrays(_) => ErrorKind::Weights,
        Run::Data(_)
        | Run::ImageSize { .. }
        | Run::NotFinite { .. }
        | Run::Method(paint_methods::Error::Images { .. }) => ErrorKind::Image,
        Run::Checkpoint { .. } | Run::OtherState { .. } => ErrorKind::State,
        _ => ErrorKind::Failed,
    }
}
