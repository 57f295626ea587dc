//! The protocols inside the program, and those in files.
//!
//! A document that begins with `extends = "NAME"` takes from that built-in protocol every key it does not have
//! itself. A table counts as one key. What a protocol is called and what it is compared with is never taken over.

use std::path::Path;

use paint_run::{Error, Result};
use toml::Table;

use super::document::Protocol;

/// A row of [`PROTOCOLS`]: the name, and the document in the file of that name.
macro_rules! built_in {
    ($name:literal) => {
        ($name, include_str!(concat!("../../protocols/", $name, ".toml")))
    };
}

/// Keys that say what a protocol is, not what it does.
const OWN: [&str; 4] = ["name", "what", "reference", "paper"];

/// Name and document of each.
pub const PROTOCOLS: &[(&str, &str)] = &[
    built_in!("cifar10-c"),
    built_in!("cifar10-c-gradual"),
    built_in!("imagenet-c-5k"),
    built_in!("imagenet-c-5k-normalised"),
    built_in!("imagenet-r"),
    built_in!("recurring"),
    built_in!("recurring-correlated"),
    built_in!("mixed"),
    built_in!("batch-1"),
    built_in!("correlated"),
    built_in!("sorted"),
    built_in!("label-shift"),
    built_in!("interleaved"),
    built_in!("ramp"),
    built_in!("embedded"),
    built_in!("embedded-gradual"),
    built_in!("embedded-recurring"),
    built_in!("embedded-recurring-correlated"),
    built_in!("embedded-mixed"),
    built_in!("embedded-batch-1"),
    built_in!("embedded-correlated"),
    built_in!("embedded-sorted"),
    built_in!("embedded-label-shift"),
    built_in!("embedded-interleaved"),
    built_in!("embedded-ramp"),
];

impl Protocol {
    /// The built-in protocol of this name.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = PROTOCOLS.iter().find(|(known, _)| *known == name)?;
        Self::parse(&extended(text, name).ok()?, name).ok()
    }

    /// The built-in protocol of this name, or the document in the file of this name.
    pub fn find(name: &str) -> Result<Self> {
        if let Some(protocol) = Self::built_in(name) {
            return Ok(protocol);
        }
        let path = Path::new(name);
        if !path.exists() {
            let known: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            return Err(Error::config(format!(
                "protocol: expected a file or one of {known}, got {name:?}"
            )));
        }
        let read = paint_files::read_text(path);
        let text =
            read.map_err(|source| Error::Io { action: "read", source, path: path.to_owned() })?;
        Self::parse(&extended(&text, name)?, name)
    }
}

/// The document with the keys of the protocol that it extends, if it extends one.
fn extended(text: &str, origin: &str) -> Result<String> {
    let refuse = |why: String| Error::config(format!("protocol {origin}: {why}"));
    let read = |text: &str| text.parse::<Table>().map_err(|error| refuse(error.to_string()));
    let mut table = read(text)?;
    let Some(base) = table.remove("extends") else { return Ok(text.to_owned()) };
    let document = PROTOCOLS.iter().find(|(name, _)| base.as_str() == Some(name));
    let Some((_, document)) = document else {
        let known: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
        let known = known.join(", ");
        return Err(refuse(format!("extends: expected one of {known}, got {base}")));
    };
    let document = read(document)?;
    if document.contains_key("extends") {
        return Err(refuse(format!("extends: {base} extends another protocol itself")));
    }
    for (key, value) in document {
        if !OWN.contains(&key.as_str()) {
            table.entry(key).or_insert(value);
        }
    }
    toml::to_string(&table).map_err(|error| refuse(error.to_string()))
}
