//! The `paint` command line.
//!
//! Data goes to stdout, talk to stderr. Exit status: 0 done, 1 failed, 2 asked for wrongly.

mod cmd;
mod output;
mod process;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Keeps an image classifier accurate, without labels, while its input drifts.
#[derive(Debug, Parser)]
#[command(name = "paint", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One row for each file of `cmd/`.
#[derive(Debug, Subcommand)]
enum Command {
    Bench(cmd::bench::Args),
    Corrupt(cmd::corrupt::Args),
    Data(cmd::data::Args),
    Inspect(cmd::inspect::Args),
    List(cmd::list::Args),
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Bench(args) => cmd::bench::run(&args),
            Self::Corrupt(args) => cmd::corrupt::run(&args),
            Self::Data(args) => cmd::data::run(args),
            Self::Inspect(args) => cmd::inspect::run(&args),
            Self::List(args) => cmd::list::run(&args),
        }
    }
}

/// A command line that parses but asks for something that does not exist; ends with status 2, as clap's own errors do.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let Err(error) = Cli::parse().command.run() else { return ExitCode::SUCCESS };
    if output::is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    eprintln!("paint: {error:#}");
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}
