//! What depends on the machine and its load: kept apart from the results, which do not.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// One line of `timing.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellTiming {
    /// The cell.
    pub cell: String,
    /// Its row.
    pub label: String,
    /// Where it ran.
    pub device: String,
    /// Time in the method for each image, in milliseconds.
    pub ms_per_image: f64,
    /// The largest resident memory of the process; of the whole grid, if several cells ran at once.
    pub peak_memory_mib: Option<f64>,
}

#[derive(Deserialize)]
struct Summary {
    timing: Timing,
}

#[derive(Deserialize)]
struct Timing {
    images_per_s: f64,
    peak_memory_mib: Option<f64>,
}

impl CellTiming {
    /// The lines of `timing.jsonl` in a folder of results; none if it has no such file.
    pub fn lines(folder: &Path) -> Result<Vec<Self>> {
        let path = folder.join("timing.jsonl");
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            read => {
                read.map_err(|source| Error::Io { action: "read", source, path: path.clone() })?
            }
        };
        let line = |(at, line): (usize, &str)| {
            let why = |error| format!("line {}: {error}", at + 1);
            serde_json::from_str(line)
                .map_err(|error| Error::Results { why: why(error), path: path.clone() })
        };
        text.lines().enumerate().map(line).collect()
    }

    /// What the run in `folder` left in its `summary.json`.
    pub(super) fn read(folder: &Path, cell: &str, label: &str, device: &str) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join("summary.json")).ok()?;
        let Summary { timing } = serde_json::from_str(&text).ok()?;
        Some(Self {
            cell: cell.into(),
            label: label.into(),
            device: device.into(),
            ms_per_image: 1e3 / timing.images_per_s.max(f64::MIN_POSITIVE),
            peak_memory_mib: timing.peak_memory_mib,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_written_and_a_damaged_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(CellTiming::lines(folder.path()).unwrap(), []);
        let timing = CellTiming {
            cell: "1428ece50b20".into(),
            label: "cotta".into(),
            device: "cpu".into(),
            ms_per_image: 1.5,
            peak_memory_mib: None,
        };
        let text = serde_json::to_string(&timing).unwrap();
        let path = folder.path().join("timing.jsonl");
        std::fs::write(&path, format!("{text}\n")).unwrap();
        assert_eq!(CellTiming::lines(folder.path()).unwrap(), [timing]);
        std::fs::write(&path, format!("{text}\n{{\"cell\":")).unwrap();
        let message = CellTiming::lines(folder.path()).unwrap_err().to_string();
        assert!(message.contains("timing.jsonl") && message.contains("line 2"), "{message}");
    }
}
