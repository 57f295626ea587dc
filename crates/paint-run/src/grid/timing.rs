//! What depends on the machine and its load: kept apart from the results, which do not.

use std::path::Path;

use serde::{Deserialize, Serialize};

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
