//! What can go wrong between weights, models and updates.

use std::fmt;

use crate::checkpoint::foreign;

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

impl Error {
    /// True if the request is wrong, as opposed to the work having failed.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Argument { .. } => true,
            Self::Tensor(error) => error.is_usage(),
            _ => false,
        }
    }
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
const SHOWN: usize = 5;

/// The first names, and how many more there are.
fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (verb, rest, parts) in [
            ("lack", "missing", foreign::missing(&self.missing)),
            ("have", "unexpected", foreign::extra(&self.extra)),
        ] {
            for (words, names) in &parts.known {
                write!(f, " they {verb} {words} ({});", listed(names))?;
            }
            if !parts.other.is_empty() {
                write!(f, " {rest}: {};", listed(&parts.other))?;
            }
        }
        for (name, expected, found) in self.misshaped.iter().take(SHOWN) {
            write!(f, " {name:?} expected shape {expected:?}, found {found:?};")?;
        }
        match self.misshaped.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " {more} more of another shape;"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misfit_is_told_in_words_where_there_are_some() {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        let misfit = Misfit {
            missing: names(&["head.weight", "head.bias", "norm.bias"]),
            extra: (0..12).map(|i| format!("blocks.{i}.attn.q_norm.weight")).collect(),
            misshaped: vec![("pos_embed".into(), vec![1, 5, 8], vec![1, 4, 8])],
        };
        let text = misfit.to_string();
        assert!(text.starts_with(" they lack a classifier"), "{text}");
        assert!(text.contains("missing: \"norm.bias\";"), "{text}");
        assert!(text.contains("they have norms of queries and keys"), "{text}");
        assert!(text.contains("\"blocks.4.attn.q_norm.weight\" and 7 more"), "{text}");
        assert!(text.ends_with("expected shape [1, 5, 8], found [1, 4, 8];"), "{text}");
    }
}
