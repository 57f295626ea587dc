//! What can go wrong between weights, models and updates.

use std::fmt;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tensor engine refused.
    #[error(transparent)]
    Tensor(#[from] paint_tensor::Error),
    /// A tensor has another shape than its user needs.
    #[error("{what}: expected shape {expected:?}, got {got:?}")]
    Shape {
        /// The tensor.
        what: String,
        /// The shape that was needed; 0 stands for any size.
        expected: Vec<usize>,
        /// The shape that came.
        got: Vec<usize>,
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
    /// Weights and model have different parameters; every difference is listed.
    #[error("the weights do not fit {model}:{misfit}")]
    Weights {
        /// The backbone that was asked for.
        model: String,
        /// All differences.
        misfit: Misfit,
    },
    /// NaN or infinite numbers where an update would be poisoned by them.
    #[error("{what}: expected finite numbers, got NaN or infinity")]
    NotFinite {
        /// The tensor.
        what: &'static str,
    },
    /// A file of arrays could not be read or written.
    #[error(transparent)]
    File(#[from] crate::checkpoint::Error),
    /// A saved state lacks an entry.
    #[error("saved state: expected an entry {name:?}, found none")]
    State {
        /// The entry's name.
        name: String,
    },
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// How a set of weights differs from what a model expects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Misfit {
    /// Parameters the weights lack.
    pub missing: Vec<String>,
    /// Entries the model has no use for.
    pub extra: Vec<String>,
    /// Entries of another shape: name, expected, found.
    pub misshaped: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl Misfit {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.misshaped.is_empty()
    }
}

/// Names of one kind that a message has room for.
const TOLD: usize = 5;

fn more(count: usize) -> String {
    if count > TOLD { format!(" and {} more", count - TOLD) } else { String::new() }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, what: &str, names: &[String]| {
            if names.is_empty() {
                return Ok(());
            }
            write!(f, " {what} {:?}{};", &names[..names.len().min(TOLD)], more(names.len()))
        };
        named(f, "missing", &self.missing)?;
        named(f, "extra", &self.extra)?;
        for (name, expected, found) in self.misshaped.iter().take(TOLD) {
            write!(f, " {name:?} expected shape {expected:?}, found {found:?};")?;
        }
        write!(f, "{}", more(self.misshaped.len()))
    }
}
