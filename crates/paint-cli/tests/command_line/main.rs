//! What every command has in common, as a user sees it: messages, exit codes, flags and help.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod cam;
mod dry_run;
mod exit_status;
mod explain;
mod flags;
mod hostile;
mod inspect;
mod metric;
mod stderr;

use std::process::{Command, Output};

fn paint(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
    command.args(args);
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
