//! What clients call a stream, and the name of its file.

use std::fmt;
use std::fmt::Write as _;

use serde::Serialize;

use crate::fault::Fault;

/// The longest id; each byte may take three in a file's name.
const LONGEST: usize = 64;

/// The id of a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct StreamId(String);

/// Whether a request begins or ends its sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// What was learnt before is kept as a snapshot and forgotten.
    pub(crate) start: bool,
    /// The state goes to the disk.
    pub(crate) end: bool,
}

impl Default for StreamId {
    /// The stream of requests that name none.
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl StreamId {
    /// The id that a client gives; an empty one means none.
    pub(crate) fn new(text: &str) -> Result<Option<Self>, Fault> {
        if text.len() > LONGEST {
            let found = format!("one of {} bytes", text.len());
            return Err(Fault::expected("stream", format!("an id of 1 to {LONGEST} bytes"), found));
        }
        if text.chars().any(char::is_control) {
            let found = format!("{:?}", text.escape_debug().to_string());
            return Err(Fault::expected("stream", "an id without control characters", found));
        }
        Ok((!text.is_empty()).then(|| Self(text.to_owned())))
    }

    /// The id of a number; 0 means none.
    pub(crate) fn number(number: u64) -> Option<Self> {
        (number != 0).then(|| Self(number.to_string()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the state's file: letters, digits, `-` and `_` as they are, all else as `%XX`.
    pub(crate) fn file_name(&self) -> String {
        self.stem() + EXTENSION
    }

    /// The name without its ending; it has no dot.
    pub(crate) fn stem(&self) -> String {
        let mut name = String::new();
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
                _ => write!(name, "%{byte:02X}").unwrap_or_default(),
            }
        }
        name
    }

    /// The id that a file's name stands for.
    pub(crate) fn of_file(name: &str) -> Option<Self> {
        Self::of_stem(name.strip_suffix(EXTENSION)?)
    }

    /// The id that a file's name without its ending stands for.
    pub(crate) fn of_stem(name: &str) -> Option<Self> {
        let mut bytes = Vec::new();
        let mut rest = name.as_bytes();
        while let Some((&first, tail)) = rest.split_first() {
            rest = tail;
            if first != b'%' {
                bytes.push(first);
                continue;
            }
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        }
        let id = Self::new(&String::from_utf8(bytes).ok()?).ok()??;
        (id.stem() == name).then_some(id)
    }
}

const EXTENSION: &str = ".safetensors";

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_a_file_of_its_own_and_comes_back_from_its_name() {
        for text in ["default", "../../etc/passwd", "Ä/ö", "a.b", ".", "%41", "a b"] {
            let id = StreamId::new(text).unwrap().unwrap();
            let name = id.file_name();
            assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
            assert_eq!(StreamId::of_file(&name), Some(id));
        }
        assert_eq!(StreamId::of_file("%4.safetensors"), None);
        assert_eq!(StreamId::of_file("%41.safetensors"), None, "A is written as it is");
        assert_eq!(StreamId::of_file("default.safetensors.000000001"), None);
    }

    #[test]
    fn no_id_is_none_and_a_bad_one_is_refused() {
        assert_eq!(StreamId::new("").unwrap(), None);
        assert_eq!(StreamId::number(0), None);
        assert_eq!(StreamId::number(7), StreamId::new("7").unwrap());
        assert!(StreamId::new(&"x".repeat(65)).is_err());
        assert!(StreamId::new("a\nb").is_err());
    }
}
