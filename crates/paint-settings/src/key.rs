//! What is known of a key.

use std::fmt;
use std::path::PathBuf;

use crate::{Interval, Search};

/// One key of a table of settings.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The lines of its doc comment, as they were written.
    #[doc(hidden)]
    pub doc: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Where `paint tune` looks for a better value, if it does.
    pub search: Option<Search>,
}

/// What values a key takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Count(Interval),
    /// A number.
    Number(Interval),
    /// Any text.
    Text,
    /// One of several names.
    Choice(&'static [Choice]),
    /// Several numbers.
    Numbers(Interval),
    /// Several texts or tables.
    List(&'static Kind),
    /// A table of further keys.
    Table(&'static [Key]),
}

/// One of several names.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// The name in settings.
    pub name: &'static str,
    /// The lines of its doc comment, as they were written.
    #[doc(hidden)]
    pub doc: &'static str,
}

/// A type that says what values it takes.
pub trait Describe {
    /// What values it takes.
    const KIND: Kind;
}

impl Key {
    /// What it means, in one line.
    pub fn meaning(&self) -> String {
        one_line(self.doc)
    }
}

impl Choice {
    /// What it means, in one line.
    pub fn meaning(&self) -> String {
        one_line(self.doc)
    }
}

/// A doc comment without its line breaks and its last full stop.
fn one_line(doc: &str) -> String {
    let line = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    line.strip_suffix('.').unwrap_or(&line).to_owned()
}

impl Kind {
    /// The same with numbers of an interval only.
    #[must_use]
    pub const fn within(self, interval: Interval) -> Self {
        match self {
            Self::Count(_) => Self::Count(interval),
            Self::Number(_) => Self::Number(interval),
            Self::Numbers(_) => Self::Numbers(interval),
            other => other,
        }
    }

    /// The keys of a table.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Table(keys) => keys,
            _ => &[],
        }
    }

    /// The names to choose from.
    pub const fn choices(self) -> &'static [Choice] {
        match self {
            Self::Choice(choices) => choices,
            _ => &[],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("true or false"),
            Self::Count(interval) if interval.is_all() => f.write_str("a whole number"),
            Self::Count(interval) | Self::Number(interval) => interval.fmt(f),
            Self::Text => f.write_str("text"),
            Self::Numbers(interval) => write!(f, "a list of numbers, {interval}"),
            Self::List(kind) => write!(f, "a list, each {kind}"),
            Self::Table(_) => f.write_str("a table"),
            Self::Choice(choices) => {
                let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
                match names.split_last() {
                    Some((last, rest)) if !rest.is_empty() => {
                        write!(f, "{} or {last}", rest.join(", "))
                    }
                    _ => f.write_str(&names.concat()),
                }
            }
        }
    }
}

macro_rules! describe {
    ($($kind:expr => $($ty:ty),+;)+) => {
        $($(impl Describe for $ty { const KIND: Kind = $kind; })+)+
    };
}

describe! {
    Kind::Flag => bool;
    Kind::Count(Interval::ALL) => u8, u32, u64, usize;
    Kind::Number(Interval::ALL) => f32, f64;
    Kind::Text => String, PathBuf;
}

impl<T: Describe> Describe for Option<T> {
    const KIND: Kind = T::KIND;
}

impl<T: Describe> Describe for Vec<T> {
    const KIND: Kind = match T::KIND {
        Kind::Count(interval) | Kind::Number(interval) => Kind::Numbers(interval),
        _ => Kind::List(&T::KIND),
    };
}

impl<T: Describe, const N: usize> Describe for [T; N] {
    const KIND: Kind = <Vec<T> as Describe>::KIND;
}
