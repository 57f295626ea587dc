//! The protocols inside the program, and those in files.

use std::path::Path;

use paint_run::{Error, Result};

use super::document::Protocol;

/// Name and document of each.
pub const PROTOCOLS: &[(&str, &str)] = &[
    ("cifar10-c", include_str!("../../../../protocols/cifar10-c.toml")),
    ("cifar10-c-gradual", include_str!("../../../../protocols/cifar10-c-gradual.toml")),
    ("imagenet-c-5k", include_str!("../../../../protocols/imagenet-c-5k.toml")),
    (
        "imagenet-c-5k-normalised",
        include_str!("../../../../protocols/imagenet-c-5k-normalised.toml"),
    ),
    ("imagenet-r", include_str!("../../../../protocols/imagenet-r.toml")),
    ("recurring", include_str!("../../../../protocols/recurring.toml")),
    ("mixed", include_str!("../../../../protocols/mixed.toml")),
    ("batch-1", include_str!("../../../../protocols/batch-1.toml")),
    ("embedded", include_str!("../../../../protocols/embedded.toml")),
    ("embedded-gradual", include_str!("../../../../protocols/embedded-gradual.toml")),
    ("embedded-recurring", include_str!("../../../../protocols/embedded-recurring.toml")),
    ("embedded-mixed", include_str!("../../../../protocols/embedded-mixed.toml")),
    ("embedded-batch-1", include_str!("../../../../protocols/embedded-batch-1.toml")),
];

impl Protocol {
    /// The built-in protocol of this name.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = PROTOCOLS.iter().find(|(known, _)| *known == name)?;
        Self::parse(text, name).ok()
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
        Self::parse(&text, name)
    }
}
