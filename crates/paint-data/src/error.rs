//! What can go wrong with a user's data, with the name of the file.

use std::path::PathBuf;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot read or write: {source}: {}", path.display())]
    Io {
        /// The system's own error.
        source: std::io::Error,
        /// The file concerned.
        path: PathBuf,
    },
    /// A file is not what it should be.
    #[error("expected {expected}, found {found}: {}", path.display())]
    Format {
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
        /// The file concerned.
        path: PathBuf,
    },
    /// One image is damaged or of an unsupported format. The other images of its dataset are not affected.
    #[error("expected {expected}, found {found}: {}", path.display())]
    Image {
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
        /// The image file.
        path: PathBuf,
    },
    /// A file breaks the rules of its format.
    #[error("{fault}: {}", path.display())]
    File {
        /// What is wrong inside it.
        fault: paint_files::Fault,
        /// The file concerned.
        path: PathBuf,
    },
    /// An argument names nothing or is out of range.
    #[error("{what}: expected {expected}, got {got:?}")]
    Argument {
        /// The argument.
        what: &'static str,
        /// What would be right.
        expected: String,
        /// What was given.
        got: String,
    },
    /// A setting is out of range.
    #[error(transparent)]
    OutOfRange(#[from] paint_settings::OutOfRange),
    /// Reading an image panicked: a fault of ours or of a decoder's, not of the caller.
    #[error("image {index} of domain {domain:?} broke its decoder: {message}")]
    Panic {
        /// The domain's name.
        domain: String,
        /// The image's place in it.
        index: usize,
        /// What the panic said.
        message: String,
    },
}

impl Error {
    /// True if the request is wrong, as opposed to the data.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Argument { .. } | Self::OutOfRange(_))
    }

    pub(crate) fn io(source: std::io::Error, path: impl Into<PathBuf>) -> Self {
        Self::Io { source, path: path.into() }
    }

    pub(crate) fn file(fault: paint_files::Fault, path: impl Into<PathBuf>) -> Self {
        match fault {
            paint_files::Fault::Io(source) => Self::io(source, path),
            fault => Self::File { fault, path: path.into() },
        }
    }

    /// Whether a single image is at fault, because it is damaged or breaks its decoder. A reader may skip it and go
    /// on with the others.
    pub fn is_damaged_image(&self) -> bool {
        matches!(self, Self::Image { .. } | Self::Panic { .. })
    }

    pub(crate) fn image(
        expected: impl Into<String>,
        found: impl Into<String>,
        path: impl Into<PathBuf>,
    ) -> Self {
        Self::Image { expected: expected.into(), found: found.into(), path: path.into() }
    }

    pub(crate) fn format(
        expected: impl Into<String>,
        found: impl Into<String>,
        path: impl Into<PathBuf>,
    ) -> Self {
        Self::Format { expected: expected.into(), found: found.into(), path: path.into() }
    }
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
