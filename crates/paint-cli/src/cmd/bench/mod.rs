//! `paint bench`: how good and how fast, measured. Without a subcommand it runs a grid of methods under a pinned protocol.

mod command;
mod grid;
mod plan;
mod progress;
mod request;
mod shell;
mod step;
mod work;

use clap::Subcommand;

/// Run methods under a pinned protocol, reproduce a table of the paper, or time a step
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    grid: grid::Args,
}

const EXAMPLES: &str = "\
Examples:
  paint bench --protocol cifar10-c --methods source,tent,paint --seeds 0..4 --data CIFAR-10-C --weights model.safetensors
  paint bench --protocol embedded --sweep paint.eta=0.2,0.4,0.6 --seeds 0,1,2
  paint bench --reproduce table1
  paint bench --protocol embedded --methods all --metric error --dry-run";

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
