//! `paint bench --protocol P` and `--reproduce T`: a grid of methods, orders and seeds, resumable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use paint_bench::grid::{Grid, Results, execute};
use paint_bench::report::{Publication, publish, references, results_terminal};
use paint_bench::reproduce::Target;

use super::command::command;
use super::plan::Plan;
use super::progress::Progress;
use super::request::{assignments, named, place, protocol, variants, warn_of_idle_settings};
use crate::flags::{DryRunFlag, EarlierFlags, MetricFlag, NetworkFlags, SetFlag, WrapFlags};
use crate::output::Output;
use crate::place::refuse_foreign;
use crate::signals::Signals;
use crate::source::SourceArgs;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Protocol, built in (see `paint list protocols`) or a TOML file
    #[arg(long, value_name = "NAME", conflicts_with = "reproduce")]
    pub(super) protocol: Option<String>,
    /// Table or figure of the paper (see `paint list tables`); on the embedded images unless --data is given
    #[arg(long, value_name = "NAME")]
    pub(super) reproduce: Option<String>,
    /// Methods, separated by commas; `all` for every one (those that need source images, if there are some)
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(super) methods: Vec<String>,
    /// One setting at several values, such as paint.eta=0.2,0.5; each makes a row
    #[arg(long, value_name = "METHOD.KEY=V,..")]
    pub(super) sweep: Vec<String>,
    #[command(flatten)]
    pub(super) set: SetFlag,
    /// Seeds: 0..4 (both ends included) or 0,1,7 [default: those of the protocol]
    #[arg(long, value_name = "LIST", conflicts_with = "seed")]
    pub(super) seeds: Option<String>,
    /// Use at most this many images per domain
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Folder or file of the dataset
    #[arg(long, value_name = "PATH")]
    pub(super) data: Option<PathBuf>,
    /// Dataset in place of the protocol's; see `paint list datasets`
    #[arg(long, value_name = "NAME")]
    pub(super) dataset: Option<String>,
    /// Corrupt the clean images on the fly
    #[arg(long)]
    pub(super) corrupt: bool,
    /// Clean images for the accuracy on clean images, where the stream has none: CIFAR-10 in its official layout, a folder
    /// by class, or an array
    #[arg(long, value_name = "PATH")]
    pub(super) clean_data: Option<PathBuf>,
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) wrap: WrapFlags,
    /// Weights file, or `embedded`
    #[arg(long, value_name = "FILE")]
    pub(super) weights: Option<PathBuf>,
    #[command(flatten)]
    pub(super) network: NetworkFlags,
    /// Number of runs at the same time; timings are reported only with 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) jobs: usize,
    /// Save a checkpoint every N batches of a run
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) checkpoint_every: usize,
    /// Folder for the results; finished runs in it are not run again [default: out/bench-NAME]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) earlier: EarlierFlags,
    #[command(flatten)]
    pub(super) dry: DryRunFlag,
    /// Leave timings out of the page, so that it depends on the results only
    #[arg(long)]
    pub(super) no_timing: bool,
    #[command(flatten)]
    pub(super) metric: MetricFlag,
    #[command(flatten)]
    pub(super) output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.network.compute.threads.start()?;
    let target = args.reproduce.as_deref().map(Target::find).transpose()?;
    let named = named(args, target)?;
    let protocol = protocol(args, target, named.clone())?;
    let place = place(args, &protocol, target)?;
    refuse_foreign(&place.out, "bench")?;
    let variants = variants(args, target, &protocol)?;
    warn_of_idle_settings(&assignments(args, target)?, &variants);
    let protocol = protocol.resolve(&place)?;
    let grid = Grid::new(protocol, variants, &place)?;
    if args.dry.dry_run {
        return args.output.print(&Plan::new(&grid, &place.out)?, Plan::text);
    }
    note!("protocol {} {}: {}", grid.protocol.name, grid.hash, grid.protocol.what);
    for difference in grid.protocol.departures(&named)? {
        note!("  {difference}");
    }
    for (variant, settings) in grid.rows() {
        let settings = settings.to_string();
        let settings = if settings.is_empty() { "no settings" } else { &settings };
        note!("  {}: {settings}", variant.label);
    }
    paint_files::create_folder(&place.out)
        .with_context(|| format!("cannot create {}", place.out.display()))?;
    let _claim = paint_files::claim(&place.out)?;
    if args.earlier.overwrite {
        forget(&place.out)?;
    }
    let progress = Progress::new(&grid)?;
    let signals = Signals::watch()?;
    let outcome = execute(&grid, args.jobs.max(1), signals.stop(), &|event| progress.tell(&event));
    progress.finish();
    if outcome.unfinished > 0 {
        let (left, all) = (outcome.unfinished, grid.cells.len());
        let what = format!("stopped with {left} of {all} runs left; the same command continues");
        return Err(signals.ended(what).into());
    }
    let results = Results {
        target: target.map(|target| target.name.to_owned()),
        ..Results::new(&grid, &outcome, &command(args))
    };
    let references = references(&results);
    publish(&Publication {
        grid: &grid,
        outcome: &outcome,
        results: &results,
        references: &references,
        timing: !args.no_timing,
        rate: args.metric.rate(),
    })?;
    note!("written: {}", place.out.join("report.html").display());
    args.output.print(&results, |r| results_terminal(&r.shown_as(args.metric.rate())))?;
    match results.failed() {
        Some(count) => bail!("{count}: see above"),
        None => Ok(()),
    }
}

/// Removes the runs of an earlier grid.
fn forget(out: &Path) -> anyhow::Result<()> {
    let cells = out.join("cells");
    match fs::remove_dir_all(&cells) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", cells.display()))
        }
        _ => Ok(()),
    }
}
