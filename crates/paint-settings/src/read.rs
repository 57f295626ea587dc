//! Tables as values of a type, with errors for people.

use serde::de::DeserializeOwned;
use toml::Table;

/// Why a table is not what it was read as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
pub struct Misread {
    /// The key, dotted, if it is not the table itself.
    pub key: Option<String>,
    /// What was expected, and what was found.
    pub why: String,
}

impl Misread {
    /// The same in a document that has the table below `parent`.
    #[must_use]
    pub fn below(self, parent: &str) -> Self {
        let key = self.key.map_or_else(|| parent.to_owned(), |key| format!("{parent}.{key}"));
        Self { key: Some(key), why: self.why }
    }
}

/// Reads a table. An error names the key, dotted, and says in the words of TOML what was expected there.
pub fn read<T: DeserializeOwned>(table: Table) -> Result<T, Misread> {
    table.try_into().map_err(|error: toml::de::Error| {
        // The only place that has the key.
        let told = error.to_string();
        let place =
            told.trim_end().rsplit_once("\nin `").and_then(|(_, key)| key.strip_suffix('`'));
        Misread { key: place.map(str::to_owned), why: in_words(error.message()) }
    })
}

/// The message of serde without the names of Rust's types.
fn in_words(message: &str) -> String {
    let refused = ["invalid type: ", "invalid value: ", "invalid ", "unknown variant "];
    let rest = refused.iter().find_map(|start| message.strip_prefix(start));
    match rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            format!("expected {}, found {}", type_name(expected), value(found))
        }
        None => message.to_owned(),
    }
}

/// What a type is called in TOML.
fn type_name(expected: &str) -> String {
    if let Some(length) = expected.strip_prefix("an array of length ") {
        return format!("a list of length {length}");
    }
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a non-negative whole number",
        "i8" => "a whole number from -128 to 127",
        "i16" => "a whole number from -32768 to 32767",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "path string" => "text",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
    .to_owned()
}

/// A value that was found, as it is written in TOML.
fn value(found: &str) -> String {
    for kind in ["integer ", "floating point ", "boolean ", "string "] {
        if let Some(value) = found.strip_prefix(kind) {
            return value.trim_matches('`').to_owned();
        }
    }
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        // An unknown name.
        other => other
            .strip_prefix('`')
            .and_then(|name| name.strip_suffix('`'))
            .map_or_else(|| other.to_owned(), |name| format!("{name:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Resize {
        IfNeeded,
        Always,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read, and never looked at")]
    struct Inner {
        count: Option<usize>,
        severity: Option<u8>,
        port: Option<u16>,
        batch: Option<u32>,
        shift: Option<i8>,
        offset: Option<i16>,
        level: Option<i32>,
        rate: Option<f32>,
        on: Option<bool>,
        name: Option<String>,
        path: Option<PathBuf>,
        list: Option<Vec<String>>,
        mean: Option<[f32; 3]>,
        resize: Option<Resize>,
        deeper: Option<Box<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "read, and never looked at")]
    struct Outer {
        inner: Inner,
    }

    fn refused(text: &str) -> String {
        read::<Outer>(text.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn a_value_of_another_type_is_named_with_what_was_expected_and_found() {
        for (assignment, message) in [
            ("count = 'many'", "count: expected a non-negative whole number, found \"many\""),
            ("count = -1", "count: expected a non-negative whole number, found -1"),
            ("count = 0.5", "count: expected a non-negative whole number, found 0.5"),
            ("severity = 300", "severity: expected a whole number from 0 to 255, found 300"),
            ("port = 65536", "port: expected a whole number from 0 to 65535, found 65536"),
            ("batch = -1", "batch: expected a whole number from 0 to 4294967295, found -1"),
            ("shift = 128", "shift: expected a whole number from -128 to 127, found 128"),
            ("offset = 40000", "offset: expected a whole number from -32768 to 32767, found 40000"),
            (
                "level = 3000000000",
                "level: expected a whole number from -2147483648 to 2147483647, found 3000000000",
            ),
            ("rate = true", "rate: expected a number, found true"),
            ("rate = 'a, expected b'", "rate: expected a number, found \"a, expected b\""),
            ("on = 1", "on: expected true or false, found 1"),
            ("name = 1", "name: expected text, found 1"),
            ("path = 1", "path: expected text, found 1"),
            ("name = []", "name: expected text, found a list"),
            ("list = 'a'", "list: expected a list, found \"a\""),
            ("mean = [0.5]", "mean: expected a list of length 3, found length 1"),
            ("resize = 'never'", "resize: expected `if_needed` or `always`, found \"never\""),
            ("deeper = 1", "deeper: expected a table, found 1"),
            ("deeper.deeper.rate = 'x'", "deeper.deeper.rate: expected a number, found \"x\""),
        ] {
            assert_eq!(refused(&format!("inner.{assignment}")), format!("inner.{message}"));
        }
    }

    #[test]
    fn what_is_unknown_or_missing_is_told_with_its_table() {
        let message = refused("[inner]\ncuont = 1");
        assert!(message.starts_with("inner: unknown field `cuont`, expected one of"), "{message}");
        assert_eq!(refused(""), "missing field `inner`");
    }
}
