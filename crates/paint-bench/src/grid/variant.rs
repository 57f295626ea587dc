//! A row of the table before it is run.

use paint_methods::settings::Settings;
use paint_run::Result;

/// A method with settings of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// What the row is called.
    pub label: String,
    /// The method's name.
    pub method: String,
    /// Its settings on top of the protocol's.
    pub settings: toml::Table,
}

impl Variant {
    /// A method under its own name, with the protocol's settings.
    pub fn plain(method: &str) -> Self {
        Self { label: method.into(), method: method.into(), settings: toml::Table::new() }
    }

    /// A method with typed settings, each of which counts, whatever the protocol says.
    pub fn typed<S: Settings>(label: &str, settings: &S) -> Result<Self> {
        Ok(Self::with(label, S::METHOD, settings.table()?))
    }

    /// A method with one or more settings changed.
    pub fn with(label: &str, method: &str, settings: toml::Table) -> Self {
        Self { label: label.into(), method: method.into(), settings }
    }
}
