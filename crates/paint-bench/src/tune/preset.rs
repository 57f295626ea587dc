//! The settings of a method for some weights, as a file.

use std::path::Path;

use paint_run::experiment::write_text;
use paint_run::{Error, Result};
use serde::{Deserialize, Serialize};
use toml::Table;

/// Settings of one method, and how they were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The method's name.
    pub method: String,
    /// SHA-256 of the weights that they are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
    /// Every setting.
    pub settings: Table,
    /// What speaks for them; for people.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub evidence: Table,
}

const HEADER: &str = "# Settings for one model, chosen by `paint tune`; run, bench, adapt and serve take them with --preset.\n";

impl Preset {
    /// Reads a file; a setting that its method does not know is refused where it is used.
    pub fn read(path: &Path) -> Result<Self> {
        let text = paint_files::read_text(path).map_err(|source| Error::Io {
            action: "read",
            source,
            path: path.to_owned(),
        })?;
        let refuse = |why: &str| {
            Error::config(format!("{}: expected a file of `paint tune`: {why}", path.display()))
        };
        let table = text.parse().map_err(|error: toml::de::Error| refuse(error.message()))?;
        paint_settings::read(table).map_err(|misread| refuse(&misread.to_string()))
    }

    /// Writes a file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|error| Error::config(error.to_string()))?;
        write_text(path, &format!("{HEADER}{text}"))
    }
}

#[cfg(test)]
mod tests {
    use toml::toml;

    use super::*;

    #[test]
    fn a_preset_is_read_as_it_was_written_and_another_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("preset.toml");
        let preset = Preset {
            method: "tent".into(),
            weights_sha256: Some("ab".into()),
            settings: toml! { preset = "vit_cifar10" lr = 0.00316 },
            evidence: toml! { seeds = [0, 1] },
        };
        preset.write(&path).unwrap();
        assert_eq!(Preset::read(&path).unwrap(), preset);
        for (text, expected) in [("lr = 1", "lr"), ("method = 'tent'", "settings"), ("=", "")] {
            std::fs::write(&path, text).unwrap();
            let error = Preset::read(&path).unwrap_err();
            assert!(error.is_usage());
            let message = error.to_string();
            assert!(message.contains("preset.toml") && message.contains(expected), "{message}");
        }
        let missing = Preset::read(&folder.path().join("none.toml")).unwrap_err().to_string();
        assert!(missing.contains("cannot read"), "{missing}");
    }
}
