//! `paint bench --plan`: a grid as a file of runs, and some of these runs.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::bail;
use paint_bench::grid::{Cell, CellTiming, Grid, Outcome, Planned, Shard, Work, execute};
use paint_methods::Registry;
use serde::Serialize;

use super::grid::Args;
use crate::Usage;
use crate::grid_progress::Progress;
use crate::signals::Signals;

/// Runs on many machines.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanFlags {
    /// Write every run as a line of this file and run nothing; with --cell or --shard, run lines of it
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    /// Run one cell of the plan
    #[arg(long, value_name = "HASH", requires = "plan", conflicts_with_all = ["shard", "protocol", "reproduce"])]
    cell: Option<String>,
    /// Run a part of the plan: part I, from 0, of N of about the same expected time
    #[arg(long, value_name = "I/N", requires = "plan", conflicts_with_all = ["protocol", "reproduce"])]
    shard: Option<ShardFlag>,
    /// Take expected times from the results in this folder (timing.jsonl)
    #[arg(long, value_name = "DIR", requires = "plan", conflicts_with_all = ["cell", "shard"])]
    costs: Option<PathBuf>,
}

/// A part of a plan, as `I/N`.
#[derive(Debug, Clone, Copy)]
struct ShardFlag(Shard);

impl FromStr for ShardFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("expected I/N with I from 0 to N-1, such as 0/4, got {text:?}");
        let (index, of) = text.split_once('/').ok_or_else(refuse)?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| refuse());
        let shard = Shard { index: number(index)?, of: number(of)? };
        if shard.index < shard.of && shard.of <= MOST_SHARDS {
            Ok(Self(shard))
        } else {
            Err(refuse())
        }
    }
}

/// More parts than any cluster has machines.
const MOST_SHARDS: usize = 1 << 20;

impl PlanFlags {
    /// Whether lines of a plan are to be run.
    pub(super) fn is_part(&self) -> bool {
        self.cell.is_some() || self.shard.is_some()
    }
}

/// What is said of a plan that was written.
#[derive(Serialize)]
struct Written<'a> {
    plan: &'a Path,
    runs: usize,
    images: usize,
    /// None where no times are known of some run.
    hours: Option<f64>,
}

/// Writes the plan of a grid.
pub(super) fn write(args: &Args, grid: &Grid, path: &Path) -> anyhow::Result<()> {
    let timings = match &args.planned.costs {
        Some(folder) => CellTiming::lines(folder)?,
        None => Vec::new(),
    };
    let lines = Planned::all(grid, &timings)?;
    Planned::write(&lines, path)?;
    let seconds: Option<f64> = lines.iter().map(|line| line.seconds).sum();
    let written = Written {
        plan: path,
        runs: lines.len(),
        images: lines.iter().map(|line| line.images).sum(),
        hours: seconds.map(|seconds| seconds / 3600.0),
    };
    args.output.print(&written, |written| {
        let hours = written.hours.map_or_else(
            || "times unknown: give --costs, a folder of results of the same rows".into(),
            |hours| format!("{hours:.1} hours"),
        );
        let (path, runs, images) = (written.plan.display(), written.runs, written.images);
        format!("{path}: {runs} runs, {images} images, {hours}\n")
    })
}

/// Runs the lines that are asked for.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.planned.plan.as_deref().unwrap_or(Path::new(""));
    let lines = Planned::read(path)?;
    let protocol = lines.first().map(|line| line.protocol.clone()).unwrap_or_default();
    let lines = match (&args.planned.cell, args.planned.shard) {
        (Some(hash), _) => {
            let found: Vec<Planned> = lines.into_iter().filter(|line| line.cell == *hash).collect();
            if found.is_empty() {
                return Err(Usage(format!("--cell: {} has no run {hash:?}", path.display())).into());
            }
            found
        }
        (None, Some(ShardFlag(shard))) => shard.of(lines),
        (None, None) => lines,
    };
    let cells: Vec<Cell> =
        lines.into_iter().map(|line| line.into_cell(args.out.as_deref())).collect();
    let methods = Registry::default();
    let work = Work { cells: &cells, protocol: &protocol, methods: &methods };
    let (progress, signals) = (Progress::new(&cells)?, Signals::watch()?);
    let Outcome { results, failures, unfinished, .. } =
        execute(work, args.jobs.max(1), signals.stop(), &|event| progress.tell(&event));
    progress.finish();
    args.output.print(&results, |results| {
        let line =
            |cell: &Cell, accuracy: f64| format!("{} {} {accuracy:.2}\n", cell.id, cell.name());
        let of = |id: &String| cells.iter().find(|cell| cell.id == *id);
        results.iter().filter_map(|r| Some(line(of(&r.cell)?, r.mean_accuracy))).collect()
    })?;
    if unfinished > 0 {
        let what = format!("stopped with {unfinished} runs left; the same command continues");
        return Err(signals.ended(what).into());
    }
    match &failures[..] {
        [] => Ok(()),
        [first, ..] => bail!(
            "{} of {} runs failed: {}: {}",
            failures.len(),
            cells.len(),
            first.run(),
            first.error
        ),
    }
}
