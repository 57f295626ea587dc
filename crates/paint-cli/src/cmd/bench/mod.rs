//! `paint bench`: how good and how fast, measured. Without a subcommand it runs a grid of methods under a pinned
//! protocol.

mod command;
mod grid;
mod plan;
mod planned;
mod request;
mod shell;
mod step;
mod work;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};
use paint_bench::grid::{GridEvent, Results};

pub(super) use grid::forget;
pub(super) use request::parse_seeds;

use crate::Usage;

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
  paint bench --protocol embedded --methods all --metric error --dry-run
  paint bench --protocol embedded --methods all --plan plan.jsonl
  paint bench --plan plan.jsonl --shard 0/4";

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

/// The flags of a grid, without the word `bench` before them.
#[derive(Debug, Parser)]
#[command(name = "bench", no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    grid: grid::Args,
}

/// Why other programs may not give some flags.
pub(super) const COMMAND_ALONE: &str =
    "--dry-run and --threads are for the command alone; RAYON_NUM_THREADS sets threads";

/// `paint bench` with these flags, for other programs: says nothing, passes events on, and ends after the present
/// batches once `stop` is true.
pub fn bench(
    flags: impl IntoIterator<Item = OsString>,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> anyhow::Result<Results> {
    let args = Flags::try_parse_from(flags).map_err(|error| Usage(error.to_string()))?.grid;
    if args.dry.dry_run || args.network.compute.threads.threads.is_some() {
        return Err(Usage(COMMAND_ALONE.into()).into());
    }
    let asked = grid::asked(&args)?;
    grid::measure(&args, &asked, stop, tell)?.map_err(anyhow::Error::msg)
}
