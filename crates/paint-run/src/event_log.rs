//! `events.jsonl`: every event, one JSON object a line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
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

/// The longest line that can be an event.
const LONGEST_LINE: u64 = 1 << 20;

impl EventLog {
    /// The log of a run that stands at batch `position`. What an interrupted run wrote beyond its last checkpoint is
    /// cut off, because those batches will be run again.
    pub fn open(path: &Path, position: usize) -> Result<Self> {
        let open = || {
            let kept = if position > 0 { happened(path, position)? } else { 0 };
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            file.set_len(kept)?;
            Ok(file)
        };
        let fail = |source| Error::Io { action: "write", source, path: path.to_owned() };
        Ok(Self { file: open().map_err(fail)?, path: path.to_owned() })
    }
}

/// The bytes of a log up to batch `position`, read line by line: a log has as many lines as its run has batches.
fn happened(path: &Path, position: usize) -> io::Result<u64> {
    let mut log = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        log => BufReader::new(log?),
    };
    let (mut kept, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let length = log.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        let is_before = serde_json::from_slice::<Line>(&line).is_ok_and(|line| {
            line.event != "run_done" && (line.event != "batch_done" || line.index < position)
        });
        if !is_before || line.last() != Some(&b'\n') {
            return Ok(kept);
        }
        kept += length as u64;
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
    use std::fs;

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
