//! Values against their ranges.

use serde::Serialize;
use toml::{Table, Value};

use crate::{Describe, Key, Kind};

/// A value that its key does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: expected {expected}, got {got}")]
pub struct OutOfRange {
    /// The key, dotted.
    pub key: String,
    /// What it takes.
    pub expected: String,
    /// What was given.
    pub got: String,
}

/// The first value of a table that is outside its range. Keys that are missing or unknown, and values of another
/// type, are left to serde, which refused them when the table was read.
pub fn check(keys: &[Key], table: &Table) -> Result<(), OutOfRange> {
    check_below("", keys, table)
}

/// The first field of declared settings that is outside its range, however they were made.
pub fn check_fields<T: Describe + Serialize>(settings: &T) -> Result<(), OutOfRange> {
    let written = Table::try_from(settings).map_err(|error| OutOfRange {
        key: "settings".to_owned(),
        expected: "values that TOML can hold".to_owned(),
        got: error.to_string(),
    });
    check(T::KIND.keys(), &written?)
}

fn check_below(prefix: &str, keys: &[Key], table: &Table) -> Result<(), OutOfRange> {
    for key in keys {
        if let Some(value) = table.get(key.name) {
            check_value(&format!("{prefix}{}", key.name), key.kind, value)?;
        }
    }
    Ok(())
}

fn check_value(key: &str, kind: Kind, value: &Value) -> Result<(), OutOfRange> {
    let holds = match (kind, value) {
        (Kind::Count(interval) | Kind::Number(interval), Value::Integer(x)) => {
            interval.contains(*x as f64)
        }
        (Kind::Number(interval), Value::Float(x)) => interval.contains(*x),
        (Kind::Table(keys), Value::Table(table)) => {
            return check_below(&format!("{key}."), keys, table);
        }
        (Kind::List(kind), Value::Array(values)) => {
            return values.iter().try_for_each(|value| check_value(key, *kind, value));
        }
        (Kind::Numbers(interval), Value::Array(values)) => {
            let kind = Kind::Number(interval);
            return values.iter().try_for_each(|value| check_value(key, kind, value));
        }
        _ => true,
    };
    if holds {
        return Ok(());
    }
    Err(OutOfRange { key: key.to_owned(), expected: kind.to_string(), got: value.to_string() })
}

#[cfg(test)]
mod tests {
    use crate::{Describe as _, above, at_least, between, check, choice, settings};

    choice! {
        /// Which
        #[derive(Default)]
        enum Which {
            /// The first one.
            #[default]
            First = "first",
            /// The second
            /// one.
            #[serde(alias = "2")]
            Second = "second",
        }
    }

    settings! {
        /// Inner
        #[derive(Debug, PartialEq)]
        struct Inner {
            /// Temperature
            #[within(above(0.0))]
            tau: f64,
        }
    }

    settings! {
        /// Outer
        #[derive(Debug, PartialEq)]
        struct Outer {
            /// How many
            #[within(between(1.0, 1024.0))]
            count: usize,
            /// Capacity, if any
            #[within(at_least(2.0))]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            capacity: Option<usize>,
            /// Which one
            which: Which,
            /// Nested keys
            inner: Inner,
            /// Values
            list: Vec<f64>,
            plain: bool,
        }
    }

    const TEXT: &str =
        "count = 3\nwhich = '2'\nlist = [1.0, 2]\nplain = true\n[inner]\ntau = 0.5\n";

    #[test]
    fn a_declaration_reads_writes_and_describes() {
        let outer: Outer = toml::from_str(TEXT).unwrap();
        assert_eq!((outer.count, outer.which, outer.inner.tau), (3, Which::Second, 0.5));
        assert_eq!(toml::from_str::<Outer>(&toml::to_string(&outer).unwrap()).unwrap(), outer);
        assert!(toml::from_str::<Outer>(&format!("odd = 1\n{TEXT}")).is_err());
        let keys = Outer::KIND.keys();
        let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        assert_eq!(names, ["count", "capacity", "which", "inner", "list", "plain"]);
        assert_eq!(keys[1].meaning(), "Capacity, if any");
        assert_eq!(keys[1].kind.to_string(), "2 or more");
        assert_eq!(keys[2].kind.choices()[1].meaning(), "The second one");
        assert_eq!(keys[3].kind.keys()[0].kind.to_string(), "above 0");
        assert_eq!(keys[4].kind.to_string(), "a list of numbers, any number");
        assert_eq!(keys[5].meaning(), "");
        assert_eq!(Which::default(), Which::First);
    }

    #[test]
    fn the_first_value_outside_its_range_is_named_by_its_whole_key() {
        let refused = |from: &str, to: &str| {
            let table = TEXT.replace(from, to).parse().unwrap();
            check(Outer::KIND.keys(), &table).unwrap_err().to_string()
        };
        check(Outer::KIND.keys(), &TEXT.parse().unwrap()).unwrap();
        assert_eq!(refused("count = 3", "count = 0"), "count: expected 1 to 1024, got 0");
        assert_eq!(refused("tau = 0.5", "tau = 0.0"), "inner.tau: expected above 0, got 0.0");
        assert_eq!(refused("[1.0, 2]", "[1.0, inf]"), "list: expected any number, got inf");
        assert_eq!(refused("plain", "capacity = 1\nplain"), "capacity: expected 2 or more, got 1");
    }
}
