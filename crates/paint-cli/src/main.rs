//! The `paint` command line.
//!
//! Data goes to stdout, talk to stderr. Exit status: 0 done, 1 failed, 2 asked for wrongly.

mod cmd;
mod output;
mod place;
mod process;
mod source;

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
    Adapt(cmd::adapt::Args),
    Bench(Box<cmd::bench::Args>),
    Cam(cmd::cam::Args),
    Corrupt(cmd::corrupt::Args),
    Data(cmd::data::Args),
    Demo(cmd::demo::Args),
    Inspect(cmd::inspect::Args),
    List(cmd::list::Args),
    Report(cmd::report::Args),
    Run(cmd::run::Args),
    Train(Box<cmd::train::Args>),
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Adapt(args) => cmd::adapt::run(&args),
            Self::Bench(args) => cmd::bench::run(&args),
            Self::Cam(args) => cmd::cam::run(&args),
            Self::Corrupt(args) => cmd::corrupt::run(&args),
            Self::Data(args) => cmd::data::run(args),
            Self::Demo(args) => cmd::demo::run(&args),
            Self::Inspect(args) => cmd::inspect::run(&args),
            Self::List(args) => cmd::list::run(&args),
            Self::Report(args) => cmd::report::run(&args),
            Self::Run(args) => cmd::run::run(&args),
            Self::Train(args) => cmd::train::run(&args),
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
    eprintln!("paint: {}", output::told(&error));
    let usage = error.is::<Usage>()
        || error.downcast_ref::<paint_run::Error>().is_some_and(paint_run::Error::is_usage)
        || error.downcast_ref::<paint_train::Error>().is_some_and(paint_train::Error::is_usage);
    ExitCode::from(if usage { 2 } else { 1 })
}
