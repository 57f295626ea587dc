//! What can be wrong with a checkpoint, told with the file's name.
//!
//! Readers work on bytes and return a [`Fault`]; the entry points add the path and the format, so that the name of the
//! file is in every message and in one place of the code.

use std::path::PathBuf;

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
    /// The first bytes belong to no format that is read here.
    #[error("not a checkpoint: {found}; {KNOWN_FORMATS}: {}", path.display())]
    UnknownFormat {
        /// What the file seems to be.
        found: String,
        /// The file concerned.
        path: PathBuf,
    },
    /// The file breaks the rules of its format, or holds what is not read here.
    #[error("bad {format} file: {fault}: {}", path.display())]
    Malformed {
        /// The format that the first bytes announce.
        format: Format,
        /// What is wrong.
        fault: Fault,
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

const KNOWN_FORMATS: &str =
    "known are safetensors, PyTorch .pt/.pth/.th (zip and legacy), NumPy .npz and .npy";

/// What is wrong inside a file, without its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes end too early.
    #[error("truncated: {what} needs {needed} bytes, {available} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes it needs.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// A field holds an impossible value.
    #[error("{what}: expected {expected}, found {found}")]
    Invalid {
        /// The field.
        what: String,
        /// What would be right.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A claim exceeds what a file of this size may ask for.
    #[error(
        "{what} asks for {claimed} bytes, more than the {limit} that a file of this size may take"
    )]
    TooLarge {
        /// What asks.
        what: String,
        /// Bytes asked for.
        claimed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Something that would run code, or that no weights need.
    #[error("refused {what} {name:?}: {why}")]
    Refused {
        /// The kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why it is refused.
        why: &'static str,
    },
    /// One name stands for two things.
    #[error("the name {name:?} appears twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// An array that must be there is not.
    #[error("missing {name:?}")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A fault in one array.
    #[error("array {name:?}: {fault}")]
    InArray {
        /// The array's name.
        name: String,
        /// What is wrong with it.
        fault: Box<Fault>,
    },
}

impl Fault {
    pub(super) fn invalid(
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::Invalid {
            what: what.into(),
            expected: expected.into(),
            found: abridged(&found.to_string()),
        }
    }

    pub(super) fn in_array(self, name: &str) -> Self {
        Self::InArray { name: abridged(name), fault: Box::new(self) }
    }
}

/// A message stays readable (and small) whatever the file puts into it.
pub(super) fn abridged(text: &str) -> String {
    const LIMIT: usize = 160;
    match text.char_indices().nth(LIMIT) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}...", &text[..cut]),
    }
}

/// The result of this module.
pub type Result<T> = std::result::Result<T, Error>;
