//! What happened, for people and programs: `audit.jsonl`, the log on stderr, and the events of the page.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::clock::now;
use crate::error::{Error, Result};
use crate::stream::Key;

/// Entries that the page shows.
const RECENT: usize = 512;
/// Events that a slow reader may lag behind.
const LAG: usize = 256;

/// One action on a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Seconds since 1970.
    pub(crate) time: f64,
    pub(crate) model: String,
    pub(crate) stream: String,
    /// What was done.
    pub(crate) action: String,
    /// Why, or with what result.
    pub(crate) reason: String,
    /// After how many steps.
    pub(crate) step: u64,
}

/// Where everything is written.
pub(crate) struct Journal {
    audit: Mutex<(File, VecDeque<Entry>)>,
    events: broadcast::Sender<Arc<str>>,
}

impl Journal {
    /// Appends to the audit log of a folder, and remembers the end of it.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("audit.jsonl");
        let io = |action| {
            let path = path.clone();
            move |source| Error::Io { action, path, source }
        };
        let earlier =
            if path.exists() { std::fs::read(&path).map_err(io("read"))? } else { Vec::new() };
        let mut recent = VecDeque::new();
        for line in String::from_utf8_lossy(&earlier).lines().rev().take(RECENT) {
            recent.extend(serde_json::from_str(line).ok());
        }
        let recent = recent.into_iter().rev().collect();
        let mut file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(io("open"))?;
        if earlier.last().is_some_and(|last| *last != b'\n') {
            // A line that a crash tore must not swallow the next one.
            file.write_all(b"\n").map_err(io("write"))?;
        }
        Ok(Self { audit: Mutex::new((file, recent)), events: broadcast::channel(LAG).0 })
    }

    /// Records an action.
    pub(crate) fn audit(&self, stream: &Key, action: &str, reason: &str, step: u64) {
        let [model, stream] = [stream.model.name.as_str(), stream.id.as_str()].map(str::to_owned);
        let (action, reason) = (action.into(), reason.into());
        self.record(&Entry { time: now(), model, stream, action, reason, step });
    }

    fn record(&self, entry: &Entry) {
        let line = json!(entry).to_string() + "\n";
        {
            let mut held = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
            // One write, so that a crash leaves whole lines.
            if let Err(error) = held.0.write_all(line.as_bytes()) {
                log("error", "audit", &json!({ "error": error.to_string() }));
            }
            held.1.push_back(entry.clone());
            if held.1.len() > RECENT {
                held.1.pop_front();
            }
        }
        self.tell("audit", &json!(entry));
    }

    /// The last actions on a stream.
    pub(crate) fn recent(&self, model: &str, stream: &str) -> Vec<Entry> {
        let held = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        let is_asked = |entry: &&Entry| entry.model == model && entry.stream == stream;
        held.1.iter().filter(is_asked).cloned().collect()
    }

    /// Tells the page of something.
    pub(crate) fn tell(&self, event: &str, data: &Value) {
        // Nobody may be listening.
        let _ = self.events.send(format!("event: {event}\ndata: {data}\n\n").into());
    }

    /// Everything that happens from now on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.events.subscribe()
    }
}

/// Writes a line of the log: JSON on stderr. Whoever reads it may be gone.
pub(crate) fn log(level: &str, event: &str, about: &Value) {
    let line = json!({ "time": now(), "level": level, "event": event, "about": about }).to_string();
    let _ = io::stderr().lock().write_all((line + "\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_is_appended_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let mut events = journal.listen();
        let entry = |stream: &str, action: &str, step| {
            let [model, stream, action, reason] = ["m", stream, action, "asked"].map(str::to_owned);
            Entry { time: 0.0, model, stream, action, reason, step }
        };
        journal.record(&entry("a", "freeze", 3));
        journal.record(&entry("b", "reset", 4));
        assert!(events.try_recv().unwrap().starts_with("event: audit\ndata: {"));
        drop(journal);
        std::fs::OpenOptions::new()
            .append(true)
            .open(folder.path().join("audit.jsonl"))
            .and_then(|mut file| file.write_all(b"{\"time\": 1, torn"))
            .unwrap();
        let again = Journal::open(folder.path()).unwrap();
        again.record(&entry("a", "resume", 5));
        let [first, second] = &Journal::open(folder.path()).unwrap().recent("m", "a")[..] else {
            panic!("two entries of a")
        };
        assert_eq!((first.action.as_str(), first.step), ("freeze", 3));
        assert_eq!((second.action.as_str(), second.step), ("resume", 5));
    }
}
