//! `paint run`: one method over one stream, measured; can be stopped at any moment and continued.

use std::path::PathBuf;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use paint_files::printable;
use paint_run::metric::Rate;
use paint_run::table::terminal;
use paint_run::{Draft, Event, Experiment};

use crate::flags::{DryRunFlag, EarlierFlags, MetricFlag, NetworkFlags, SetFlag, WrapFlags};
use crate::output::Output;
use crate::place::refuse_foreign;
use crate::plan::{Plan, adaptation};
use crate::preset_flag::PresetFlag;
use crate::signals::Signals;
use crate::source::{SourceArgs, announce};
use crate::{message, process};

/// Run a method over a stream of images and measure it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Configuration in TOML; flags replace its keys
    #[arg(long)]
    config: Option<PathBuf>,
    /// Dataset; see `paint list datasets` (data.name)
    #[arg(long)]
    dataset: Option<String>,
    /// Folder or file of the dataset (data.path)
    #[arg(long)]
    data: Option<PathBuf>,
    /// Corrupt the clean images on the fly (data.corrupt)
    #[arg(long)]
    corrupt: bool,
    /// Weights file, or `embedded` (model.weights)
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Network, if the weights do not show it; see `paint list backbones` (model.backbone)
    #[arg(long)]
    backbone: Option<String>,
    /// Method; see `paint list methods` (method.name)
    #[arg(long)]
    method: Option<String>,
    /// Order of the images; see `paint list scenarios` (scenario.name)
    #[arg(long)]
    scenario: Option<String>,
    /// Use at most this many images per domain (scenario.limit)
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Folder for the results (out) [default: out/METHOD]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    earlier: EarlierFlags,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    wrap: WrapFlags,
    #[command(flatten)]
    preset: PresetFlag,
    #[command(flatten)]
    set: SetFlag,
    #[command(flatten)]
    metric: MetricFlag,
    #[command(flatten)]
    dry: DryRunFlag,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint run --method paint --dataset cifar10-c --data CIFAR-10-C --weights model.safetensors
  paint run --method tent --dataset embedded --corrupt --weights embedded --limit 200
  paint run --config out/paint/config.toml --set paint.eta=0.5 --out out/eta
  paint run --method tent --dataset embedded --corrupt --weights embedded --batch-size 1 --guard --stream
  paint run --config out/paint/config.toml --resume
  paint run --method eata --dataset embedded --corrupt --weights embedded --source-dataset embedded --dry-run";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let typed = draft(args)?;
    let draft = with_out(&typed)?;
    let file = |error: paint_run::Error| match &args.config {
        Some(path) => anyhow::Error::from(error).context(path.display().to_string()),
        None => error.into(),
    };
    check_complete(args, &draft).map_err(file)?;
    let config = draft.resolve().map_err(file)?;
    refuse_foreign(&config.out, "run")?;
    process::set_threads(config.threads.unwrap_or(0))?;
    let experiment = Experiment::open(config).map_err(file)?;
    announce(&experiment);
    args.preset.warn_of_other_weights(experiment.config.model.sha256.as_deref())?;
    if args.dry.dry_run {
        let origin = |key: &str| adaptation(&typed, &experiment.config.method, key);
        let plan = Plan::new(&experiment.config, &facts(&experiment), origin)?;
        return args.output.print(&plan, Plan::text);
    }
    let rate = args.metric.rate();
    let batches = experiment.stream.batches.len() as u64;
    let bar = ProgressBar::with_draw_target(Some(batches), message::bar_target());
    bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}")?);
    let signals = Signals::watch()?;
    let experiment = experiment.stopping_on(Arc::clone(signals.stop()));
    let summary =
        match experiment.run(args.earlier.choice(), |event: &Event| show(&bar, rate, event)) {
            Err(stopped @ paint_run::Error::Stopped { .. }) => {
                bar.finish_and_clear();
                return Err(signals.ended(stopped.to_string()).into());
            }
            summary => summary?,
        };
    note!("written: {}", experiment.config.out.display());
    args.output.print(&summary, |summary| terminal(&[summary], rate))
}

/// What a run would go through.
fn facts(experiment: &Experiment) -> [String; 2] {
    let Experiment { stream, dataset, .. } = experiment;
    let visited = stream.batches.iter().filter_map(|batch| batch.samples.first());
    let mut domains: Vec<&str> =
        visited.map(|sample| dataset.domains()[sample.domain].name.as_str()).collect();
    domains.dedup();
    let (images, batches) = (stream.num_samples(), stream.batches.len());
    [format!("{images} images in {batches} batches"), format!("visits: {}", domains.join(", "))]
}

/// What was typed: the file, then the flags, then `--preset`, then `--set`.
fn draft(args: &Args) -> anyhow::Result<Draft> {
    let mut draft = args.config.as_deref().map_or_else(|| Ok(Draft::default()), Draft::read)?;
    let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let flags = [
        ("data.name", args.dataset.clone()),
        ("data.path", text(&args.data)),
        ("model.weights", text(&args.weights)),
        ("model.backbone", args.backbone.clone()),
        ("method.name", args.method.clone()),
        ("scenario.name", args.scenario.clone()),
        ("out", text(&args.out)),
    ];
    for (key, value) in flags {
        if let Some(value) = value {
            draft.set(key, value)?;
        }
    }
    if let Some(limit) = args.limit {
        draft.set("scenario.limit", i64::from(limit))?;
    }
    args.network.apply(&mut draft)?;
    if args.corrupt && draft.get("data.corrupt").is_none() {
        draft.set_assignment("data.corrupt={}")?;
    }
    args.source.apply(&mut draft)?;
    args.preset.apply(&mut draft, None)?;
    args.set.apply(&mut draft)?;
    args.weights.as_deref().map_or(Ok(()), |given| SetFlag::check_weights(&draft, given))?;
    args.wrap.apply(&mut draft, false)?;
    Ok(draft)
}

/// The same with a folder for the results.
fn with_out(typed: &Draft) -> paint_run::Result<Draft> {
    let mut draft = typed.clone();
    if draft.get("out").is_none()
        && let Some(method) = draft.get("method.name").and_then(|name| name.as_str())
    {
        let out = format!("out/{method}");
        draft.set("out", out)?;
    }
    Ok(draft)
}

/// What a run cannot do without, by key and flag.
const NEEDED: [(&str, &str); 3] =
    [("method.name", "--method"), ("data.name", "--dataset"), ("model.weights", "--weights")];

/// Asks for what is missing by its flags; a key that is misspelt, which may be why, is told first.
fn check_complete(args: &Args, draft: &Draft) -> paint_run::Result<()> {
    let missing: Vec<_> = NEEDED.iter().filter(|(key, _)| draft.get(key).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut filled = draft.clone();
    for (key, _) in missing.iter().copied().chain([&("out", "--out")]) {
        filled.set(key, "?")?;
    }
    filled.resolve()?;
    let list = |part: fn(&(&'static str, &'static str)) -> &'static str| {
        missing.iter().map(|row| part(row)).collect::<Vec<_>>().join(", ")
    };
    let (keys, flags) = (list(|row| row.0), list(|row| row.1));
    let file = args.config.as_ref().map_or(String::new(), |_| format!(", or {keys} in the file"));
    Err(paint_run::Error::Config { why: format!("give {flags}{file}") })
}

fn show(bar: &ProgressBar, rate: Rate, event: &Event) {
    match event {
        Event::RunStarted { position, .. } if *position > 0 => {
            note!("continues at batch {position}");
        }
        Event::BatchDone(batch) => {
            let percent = |value: Option<f64>| {
                value.map_or_else(|| "-".into(), |value| format!("{:.1}", rate.of(value)))
            };
            let prompt = batch.prompt.map_or_else(String::new, |prompt| {
                format!(", prompt {}{}", prompt.index, if prompt.allocated { " (new)" } else { "" })
            });
            bar.set_position(batch.index as u64 + 1);
            bar.set_message(format!(
                "{} {} %, so far {} %{prompt}",
                printable(&batch.domain),
                percent(batch.domain_accuracy),
                percent(batch.running_accuracy)
            ));
        }
        Event::DomainDone(domain) if bar.is_hidden() => {
            if let Some(accuracy) = domain.figures.accuracy {
                note!("{} {:.1} %", domain.name, rate.of(accuracy));
            }
        }
        Event::RunDone(_) => bar.finish_and_clear(),
        _ => {}
    }
}
