//! `paint bench`: how fast, measured.

mod step;
mod work;

use clap::Subcommand;

/// Measure how fast this machine adapts.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Step(step::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Step(args) => step::run(args),
    }
}
