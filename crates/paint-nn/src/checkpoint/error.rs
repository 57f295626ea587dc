//! What can be wrong with a checkpoint, with the name of the file.
//!
//! Readers work on bytes and return a [`Fault`]; the entry points add the path and the format, so that the name of the
//! file is in every message and in one place of the code.

use std::path::PathBuf;

use paint_files::Fault;

use super::{Convention, Format};

/// The error of this module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action}: {source}: {}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The system's own error.
        source: std::io::Error,
        /// The file concerned.
        path: PathBuf,
    },
    /// The first bytes belong to no supported format.
    #[error("not a checkpoint: {found}; {KNOWN_FORMATS}: {}", path.display())]
    UnknownFormat {
        /// What the file seems to be.
        found: String,
        /// The file concerned.
        path: PathBuf,
    },
    /// The file breaks the rules of its format, or holds something unsupported.
    #[error("bad {format} file: {fault}: {}", path.display())]
    Malformed {
        /// The format that the first bytes announce.
        format: Format,
        /// What is wrong.
        fault: Fault,
        /// The file concerned.
        path: PathBuf,
    },
    /// The file is not as it was written.
    #[error(
        "damaged: the SHA-256 at its end is not that of its content; put a sound copy in its place, or delete it and begin anew: {}",
        path.display()
    )]
    Damaged {
        /// The file concerned.
        path: PathBuf,
    },
    /// The file holds another kind of state, or none.
    #[error("expected {expected}, found {found}: {}", path.display())]
    Kind {
        /// What was asked for.
        expected: String,
        /// What is there.
        found: String,
        /// The file concerned.
        path: PathBuf,
    },
    /// The arrays cannot be brought to timm's names.
    #[error("{convention} names: {fault}")]
    Names {
        /// The naming convention found.
        convention: Convention,
        /// What is wrong.
        fault: Fault,
    },
    /// An architecture cannot be read off the arrays.
    #[error("architecture: {0}")]
    Architecture(Fault),
    /// A configuration file beside the weights says something impossible.
    #[error("{field:?}: expected {expected}, found {found}: {}", path.display())]
    Config {
        /// The field, dotted.
        field: String,
        /// What would be right.
        expected: &'static str,
        /// What is there.
        found: String,
        /// The file concerned.
        path: PathBuf,
    },
    /// Nothing says how images are to be prepared for these weights.
    #[error(
        "no preprocessing for these weights, and a wrong mean or standard deviation ruins accuracy silently: \
         looked for {looked_for}; put one of these files beside the weights or give {flags}: {}",
        path.display()
    )]
    NoPreprocessing {
        /// The files and fields that were looked for.
        looked_for: String,
        /// The flags that are still needed.
        flags: String,
        /// The weights concerned.
        path: PathBuf,
    },
}

impl Error {
    /// True if the request lacks something, as opposed to a file being at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoPreprocessing { .. })
    }
}

const KNOWN_FORMATS: &str =
    "known are safetensors, PyTorch .pt/.pth/.th (zip and legacy), NumPy .npz and .npy, ONNX";

/// The result of this module.
pub type Result<T> = std::result::Result<T, Error>;
