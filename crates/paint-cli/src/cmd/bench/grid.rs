//! `paint bench --protocol P` and `--reproduce T`: a grid of methods, orders and seeds, resumable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use paint_bench::Protocol;
use paint_bench::grid::{Grid, GridEvent, Results, execute};
use paint_bench::report::{Publication, publish, references, results_terminal};
use paint_bench::reproduce::Target;

use super::command::command;
use super::plan::Plan;
use super::planned::{self, PlanFlags};
use super::request::{assignments, named, place, protocol, variants, warn_of_idle_settings};
use crate::flags::{DryRunFlag, EarlierFlags, MetricFlag, NetworkFlags, SetFlag, WrapFlags};
use crate::grid_progress::Progress;
use crate::output::Output;
use crate::place::refuse_foreign;
use crate::preset_flag::{PresetFlag, TunedFlag};
use crate::process;
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
    pub(super) preset: PresetFlag,
    #[command(flatten)]
    pub(super) tuned: TunedFlag,
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
    /// Clean images for the accuracy on clean images, where the stream has none: CIFAR-10 in its official layout, a
    /// folder by class, or an array
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
    /// Number of runs at the same time, on a GPU with memory of their own; timings are reported only with 1
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
    #[command(flatten)]
    pub(super) planned: PlanFlags,
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
    if args.planned.is_part() {
        return planned::run(args);
    }
    let asked = asked(args)?;
    let grid = &asked.grid;
    if let Some(path) = &args.planned.plan {
        return planned::write(args, grid, path);
    }
    if args.dry.dry_run {
        return args.output.print(&Plan::new(grid, &grid.out)?, Plan::text);
    }
    note!("protocol {} {}: {}", grid.protocol.name, grid.hash, grid.protocol.what);
    for difference in grid.protocol.departures(&asked.named)? {
        note!("  {difference}");
    }
    for (variant, settings) in grid.rows() {
        let settings = settings.to_string();
        let settings = if settings.is_empty() { "no settings" } else { &settings };
        note!("  {}: {settings}", variant.label);
    }
    let progress = Progress::new(&grid.cells)?;
    let signals = Signals::watch()?;
    let results = measure(args, &asked, signals.stop(), &|event| progress.tell(&event));
    progress.finish();
    let results = match results? {
        Ok(results) => results,
        Err(stopped) => return Err(signals.ended(stopped).into()),
    };
    note!("written: {}", grid.out.join("report.html").display());
    args.output.print(&results, |r| results_terminal(&r.shown_as(args.metric.rate())))?;
    match results.failed() {
        Some(count) => bail!("{count}: see above"),
        None => Ok(()),
    }
}

/// What the flags ask for.
pub(super) struct Asked {
    target: Option<&'static Target>,
    /// The protocol as it is written, without the flags.
    named: Protocol,
    grid: Grid,
}

pub(super) fn asked(args: &Args) -> anyhow::Result<Asked> {
    let target = args.reproduce.as_deref().map(Target::find).transpose()?;
    let named = named(args, target)?;
    let protocol = protocol(args, target, named.clone())?;
    let place = place(args, &protocol, target)?;
    refuse_foreign(&place.out, "bench")?;
    let variants = variants(args, target, &protocol)?;
    warn_of_idle_settings(&assignments(args, target)?, &variants);
    let resolved = protocol.resolve_warning(&place, &|why| warning!("{why}"))?;
    let grid = Grid::new(resolved, variants, &place)?;
    let sha256 = grid.protocol.model.sha256.as_deref();
    args.preset.warn_of_other_weights(sha256)?;
    args.tuned.warn_of_other_weights(sha256)?;
    Ok(Asked { target, named, grid })
}

/// Runs what is not finished and writes the results; in place of results, says how far it came where `stop` ended it.
pub(super) fn measure(
    args: &Args,
    asked: &Asked,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> anyhow::Result<Result<Results, String>> {
    let grid = &asked.grid;
    if args.earlier.overwrite || !grid.is_finished() {
        let compute = &args.network.compute;
        process::device(compute.device(), compute.precision())?;
    }
    paint_files::create_folder(&grid.out)
        .with_context(|| format!("cannot create {}", grid.out.display()))?;
    let _claim = paint_files::claim(&grid.out)?;
    if args.earlier.overwrite {
        forget(&grid.out)?;
    }
    warn_of_replacement(grid);
    let outcome = execute(grid, args.jobs.max(1), stop, tell);
    if outcome.unfinished > 0 {
        let (left, all) = (outcome.unfinished, grid.cells.len());
        let what = format!("stopped with {left} of {all} runs left; the same command continues");
        return Ok(Err(what));
    }
    let results = Results {
        target: asked.target.map(|target| target.name.to_owned()),
        ..Results::new(grid, &outcome, &command(args))
    };
    publish(&Publication {
        grid,
        outcome: &outcome,
        results: &results,
        references: &references(&results),
        timing: !args.no_timing,
        rate: args.metric.rate(),
    })?;
    Ok(Ok(results))
}

/// Says so where the folder holds the table of another protocol; its runs stay.
fn warn_of_replacement(grid: &Grid) {
    let Ok(earlier) = Results::read(&grid.out) else { return };
    if earlier.hash == grid.hash {
        return;
    }
    let differences = grid.protocol.differences(&earlier.protocol).unwrap_or_default();
    let named: Vec<String> = differences.iter().map(ToString::to_string).collect();
    warning!(
        "the table in {} was of another protocol ({}) and is replaced: {}",
        grid.out.display(),
        earlier.hash,
        named.join("; ")
    );
}

/// Removes the runs of an earlier grid.
pub(crate) fn forget(out: &Path) -> anyhow::Result<()> {
    let cells = out.join("cells");
    match fs::remove_dir_all(&cells) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", cells.display()))
        }
        _ => Ok(()),
    }
}
