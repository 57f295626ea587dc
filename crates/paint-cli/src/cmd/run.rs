//! `paint run`: one method over one stream, measured; can be stopped at any moment and continued.

use std::path::PathBuf;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use paint_files::printable;
use paint_run::table::terminal;
use paint_run::{Draft, Earlier, Event, Experiment};

use crate::output::Output;
use crate::place::refuse_foreign;
use crate::signals::Signals;
use crate::source::{SourceArgs, announce};
use crate::{message, process};

/// Run a method over a stream of images and measure it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A TOML file; flags replace its keys
    #[arg(long)]
    config: Option<PathBuf>,
    /// The row of `paint list datasets` (data.name)
    #[arg(long)]
    dataset: Option<String>,
    /// The dataset's folder or file (data.path)
    #[arg(long)]
    data: Option<PathBuf>,
    /// Corrupt the clean images of the dataset on the fly (data.corrupt)
    #[arg(long)]
    corrupt: bool,
    /// The file of weights (model.weights)
    #[arg(long)]
    weights: Option<PathBuf>,
    /// The row of `paint list backbones` (model.backbone)
    #[arg(long)]
    backbone: Option<String>,
    /// The row of `paint list methods` (method.name)
    #[arg(long)]
    method: Option<String>,
    /// The row of `paint list scenarios` (scenario.name)
    #[arg(long)]
    scenario: Option<String>,
    /// Images in a batch (`scenario.batch_size`)
    #[arg(long)]
    batch_size: Option<u32>,
    /// The most images of a visit (scenario.limit)
    #[arg(long)]
    limit: Option<u32>,
    /// The seed of every random draw (seed)
    #[arg(long)]
    seed: Option<u32>,
    /// The row of `paint list devices` (device)
    #[arg(long)]
    device: Option<String>,
    /// How a GPU computes: f32, tf32 or bf16 (precision)
    #[arg(long)]
    precision: Option<String>,
    /// Threads; every core unless given (threads)
    #[arg(long)]
    threads: Option<u32>,
    /// The folder of the results (out) [default: out/METHOD]
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Any key of the configuration, such as method.eta=0.3; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
    /// Continue the run in the output folder, if there is one
    #[arg(long, conflicts_with = "overwrite")]
    resume: bool,
    /// Begin anew where an earlier run lies
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let draft = draft(args)?;
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
    let earlier = match (args.resume, args.overwrite) {
        (true, _) => Earlier::Resume,
        (_, true) => Earlier::Overwrite,
        _ => Earlier::Keep,
    };
    let batches = experiment.stream.batches.len() as u64;
    let bar = ProgressBar::with_draw_target(Some(batches), message::bar_target());
    bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}")?);
    let signals = Signals::watch()?;
    let experiment = experiment.stopping_on(Arc::clone(signals.stop()));
    let summary = match experiment.run(earlier, |event: &Event| show(&bar, event)) {
        Err(stopped @ paint_run::Error::Stopped { .. }) => {
            bar.finish_and_clear();
            return Err(signals.ended(stopped.to_string()).into());
        }
        summary => summary?,
    };
    note!("written: {}", experiment.config.out.display());
    args.output.print(&summary, |summary| terminal(&[summary]))
}

/// What was typed: the file, then the flags, then `--set`.
fn draft(args: &Args) -> paint_run::Result<Draft> {
    let mut draft = args.config.as_deref().map_or_else(|| Ok(Draft::default()), Draft::read)?;
    let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let flags = [
        ("data.name", args.dataset.clone()),
        ("data.path", text(&args.data)),
        ("model.weights", text(&args.weights)),
        ("model.backbone", args.backbone.clone()),
        ("method.name", args.method.clone()),
        ("scenario.name", args.scenario.clone()),
        ("device", args.device.clone()),
        ("precision", args.precision.clone()),
        ("out", text(&args.out)),
    ];
    for (key, value) in flags {
        if let Some(value) = value {
            draft.set(key, value)?;
        }
    }
    let numbers = [
        ("scenario.batch_size", args.batch_size),
        ("scenario.limit", args.limit),
        ("seed", args.seed),
        ("threads", args.threads),
    ];
    for (key, value) in numbers {
        if let Some(value) = value {
            draft.set(key, i64::from(value))?;
        }
    }
    if args.corrupt && draft.get("data.corrupt").is_none() {
        draft.set_assignment("data.corrupt={}")?;
    }
    args.source.apply(&mut draft)?;
    for assignment in &args.assignments {
        draft.set_assignment(assignment)?;
    }
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

fn show(bar: &ProgressBar, event: &Event) {
    match event {
        Event::RunStarted { position, .. } if *position > 0 => {
            note!("continues at batch {position}");
        }
        Event::BatchDone(batch) => {
            let percent = |value: Option<f64>| {
                value.map_or_else(|| "-".into(), |value| format!("{value:.1}"))
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
                note!("{} {accuracy:.1} %", domain.name);
            }
        }
        Event::RunDone(_) => bar.finish_and_clear(),
        _ => {}
    }
}
