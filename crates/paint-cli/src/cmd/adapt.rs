//! `paint adapt`: for people with weights and a folder of unlabelled images.

use std::collections::BTreeMap;
use std::io::{self, StdoutLock, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use paint_data::dataset::images_below;
use paint_data::{Loader, ReadAhead, SampleRef};
use paint_methods::Method;
use paint_nn::state::file::{self, Kind, Saved};
use paint_run::config::difference;
use paint_run::metric::Score;
use paint_run::model::class_names;
use paint_run::table::quoted;
use paint_run::upload::Uploads;
use paint_run::{Config, Draft, Experiment, fit};
use paint_tensor::Device;
use serde_json::json;

use crate::source::{SourceArgs, announce};
use crate::{Usage, process};

/// Adapt to unlabelled images and predict them; predictions go to stdout
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file of weights
    #[arg(long)]
    weights: PathBuf,
    /// A folder of images, or a .npy or .npz array of shape [N, H, W, 3]
    #[arg(long)]
    images: PathBuf,
    /// The row of `paint list methods`
    #[arg(long, default_value = "paint")]
    method: String,
    /// Begin with the adapted state in this file if it is there, and leave the new one in it; it holds what was learnt, not
    /// which images were seen: the same command again predicts them all again
    #[arg(long)]
    state: Option<PathBuf>,
    /// Leave it every so many batches too, so that a killed process loses no more; 0 for the end alone
    #[arg(long, default_value_t = 100, requires = "state")]
    checkpoint_every: usize,
    /// Images in a batch
    #[arg(long, default_value_t = 50)]
    batch_size: u32,
    /// The form of a prediction
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The seed of every random draw
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// The row of `paint list devices`
    #[arg(long, default_value = "cpu")]
    device: String,
    /// How a GPU computes: f32, tf32 or bf16
    #[arg(long, default_value = "f32")]
    precision: String,
    /// Threads; 0 takes every core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    source: SourceArgs,
    /// A key of the configuration, such as method.eta=0.3 or model.backbone=NAME; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Format {
    /// A head, then file, class and confidence
    #[default]
    Csv,
    /// One object a line
    Jsonl,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    process::set_threads(args.threads)?;
    let experiment = Experiment::open(config(args)?)?;
    announce(&experiment);
    let mut method = experiment.method()?;
    let device = experiment.device();
    let about = about(&experiment.config)?;
    if let Some(path) = &args.state {
        paint_files::remove_leftovers(path)
            .with_context(|| format!("cannot leave a state at {}", path.display()))?;
        if path.exists() {
            load(path, &mut *method, &about, device)?;
        }
    }
    let save = |method: &dyn Method| -> anyhow::Result<()> {
        let Some(path) = &args.state else { return Ok(()) };
        Ok(file::write(path, Kind::Adaptation, &method.save()?, &about)?)
    };
    let mut predictions = Predictions::begin(args)?;
    let loader =
        Loader::new(experiment.dataset.clone(), experiment.stream.clone(), ReadAhead::default());
    let mut unsaved = 0;
    // Of each batch that got a prompt, whether it was a new one.
    let mut prompts: Vec<bool> = Vec::new();
    let stream = || -> anyhow::Result<()> {
        for batch in Uploads::new(loader, device) {
            let batch = batch?;
            let step = fit::step(&mut *method, &batch.images)?;
            let logits = step.logits;
            prompts.extend(step.prompt.map(|prompt| prompt.allocated));
            let [_, classes] = logits.dims2("logits")?;
            let logits = logits.to_vec()?;
            let rows = || logits.chunks_exact(classes).zip(&batch.plan.samples);
            let is_broken = |row: &[f32]| row.iter().any(|logit| !logit.is_finite());
            if let Some((_, at)) = rows().find(|(row, _)| is_broken(row)) {
                // Nor is what led to it to be kept.
                unsaved = 0;
                bail!("the model gave NaN or infinity for {}", predictions.file(*at));
            }
            rows().try_for_each(|(row, at)| predictions.write(*at, row))?;
            predictions.out.flush()?;
            unsaved += 1;
            if unsaved == args.checkpoint_every {
                save(&*method)?;
                unsaved = 0;
            }
        }
        Ok(())
    };
    let outcome = stream();
    // What was learnt until an error outlasts it.
    let saved = if unsaved > 0 { save(&*method) } else { Ok(()) };
    outcome?;
    saved?;
    if !prompts.is_empty() {
        let new = prompts.iter().filter(|new| **new).count();
        note!("prompts: {new} allocated, {} batches met one again", prompts.len() - new);
    }
    if let Some(path) = &args.state {
        note!("state: {}", path.display());
    }
    Ok(())
}

/// What was predicted, on its way to stdout.
struct Predictions {
    out: StdoutLock<'static>,
    format: Format,
    /// The images of a folder.
    files: Vec<PathBuf>,
    /// The classes, as far as they have names.
    names: Vec<String>,
}

impl Predictions {
    fn begin(args: &Args) -> anyhow::Result<Self> {
        let files = if args.images.is_dir() { images_below(&args.images)? } else { Vec::new() };
        let names = class_names(&args.weights)?;
        let mut out = io::stdout().lock();
        if let Format::Csv = args.format {
            writeln!(out, "file,class,confidence")?;
        }
        Ok(Self { out, format: args.format, files, names })
    }

    /// The file of an image, or its place in an array.
    fn file(&self, at: SampleRef) -> String {
        let file = self.files.get(at.index);
        file.map_or_else(|| at.index.to_string(), |file| file.display().to_string())
    }

    fn write(&mut self, at: SampleRef, logits: &[f32]) -> io::Result<()> {
        let (file, score) = (self.file(at), Score::of(logits, None));
        let (index, confidence) = (score.predicted, score.confidence);
        let class = self.names.get(index).cloned().unwrap_or_else(|| index.to_string());
        match self.format {
            Format::Csv => {
                let (file, class) = (quoted(&file), quoted(&class));
                writeln!(self.out, "{file},{class},{confidence:.4}")
            }
            Format::Jsonl => {
                let line = json!({
                    "file": file, "class": class, "index": index, "confidence": confidence,
                });
                writeln!(self.out, "{line}")
            }
        }
    }
}

fn config(args: &Args) -> anyhow::Result<Config> {
    let dataset = if args.images.is_dir() {
        "folder"
    } else if args.images.is_file() {
        "npy"
    } else {
        return Err(Usage(format!("no such folder or file: {}", args.images.display())).into());
    };
    let mut draft = Draft::default();
    draft.set("data.name", dataset)?;
    draft.set("data.path", args.images.display().to_string())?;
    draft.set("data.options.labels", "ignored")?;
    draft.set("model.weights", args.weights.display().to_string())?;
    draft.set("method.name", args.method.as_str())?;
    draft.set("scenario.batch_size", i64::from(args.batch_size))?;
    draft.set("seed", i64::from(args.seed))?;
    draft.set("device", args.device.as_str())?;
    draft.set("precision", args.precision.as_str())?;
    // A run would write here; adapting writes the state and nothing else.
    draft.set("out", ".")?;
    args.source.apply(&mut draft)?;
    for assignment in &args.assignments {
        draft.set_assignment(assignment)?;
    }
    Ok(draft.resolve()?)
}

/// What a state belongs to: it means nothing to other weights, other preprocessing or another method.
fn about(config: &Config) -> anyhow::Result<BTreeMap<String, String>> {
    let mut leaves = config.leaves()?;
    leaves.retain(|key, _| belongs(key) && key != "model.weights");
    Ok(leaves)
}

fn belongs(key: &str) -> bool {
    key.starts_with("method.") || key.starts_with("model.")
}

fn load(
    path: &Path,
    method: &mut dyn Method,
    about: &BTreeMap<String, String>,
    device: &Device,
) -> anyhow::Result<()> {
    let Saved { state, about: mut found } = file::read(path, Kind::Adaptation, device)?;
    found.retain(|key, _| belongs(key));
    if let Some((key, expected, found)) = difference(about, &found) {
        let path = path.display();
        bail!("state of another adaptation: expected {key} = {expected}, found {found}: {path}");
    }
    method.load(&state).with_context(|| format!("cannot continue from {}", path.display()))
}
