//! SIGINT, SIGTERM and SIGHUP, for commands that can be continued: the first asks the command to stop where nothing
//! is lost, the second ends it at once.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The signals that are spoken of, by their numbers in POSIX.
const NAMES: [(i32, &str); 4] =
    [(1, "SIGHUP"), (2, "SIGINT"), (SIGPIPE, "SIGPIPE"), (15, "SIGTERM")];
const SIGPIPE: i32 = 13;

fn name(signal: i32) -> &'static str {
    NAMES.iter().find(|(number, _)| *number == signal).map_or("a signal", |(_, name)| name)
}

/// What has been received.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicI32>,
}

impl Signals {
    /// From here on the first signal no longer ends the process.
    #[cfg(unix)]
    pub(crate) fn watch() -> io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
        let mut incoming = signal_hook::iterator::Signals::new(wanted)?;
        let signals = Self::default();
        let (stop, received) = (Arc::clone(&signals.stop), Arc::clone(&signals.received));
        std::thread::spawn(move || {
            for signal in incoming.forever() {
                received.store(signal, Ordering::Relaxed);
                if stop.swap(true, Ordering::Relaxed) {
                    signal_hook::low_level::exit(128 + signal);
                }
                note!("{}: stops after this batch; a second signal ends at once", name(signal));
            }
        });
        Ok(signals)
    }

    /// Elsewhere Ctrl-C ends the process at once, as it always did.
    #[cfg(not(unix))]
    pub(crate) fn watch() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// True once a signal has been received.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// The end of a command that was stopped; `what` says where it stands.
    pub(crate) fn ended(&self, what: impl Into<String>) -> Interrupted {
        Interrupted { signal: self.received.load(Ordering::Relaxed), what: what.into() }
    }
}

/// Whether whoever started this process wants a signal ignored, as `nohup` does. A system that does not say is taken
/// to want none ignored.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// A command that a signal stopped after it had saved its work.
#[derive(Debug)]
pub(crate) struct Interrupted {
    signal: i32,
    what: String,
}

impl Interrupted {
    /// A command whose standard output was closed.
    pub(crate) fn closed_output(what: impl Into<String>) -> Self {
        Self { signal: SIGPIPE, what: what.into() }
    }

    /// The exit status that a shell gives a process that the signal ended.
    pub(crate) fn status(&self) -> u8 {
        128 + self.signal as u8
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", name(self.signal), self.what)
    }
}

impl std::error::Error for Interrupted {}
