//! What can go wrong while adapting.

use std::path::PathBuf;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine refused an operation.
    #[error(transparent)]
    Tensor(#[from] paint_tensor::Error),
    /// A model, a loss, an update or a saved state was refused.
    #[error(transparent)]
    Nn(#[from] paint_nn::Error),
    /// A file of weights or statistics cannot be read or written.
    #[error(transparent)]
    Checkpoint(Box<paint_nn::checkpoint::Error>),
    /// Statistics do not belong to the network, or cannot be made for it.
    #[error("source statistics: expected {expected}, found {found}")]
    Statistics {
        /// What the network needs.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A file is not one of source statistics, or not as one is written.
    #[error("source statistics: expected {expected}, found {found}: {}", path.display())]
    StatisticsFile {
        /// What the file should hold.
        expected: String,
        /// What it holds.
        found: String,
        /// The file.
        path: PathBuf,
    },
    /// The name is no method's.
    #[error("unknown method {name:?}: known are {known}")]
    UnknownMethod {
        /// The name that was given.
        name: String,
        /// The names of the table.
        known: String,
    },
    /// A row cannot join a registry.
    #[error("cannot register method {name:?}: {why}")]
    Register {
        /// The name of the row.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The settings of a method are not what it accepts.
    #[error("settings of {method}: {why}")]
    Config {
        /// The method.
        method: &'static str,
        /// The parser's reason: unknown keys are named.
        why: String,
    },
    /// A saved state does not fit the method it is loaded into.
    #[error("saved state: expected {expected}, found {found}")]
    State {
        /// What the method needs.
        expected: String,
        /// What the state holds.
        found: String,
    },
    /// The images are not a batch that the model takes.
    #[error("images: expected {expected}, found {found}")]
    Images {
        /// What the model takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A step led to numbers that are not finite. The state is what it was before the step.
    #[error("{what} is {value} at step {step}; the step was undone")]
    Diverged {
        /// The loss or output that is not finite.
        what: &'static str,
        /// Its value.
        value: f32,
        /// The batch, counted from 0.
        step: u64,
    },
    /// A method that needs source data before it is deployed was given none.
    #[error("{method} needs {need} before it is deployed, and was given {found}")]
    NoSource {
        /// The method.
        method: &'static str,
        /// What is missing.
        need: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// The labels of the source data do not fit its images or the model.
    #[error("source labels: expected {expected}, found {found}")]
    SourceLabels {
        /// What the images and the model ask for.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A method of another crate failed for a reason of its own.
    #[error("{method}: {source}")]
    Other {
        /// The method.
        method: &'static str,
        /// Its error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The oracle needs the true domain.
    #[error("the oracle needs the true domain of each batch, and none was given")]
    NoDomain,
}

impl From<paint_nn::checkpoint::Error> for Error {
    fn from(error: paint_nn::checkpoint::Error) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

impl Error {
    /// True if the request is wrong, as opposed to the work having failed.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::UnknownMethod { .. } | Self::Config { .. } | Self::NoSource { .. } => true,
            Self::Tensor(error) => error.is_usage(),
            Self::Nn(error) => error.is_usage(),
            _ => false,
        }
    }

    /// True if a device had no memory left.
    pub fn is_out_of_memory(&self) -> bool {
        use paint_tensor::Error::OutOfMemory;
        matches!(
            self,
            Self::Tensor(OutOfMemory { .. })
                | Self::Nn(paint_nn::Error::Tensor(OutOfMemory { .. }))
        )
    }
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
