//! `paint bench`: how good and how fast, measured. Without a subcommand it runs a grid of methods under a pinned protocol.

mod grid;
mod progress;
mod shell;
mod step;
mod work;

use clap::Subcommand;

/// Run methods under a pinned protocol, reproduce a table of the paper, or time a step
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    grid: grid::Args,
}

#[derive(Debug, Subcommand)]
enum Command {
    Step(step::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Step(args)) => step::run(args),
        None => grid::run(&args.grid),
    }
}
