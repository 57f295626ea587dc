//! `events.jsonl`: every event, one JSON object a line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::event::{Event, Observer};
use crate::{Error, Result};

/// Appends events to a file as they happen.
pub struct EventLog {
    file: File,
    path: PathBuf,
}

/// As much of a line as tells which batch it is about.
#[derive(Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    index: usize,
}

impl EventLog {
    /// The log of a run that stands at batch `position`. What an interrupted run wrote beyond its last checkpoint is cut
    /// off, because those batches will be run again.
    pub fn open(path: &Path, position: usize) -> Result<Self> {
        let fail = |source| Error::Io { action: "write", source, path: path.to_owned() };
        let earlier = match fs::read(path) {
            Ok(bytes) if position > 0 => bytes,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            Ok(_) | Err(_) => Vec::new(),
        };
        let mut kept = 0;
        for line in earlier.split_inclusive(|byte| *byte == b'\n') {
            let happened = serde_json::from_slice::<Line>(line).is_ok_and(|line| {
                line.event != "run_done" && (line.event != "batch_done" || line.index < position)
            });
            if !happened || line.last() != Some(&b'\n') {
                break;
            }
            kept += line.len();
        }
        let open = || {
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            file.set_len(kept as u64)?;
            Ok(file)
        };
        Ok(Self { file: open().map_err(fail)?, path: path.to_owned() })
    }
}

impl Observer for EventLog {
    fn observe(&mut self, event: &Event) -> Result<()> {
        let mut line = serde_json::json!(event).to_string();
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|source| Error::Io {
            action: "write",
            source,
            path: self.path.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_the_checkpoint_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let lines = [
            r#"{"event":"run_started","position":0}"#,
            r#"{"event":"batch_done","index":0}"#,
            r#"{"event":"batch_done","index":1}"#,
            r#"{"event":"domain_done"}"#,
            r#"{"event":"batch_done","index":2}"#,
            r#"{"event":"batch_d"#,
        ];
        let keep = |position: usize| {
            fs::write(&path, lines.join("\n")).unwrap();
            EventLog::open(&path, position).unwrap();
            fs::read_to_string(&path).unwrap().lines().count()
        };
        assert_eq!([keep(0), keep(1), keep(2), keep(3), keep(9)], [0, 2, 4, 5, 5]);
    }
}
