//! What depends on the machine and its load: kept apart from the results, which do not.

use std::io::ErrorKind;
use std::path::Path;

use paint_run::experiment::STATE_FILE;
use paint_run::metric::restart_peak_memory;
use paint_run::{Error, Result};
use serde::{Deserialize, Serialize};

/// Marks a run that shared the machine with others of its grid.
const SIDE_BY_SIDE: &str = "side-by-side";

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
    /// The largest memory on the GPU, or resident memory of the process, which may hold on to some of the cell before
    /// it.
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
        let text = match paint_files::read_text(&path) {
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

    /// Marks a run in `folder` that others disturb. The mark goes when the run starts anew and alone, not when it
    /// continues: the times of its first part are in its checkpoint.
    pub(super) fn begin(folder: &Path, jobs: usize) -> Result<()> {
        let mark = folder.join(SIDE_BY_SIDE);
        let marked = if jobs > 1 {
            paint_files::create_folder(folder).and_then(|()| std::fs::write(&mark, ""))
        } else if folder.join(STATE_FILE).exists() {
            restart_peak_memory();
            Ok(())
        } else {
            restart_peak_memory();
            match std::fs::remove_file(&mark) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        };
        marked.map_err(|source| Error::Io { action: "write", source, path: mark })
    }

    /// What the run in `folder` left in its `summary.json`; nothing of one that others disturbed.
    pub(super) fn read(folder: &Path, cell: &str, label: &str, device: &str) -> Option<Self> {
        if folder.join(SIDE_BY_SIDE).exists() {
            return None;
        }
        let text = paint_files::read_text(&folder.join("summary.json")).ok()?;
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
    fn a_run_that_was_disturbed_stays_marked_until_it_starts_anew() {
        let folder = tempfile::tempdir().unwrap();
        let cell = folder.path().join("cell");
        let begin = |jobs: usize| {
            CellTiming::begin(&cell, jobs).unwrap();
            cell.join(SIDE_BY_SIDE).exists()
        };
        assert!(!begin(1) && begin(4));
        // Without a checkpoint there is nothing to continue.
        assert!(!begin(1) && begin(4));
        std::fs::write(cell.join(STATE_FILE), "").unwrap();
        assert!(begin(1), "half of its time was measured beside three others");
        std::fs::remove_file(cell.join(STATE_FILE)).unwrap();
        assert!(!begin(1));
    }

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
