//! The `paint` command line.
//!
//! Data goes to stdout, messages to stderr; `exit.rs` has the rule for exit codes.

#[macro_use]
mod message;

mod cmd;
mod exit;
mod output;
mod place;
mod process;
mod signals;
mod source;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Usage;

/// Keeps an image classifier accurate, without labels, while its input drifts.
#[derive(Debug, Parser)]
#[command(name = "paint", version, after_long_help = exit::HELP)]
struct Cli {
    /// Print no progress and no notes, only warnings and errors
    #[arg(short, long, global = true)]
    quiet: bool,
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
    Stats(cmd::stats::Args),
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
            Self::Stats(args) => cmd::stats::run(&args),
            Self::Train(args) => cmd::train::run(&args),
        }
    }
}

fn main() -> ExitCode {
    let Cli { quiet, command } = Cli::parse();
    if quiet {
        message::be_quiet();
    }
    let Err(error) = command.run() else { return ExitCode::SUCCESS };
    if output::is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    message::say(message::Kind::Error, format_args!("{}", output::told(&error)));
    ExitCode::from(exit::status(&error))
}
