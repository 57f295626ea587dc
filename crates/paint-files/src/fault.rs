//! What can be wrong inside a file.
//!
//! Readers of a format return a [`Fault`]; whoever opened the file adds its name, once.

use std::io;

/// What is wrong inside a file, without its name.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The operating system could not read the file.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
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
        "{what} asks for {claimed} bytes, more than the {limit} allowed for a file of this size"
    )]
    TooLarge {
        /// What asks.
        what: String,
        /// Bytes asked for.
        claimed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Something that would run code, or that no array needs.
    #[error("refused {what} {name:?}: {why}")]
    Refused {
        /// The kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why it is refused.
        why: &'static str,
    },
    /// Two things have the same name.
    #[error("the name {name:?} appears twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Something that must be there is not.
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
    /// A field `what` that holds something else than `expected`. What was found is abridged.
    pub fn invalid(
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

    /// The same fault, said of one array.
    #[must_use]
    pub fn in_array(self, name: &str) -> Self {
        Self::InArray { name: abridged(name), fault: Box::new(self) }
    }
}

/// The first 160 characters: a message stays readable whatever the file puts into it.
pub fn abridged(text: &str) -> String {
    const LIMIT: usize = 160;
    match text.char_indices().nth(LIMIT) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}...", &text[..cut]),
    }
}
