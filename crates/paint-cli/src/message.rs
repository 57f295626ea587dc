//! Everything the program says on stderr.
//!
//! One place, for three reasons: a reader of stderr that went away must not end the work (`eprintln!` panics there),
//! names of strangers' files and classes must not steer the terminal, and `-q` leaves nothing but warnings and
//! errors.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressDrawTarget;
use paint_files::printable;

static QUIET: AtomicBool = AtomicBool::new(false);

/// From here on notes and progress bars are left out.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Where progress bars are drawn: on a terminal, and nowhere with `-q`.
pub(crate) fn bar_target() -> ProgressDrawTarget {
    if QUIET.load(Ordering::Relaxed) {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    }
}

/// Says one line, unless it is a note and `-q` was given.
pub(crate) fn say(kind: Kind, text: Arguments<'_>) {
    if kind == Kind::Note && QUIET.load(Ordering::Relaxed) {
        return;
    }
    write_line(&mut io::stderr().lock(), kind, text);
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What is going on, and where results lie.
    Note,
    /// What the user should know before using the result.
    Warning,
    /// Why the command failed.
    Error,
}

/// Whoever read the lines may be gone; the work goes on without them.
fn write_line(out: &mut dyn Write, kind: Kind, text: Arguments<'_>) {
    let head = match kind {
        Kind::Note => "",
        Kind::Warning => "warning: ",
        Kind::Error => "paint: ",
    };
    let line = safe(&format!("{head}{text}\n"));
    // One write, so that lines of several threads do not mix.
    let _ = out.write_all(line.as_bytes());
}

/// Text of several lines without anything else that a terminal would obey.
pub(crate) fn safe(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Says what is going on.
macro_rules! note {
    ($($text:tt)*) => { $crate::message::say($crate::message::Kind::Note, format_args!($($text)*)) };
}

/// Says what the user should know before using the result.
macro_rules! warning {
    ($($text:tt)*) => { $crate::message::say($crate::message::Kind::Warning, format_args!($($text)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe whose reader is gone.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_line_says_what_it_is_and_a_closed_pipe_is_ignored() {
        let mut out = Vec::new();
        for kind in [Kind::Note, Kind::Warning, Kind::Error] {
            write_line(&mut out, kind, format_args!("{}", 1));
        }
        assert_eq!(out, b"1\nwarning: 1\npaint: 1\n");
        out.clear();
        write_line(&mut out, Kind::Note, format_args!("{}\n  second", "\u{1b}[2Jfirst"));
        assert_eq!(out, b"\\u{1b}[2Jfirst\n  second\n");
        write_line(&mut Closed, Kind::Error, format_args!("lost"));
    }
}
