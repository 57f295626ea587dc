//! `paint tune`: the best settings of a method for a model, as a file that other commands take.

mod plan;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::Parser;
use paint_bench::grid::{Grid, GridEvent, Outcome, execute};
use paint_bench::protocol::{Place, Protocol};
use paint_bench::tune::{Budget, Measure, Request, Space, Tuned, held_out};
use paint_data::dataset::{entry, entry_at};
use paint_methods::Registry;
use paint_run::Draft;
use paint_run::experiment::write_json;
use paint_run::model::embedded;

use super::bench::{forget, parse_seeds};
use crate::Usage;
use crate::flags::{DryRunFlag, EarlierFlags, NetworkFlags, SetFlag};
use crate::grid_progress::Progress;
use crate::output::Output;
use crate::place::refuse_foreign;
use crate::signals::Signals;
use crate::source::SourceArgs;
use plan::Plan;

/// Find the best settings of a method for a model
///
/// Needs clean, labelled images. A method that reads source images needs others for that, or it learns these by heart.
/// The images are corrupted in ways that no benchmark has, alone and two at a time. Many candidates see few of them,
/// the best third three times as many, and the last three all of them, with several seeds and three times as many
/// rounds over the corruptions (scenario.rounds), because settings that ruin a model need time to do so. Each visit of
/// a corruption takes other images, as long as there are some. A candidate is ranked by its mean accuracy, or by that
/// of its last round where it is lower. The settings that the method has anyway are always among the last three, and
/// stay unless another candidate is better by half a point, and by more than the standard error over the seeds, and
/// loses no corruption on the way. OUT/preset.toml then holds the choice, which `run`, `bench`, `adapt` and `serve`
/// take with --preset; OUT/tune.json holds what speaks for it.
///
/// A search can be killed at any moment: the same command continues it and makes the same choice.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Method; see `paint list methods`
    #[arg(long)]
    method: String,
    /// Weights file, or `embedded`
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Folder or file of clean, labelled images
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Dataset; see `paint list datasets` [default: as --data shows]
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Corruptions, separated by commas, among those that no benchmark has [default: four, and two pairs of
    /// them]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    corruptions: Vec<String>,
    /// Search this setting alone, over what its method declares or over given values; can be repeated
    #[arg(long, value_name = "KEY[=LOW..HIGH]")]
    search: Vec<String>,
    /// Candidates of the first stage
    #[arg(long, value_name = "N", default_value_t = 27)]
    candidates: usize,
    /// Use at most this many images per visit of a corruption, in the last stage
    #[arg(long, value_name = "N", default_value_t = 450)]
    limit: usize,
    /// Seeds of the last stage: 0..4 (both ends included) or 0,1,7
    #[arg(long, value_name = "LIST", default_value = "0..2", conflicts_with = "seed")]
    seeds: String,
    #[command(flatten)]
    set: SetFlag,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    network: NetworkFlags,
    /// Number of runs at the same time, on a GPU with memory of their own
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Folder for the choice and its runs; finished runs in it are not run again [default: out/tune-METHOD]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    earlier: EarlierFlags,
    #[command(flatten)]
    dry: DryRunFlag,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint tune --method tent --weights model.safetensors --data labelled/
  paint tune --method paint --weights embedded --dataset embedded --search eta --search lr_blocks=1e-5..1e-3
  paint tune --method tent --weights embedded --dataset embedded --candidates 9 --limit 100 --seeds 0,1 --dry-run
  paint tune --method eata --weights model.safetensors --data labelled/ --source-dataset folder --source-data train/";

/// Batches between two checkpoints of a run.
const CHECKPOINT_EVERY: usize = 50;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.network.compute.threads.start()?;
    let request = request(args)?;
    if args.dry.dry_run {
        return args.output.print(&Plan::new(&request)?, Plan::text);
    }
    let signals = Signals::watch()?;
    let tuned = search(args, &request, &mut |what, grid| {
        note!("{what}");
        // The search goes on without a display where none can be made.
        let progress = Progress::new(&grid.cells).ok();
        let tell = |event: GridEvent<'_>| progress.iter().for_each(|bars| bars.tell(&event));
        let outcome = execute(grid, args.jobs.max(1), signals.stop(), &tell);
        progress.iter().for_each(Progress::finish);
        outcome
    })?;
    match tuned {
        Some(tuned) => {
            note!("written: {}", out(args).join(PRESET).display());
            args.output.print(&tuned, Tuned::text)
        }
        None => Err(signals.ended(STOPPED).into()),
    }
}

const STOPPED: &str = "stopped before the choice; the same command continues";

/// The flags, without the word `tune` before them.
#[derive(Debug, Parser)]
#[command(name = "tune", no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    args: Args,
}

/// `paint tune` with these flags, for other programs: says nothing, passes events on, and ends after the present
/// batches once `stop` is true.
pub fn tune(
    flags: impl IntoIterator<Item = OsString>,
    stop: &Arc<AtomicBool>,
    tell: &(dyn Fn(GridEvent<'_>) + Sync),
) -> anyhow::Result<Tuned> {
    let args = Flags::try_parse_from(flags).map_err(|error| Usage(error.to_string()))?.args;
    if args.dry.dry_run || args.network.compute.threads.threads.is_some() {
        return Err(Usage(super::bench::COMMAND_ALONE.into()).into());
    }
    let request = request(&args)?;
    let mut measure =
        |_: &str, grid: &Grid| -> Outcome { execute(grid, args.jobs.max(1), stop, tell) };
    search(&args, &request, &mut measure)?.ok_or_else(|| anyhow::anyhow!(STOPPED))
}

/// The file of the chosen settings.
const PRESET: &str = "preset.toml";

/// The folder of the runs.
const RUNS: &str = "runs";

fn out(args: &Args) -> PathBuf {
    args.out.clone().unwrap_or_else(|| format!("out/tune-{}", args.method).into())
}

/// Searches, and writes the choice; nothing comes back if it was stopped.
fn search(
    args: &Args,
    request: &Request,
    measure: &mut Measure<'_>,
) -> anyhow::Result<Option<Tuned>> {
    let out = out(args);
    paint_files::create_folder(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let _claim = paint_files::claim(&out)?;
    if args.earlier.overwrite {
        forget(&out.join(RUNS))?;
    }
    let tuned = request.tune(measure)?;
    if let Some(tuned) = &tuned {
        tuned.preset().write(&out.join(PRESET))?;
        write_json(&out.join("tune.json"), tuned)?;
    }
    Ok(tuned)
}

/// What is asked for, checked.
fn request(args: &Args) -> anyhow::Result<Request> {
    let out = out(args);
    refuse_foreign(&out, "tune")?;
    let methods = Registry::default();
    let space = Space::new(methods.find(&args.method)?, &args.search)?;
    let protocol = protocol(args)?;
    let source = protocol.source.as_ref().map(|source| source.path.clone()).unwrap_or_default();
    let weights = match &args.weights {
        Some(weights) => weights.clone(),
        None if entry(&protocol.data.name)?.is_inside => embedded::NAME.into(),
        None => return Err(Usage("give --weights, or --weights embedded".into()).into()),
    };
    let compute = &args.network.compute;
    let place = Place {
        data: args.data.clone().unwrap_or_default(),
        source,
        device: compute.device().to_owned(),
        precision: compute.precision().to_owned(),
        threads: compute.threads.threads,
        checkpoint_every: CHECKPOINT_EVERY,
        methods,
        ..Place::new(out.join(RUNS), weights)
    };
    let seeds = match args.network.seed.seed {
        Some(seed) => vec![seed],
        None => parse_seeds(&args.seeds)?,
    };
    let rounds = protocol.scenario.rounds.unwrap_or(1);
    let budget = Budget { candidates: args.candidates, images: args.limit, seeds, rounds };
    let request = Request { protocol, place, method: args.method.clone(), space, budget };
    request.check()?;
    Ok(request)
}

/// The images and their order, without the stages' own keys.
fn protocol(args: &Args) -> anyhow::Result<Protocol> {
    let dataset = match (&args.dataset, &args.data) {
        (Some(name), _) => name.as_str(),
        (None, Some(path)) => entry_at(path).name,
        (None, None) => {
            let known = "give --data, clean images with labels, or --dataset embedded";
            return Err(Usage(known.into()).into());
        }
    };
    let names = held_out().map(str::to_owned).collect();
    let domains = if args.corruptions.is_empty() { names } else { args.corruptions.clone() };
    let mut draft = Draft::parse(BASE, "tune")?;
    draft.set("data.name", dataset)?;
    draft.set("scenario.domains", domains)?;
    if let Some(size) = args.network.batch_size {
        draft.set("scenario.batch_size", i64::from(size))?;
    }
    args.source.apply(&mut draft)?;
    let mut protocol = Protocol::parse(&draft.text()?, "tune")?;
    for assignment in args.set.for_methods(std::slice::from_ref(&args.method))? {
        protocol.set(&assignment)?;
    }
    Ok(protocol)
}

/// What every search has in common.
const BASE: &str = r#"
name = "tune"
what = "Held-out corruptions of clean images"
seeds = [0]
metric = "mean_of_visits"
prediction = "own"
[data]
corrupt = {}
[model]
tag = "the model"
[scenario]
name = "recurring"
rounds = 3
severity = 5
selection = "fresh"
"#;
