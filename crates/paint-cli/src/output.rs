//! What a command prints: text for people, JSON for programs.

use std::io::{self, Write as _};

use serde::Serialize;

use crate::message;

/// The choice of format; flatten it into a command's arguments.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Output {
    /// Print JSON in place of text
    #[arg(long)]
    json: bool,
}

impl Output {
    /// The format that a flag of the command's own asks for.
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Writes `data` as one JSON value, or `text(data)`, to stdout.
    pub(crate) fn print<T: Serialize + ?Sized>(
        self,
        data: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let mut stdout = io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut stdout, data).map_err(io::Error::from)?;
            writeln!(stdout)?;
        } else {
            write!(stdout, "{}", message::safe(&text(data)))?;
        }
        stdout.flush()?;
        Ok(())
    }
}

/// True if the reader of our output went away (`paint list methods | head -1`), which is no failure.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// An error with its causes, each told once: a message may end in its cause already.
pub fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_that_its_message_holds_is_told_once() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let path = "weights".into();
        let error = paint_run::Error::Io { action: "read", source: missing(), path };
        let error = Err::<(), _>(error).context("run.toml").unwrap_err();
        assert_eq!(told(&error), "run.toml: cannot read: entity not found: weights");
        let error = Err::<(), _>(missing()).context("cannot read weights").unwrap_err();
        assert_eq!(told(&error), "cannot read weights: entity not found");
    }
}
