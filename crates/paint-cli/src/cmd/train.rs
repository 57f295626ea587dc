//! `paint train`: make a source model, from scratch or from given weights; can be stopped at any moment and continued.

mod progress;

use std::path::{Path, PathBuf};

use anyhow::Result;
use paint_data::dataset::{Options, Split, entry};
use paint_data::{Dataset, Info};
use paint_nn::backbone::{self, BackboneEntry};
use paint_rng::Seed;
use paint_run::Draft;
use paint_tensor::Device;
use paint_train::{
    Earlier, Epoch, Files, Identity, LabelledImages, Numbers, Recipe, Session, Start, Summary,
    Throughput, Trainer, preset, preset_for,
};

use crate::output::Output;
use crate::place::resolved;
use crate::signals::Signals;
use crate::{Usage, process};
use progress::Bar;

/// Train a source model
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The row of `paint list datasets` to train on
    #[arg(long)]
    dataset: String,
    /// The dataset's folder or file
    #[arg(long)]
    data: Option<PathBuf>,
    /// The most images to train on, from the first
    #[arg(long)]
    limit: Option<usize>,
    /// The row of `paint list datasets` to test on [default: the test images of the dataset, if it has any]
    #[arg(long)]
    test_dataset: Option<String>,
    /// Its folder or file
    #[arg(long, requires = "test_dataset")]
    test_data: Option<PathBuf>,
    /// The most images to test on, from the first
    #[arg(long)]
    test_limit: Option<usize>,
    /// The row of `paint list backbones`
    #[arg(long)]
    backbone: String,
    /// Begin with these weights; a classifier of another number of classes is replaced
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Side of the network's input, if it is not the usual one
    #[arg(long)]
    image_size: Option<usize>,
    /// The row of `paint list presets` that the recipe begins with [default: by the network]
    #[arg(long)]
    preset: Option<String>,
    /// Passes over the images (epochs)
    #[arg(long)]
    epochs: Option<u32>,
    /// Images of a step (`batch_size`)
    #[arg(long)]
    batch_size: Option<u32>,
    /// Any key of the recipe, such as `drop_path=0.2` or augment.pad=2; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
    /// The seed of every random draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The device, see `paint list devices`
    #[arg(long, default_value = "cpu")]
    device: String,
    /// How a GPU computes: f32, tf32 or bf16
    #[arg(long, default_value = "f32")]
    precision: String,
    /// Threads; 0 takes every core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// The folder of the results
    #[arg(long, default_value = "out/train")]
    out: PathBuf,
    /// Continue the training in the output folder, if there is one
    #[arg(long, conflicts_with = "overwrite")]
    resume: bool,
    /// Begin anew where an earlier training lies
    #[arg(long)]
    overwrite: bool,
    /// Epochs between two checkpoints
    #[arg(long, default_value_t = 10)]
    checkpoint_every: usize,
    /// Epochs between two looks at the test images
    #[arg(long, default_value_t = 10)]
    evaluate_every: usize,
    /// Store the final weights with 16 bits
    #[arg(long)]
    half: bool,
    /// Time this many steps instead, and write nothing
    #[arg(long)]
    steps: Option<usize>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    process::set_threads(args.threads)?;
    let device = process::device(&args.device, &args.precision)?;
    let network = backbone::find(&args.backbone).map_err(|error| Usage(error.to_string()))?;
    if let Some(weights) = args.weights.as_ref().filter(|weights| inside(weights, &args.out)) {
        let why = format!("--out would overwrite {}: give another folder", weights.display());
        return Err(Usage(why).into());
    }
    let recipe = recipe(args, network)?;
    let dataset = open(&args.dataset, args.data.as_deref(), Split::Train, None)?;
    let start = Start {
        weights: args.weights.clone(),
        image_size: args.image_size.map(|side| [side, side]),
        num_classes: dataset.info().num_classes,
        seed: Seed(args.seed),
    };
    let (model, sha256) = start.build(network, &device)?;
    let input = model.spec().image_size;
    let data = LabelledImages::read(&*dataset, args.limit, input, &device)?;
    let identity = Identity {
        weights_sha256: sha256,
        dataset: args.dataset.clone(),
        precision: args.precision.clone(),
        ..Identity::new(model.spec(), &recipe, &data, args.seed)
    };
    let mut trainer = Trainer::new(model, recipe)?;
    let evaluate_every = args.evaluate_every;
    if let Some(steps) = args.steps {
        let session = Session { data: &data, test: None, evaluate_every, identity, stop: None };
        return args.output.print(&session.time(&mut trainer, steps.max(1))?, throughput);
    }
    let test = test_images(args, dataset.info(), &data, input, &device)?;
    let signals = Signals::watch()?;
    let stop = Some(&**signals.stop());
    let session = Session { data: &data, test: test.as_ref(), evaluate_every, identity, stop };
    let files = Files {
        out: args.out.clone(),
        checkpoint_every: args.checkpoint_every,
        numbers: if args.half { Numbers::Half } else { Numbers::Full },
        label_names: label_names(dataset.info()),
    };
    let earlier = match (args.resume, args.overwrite) {
        (true, _) => Earlier::Resume,
        (_, true) => Earlier::Overwrite,
        _ => Earlier::Keep,
    };
    let mut bar = Bar::new()?;
    let summary = session.run(&mut trainer, &files, earlier, |event: &_| bar.show(event));
    bar.clear();
    let summary = match summary {
        Err(stopped @ paint_train::Error::Stopped { .. }) => {
            return Err(signals.ended(stopped.to_string()).into());
        }
        summary => summary?,
    };
    note!("written: {}", args.out.display());
    args.output.print(&summary, text)
}

/// The preset, then the flags, then `--set`.
fn recipe(args: &Args, network: &BackboneEntry) -> Result<Recipe> {
    let row = match &args.preset {
        Some(name) => preset(name)?,
        None => preset_for(network.family, args.weights.is_some()),
    };
    let base = (row.recipe)();
    let mut draft = Draft::parse(&base.to_toml()?, "recipe")?;
    for (key, value) in [("epochs", args.epochs), ("batch_size", args.batch_size)] {
        if let Some(value) = value {
            draft.set(key, i64::from(value))?;
        }
    }
    for assignment in &args.assignments {
        draft.set_assignment(assignment)?;
    }
    clamp_warmup(args, base.schedule.warmup_epochs, &mut draft)?;
    Ok(Recipe::from_toml(&draft.text()?)?)
}

/// Makes a preset's warm-up no longer than the training, unless the user chose its length.
fn clamp_warmup(args: &Args, warmup: f64, draft: &mut Draft) -> Result<()> {
    const WARMUP: &str = "schedule.warmup_epochs";
    let key = |assignment: &String| assignment.split('=').next().map(|key| key.trim().to_owned());
    let is_chosen = |key: String| key == WARMUP || key == "schedule";
    let epochs = draft.get("epochs").and_then(|epochs| Some(epochs.as_integer()? as f64));
    if let Some(epochs) = epochs
        && warmup > epochs
        && !args.assignments.iter().filter_map(key).any(is_chosen)
    {
        draft.set(WARMUP, epochs)?;
    }
    Ok(())
}

/// Whether a file lies in a folder, by whatever names both go.
fn inside(file: &Path, folder: &Path) -> bool {
    let (file, folder) = (resolved(file).ok(), resolved(folder).ok());
    file.zip(folder).is_some_and(|(file, folder)| file.parent() == Some(&folder))
}

/// `classes` are the names of those that are trained, if they have names.
fn open(
    name: &str,
    path: Option<&Path>,
    split: Split,
    classes: Option<&[String]>,
) -> Result<Box<dyn Dataset>> {
    let row = entry(name).map_err(|error| Usage(error.to_string()))?;
    let classes = classes.unwrap_or_default().to_vec();
    let options = Options { split, classes, ..Options::default() };
    Ok((row.open)(path.unwrap_or(Path::new("")), &options)?)
}

/// Those that were named, or the test images of the dataset, without any image that is trained on.
fn test_images(
    args: &Args,
    info: &Info,
    data: &LabelledImages,
    input: [usize; 2],
    device: &Device,
) -> Result<Option<LabelledImages>> {
    let (name, path) = match &args.test_dataset {
        Some(name) => (name, &args.test_data),
        None => (&args.dataset, &args.data),
    };
    let dataset = open(name, path.as_deref(), Split::Test, info.class_names.as_deref())?;
    if dataset.info().num_classes != data.num_classes {
        let (expected, found) = (data.num_classes, dataset.info().num_classes);
        let why = format!("test images: expected {expected} classes, found {found} in {name}");
        return Err(Usage(why).into());
    }
    let trained = data.hashes.iter().copied().collect();
    let test = LabelledImages::read_except(&*dataset, args.test_limit, input, device, &trained)?;
    let asked = args.test_limit.unwrap_or(usize::MAX).min(dataset.len(0));
    match test.as_ref().map_or(0, |test| test.labels.len()) {
        0 => note!(
            "no test images but those trained on: give --test-dataset and --test-data to see an accuracy"
        ),
        left if left < asked => {
            note!("{} of {asked} test images are trained on and left out", asked - left);
        }
        _ => {}
    }
    Ok(test)
}

/// The name of each class, or none where a class has only its number.
fn label_names(info: &Info) -> Vec<String> {
    if let Some(names) = &info.class_names {
        return names.clone();
    }
    let names: Vec<String> = (0..info.num_classes).map(|label| info.class_name(label)).collect();
    let numbered = |(label, name): (usize, &String)| *name == format!("class {label}");
    if names.iter().enumerate().any(numbered) { Vec::new() } else { names }
}

fn throughput(throughput: &Throughput) -> String {
    let Throughput { steps, batch_size, images_per_second, ms_per_step, warmup_s } = throughput;
    format!(
        "{images_per_second:.0} images/s, {ms_per_step:.2} ms a step of {batch_size} ({steps} steps after {warmup_s:.1} s)\n"
    )
}

fn text(summary: &Summary) -> String {
    let Epoch { epoch, loss, train_accuracy, test_accuracy, averaged_test_accuracy, .. } =
        summary.last;
    let percent = |value: Option<f64>| value.map_or_else(|| "-".into(), |x| format!("{x:.2} %"));
    format!(
        "epoch {epoch}: loss {loss:.4}, training accuracy {train_accuracy:.1} %\n\
         test accuracy {}, averaged weights {} (of the last epoch, nothing was chosen by it)\n\
         {:.0} images/s, {:.0} s\n",
        percent(test_accuracy),
        percent(averaged_test_accuracy),
        summary.images_per_second,
        summary.duration_s,
    )
}
