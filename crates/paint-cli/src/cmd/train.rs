//! `paint train`: make a source model, from scratch or from given weights; can be stopped at any moment and continued.

mod progress;
mod statistics;

use std::path::{Path, PathBuf};

use anyhow::Result;
use paint_data::dataset::{Options, Split, entry};
use paint_data::{Dataset, Info};
use paint_nn::backbone::{self, BackboneEntry};
use paint_rng::Seed;
use paint_run::Draft;
use paint_tensor::Device;
use paint_train::{
    Earlier, Epoch, Files, Identity, LabelledImages, Numbers, Preset, Recipe, Session, Start,
    Summary, Throughput, Trainer, preset, preset_for,
};

use crate::Usage;
use crate::flags::{DryRunFlag, EarlierFlags, NetworkFlags};
use crate::output::Output;
use crate::place::resolved;
use crate::plan::{self, Plan};
use crate::signals::Signals;
use progress::Bar;

/// Train a source model
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Dataset to train on; see `paint list datasets`
    #[arg(long)]
    dataset: String,
    /// Folder or file of the dataset
    #[arg(long)]
    data: Option<PathBuf>,
    /// Train on at most this many images, from the first
    #[arg(long)]
    limit: Option<usize>,
    /// Dataset to test on; see `paint list datasets` [default: the test images of --dataset, if it has any]
    #[arg(long)]
    test_dataset: Option<String>,
    /// Folder or file of the test dataset
    #[arg(long, requires = "test_dataset")]
    test_data: Option<PathBuf>,
    /// Test on at most this many images, from the first
    #[arg(long)]
    test_limit: Option<usize>,
    /// Network; see `paint list backbones`
    #[arg(long)]
    backbone: String,
    /// Start from these weights; a classifier with another number of classes is replaced
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Side of the input images, if not the network's usual one
    #[arg(long)]
    image_size: Option<usize>,
    /// Recipe to start from; see `paint list presets` [default: the usual one for the network]
    #[arg(long)]
    preset: Option<String>,
    /// Number of epochs
    #[arg(long)]
    epochs: Option<u32>,
    /// Set a key of the recipe, such as `drop_path=0.2` or augment.pad=2; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "out/train")]
    out: PathBuf,
    #[command(flatten)]
    earlier: EarlierFlags,
    #[command(flatten)]
    network: NetworkFlags,
    /// Save a checkpoint every N epochs
    #[arg(long, default_value_t = 10)]
    checkpoint_every: usize,
    /// Measure the test accuracy every N epochs
    #[arg(long, default_value_t = 10)]
    evaluate_every: usize,
    /// Store the final weights in half precision
    #[arg(long)]
    half: bool,
    /// Time this many steps instead; write nothing
    #[arg(long)]
    steps: Option<usize>,
    #[command(flatten)]
    dry: DryRunFlag,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint train --dataset cifar10 --data CIFAR --backbone vit_tiny_patch4_32 --device cuda:0 --precision bf16
  paint train --dataset cifar10 --data CIFAR --backbone vit_base_patch16_224 --weights vit_base.safetensors
  paint train --dataset folder --data photos/ --backbone resnet18 --epochs 30 --set lr=0.05 --resume
  paint train --dataset cifar10 --data CIFAR --backbone vit_tiny_patch4_32 --preset vit --dry-run";

pub(crate) fn run(args: &Args) -> Result<()> {
    let device = args.network.compute.open()?;
    let seed = args.network.seed.value();
    let network = backbone::find(&args.backbone).map_err(|error| Usage(error.to_string()))?;
    if let Some(weights) = args.weights.as_ref().filter(|weights| inside(weights, &args.out)) {
        let why = format!("--out would overwrite {}: give another folder", weights.display());
        return Err(Usage(why).into());
    }
    let recipe = recipe(args, network)?;
    let dataset = open(&args.dataset, args.data.as_deref(), Split::Train, None)?;
    if args.dry.dry_run {
        return plan(args, network, &recipe, &*dataset);
    }
    let start = Start {
        weights: args.weights.clone(),
        image_size: args.image_size.map(|side| [side, side]),
        num_classes: dataset.info().num_classes,
        seed: Seed(seed),
    };
    let (model, sha256) = start.build(network, &device)?;
    let input = model.spec().image_size;
    let data = LabelledImages::read(&*dataset, args.limit, input, &device)?;
    let identity = Identity {
        weights_sha256: sha256,
        dataset: args.dataset.clone(),
        precision: args.network.compute.precision().to_owned(),
        ..Identity::new(model.spec(), &recipe, &data, seed)
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
    let earlier = match args.earlier {
        EarlierFlags { resume: true, .. } => Earlier::Resume,
        EarlierFlags { overwrite: true, .. } => Earlier::Overwrite,
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
    statistics::write(&args.out, &data, seed, &device)?;
    note!("written: {}", args.out.display());
    args.output.print(&summary, text)
}

/// The recipe to start from.
fn start_of(args: &Args, network: &BackboneEntry) -> Result<&'static Preset> {
    Ok(match &args.preset {
        Some(name) => preset(name)?,
        None => preset_for(network.family, args.weights.is_some()),
    })
}

/// Prints what would train.
fn plan(
    args: &Args,
    network: &BackboneEntry,
    recipe: &Recipe,
    dataset: &dyn Dataset,
) -> Result<()> {
    let start = start_of(args, network)?;
    let from = args.weights.as_ref().map_or_else(
        || format!("from scratch, seed {}", args.network.seed.value()),
        |weights| format!("from {}", weights.display()),
    );
    let images = dataset.len(0).min(args.limit.unwrap_or(usize::MAX));
    let facts = [
        format!("{} {from}", network.name),
        format!("{images} images of {}, {} classes", args.dataset, dataset.info().num_classes),
        format!("results in {}", args.out.display()),
    ];
    let base = plan::leaves(&(start.recipe)())?;
    let values = plan::leaves(recipe)?;
    let origin = |key: &str| match (base.get(key), values.get(key)) {
        (Some(before), Some(now)) if before != now => {
            format!("changed, {before} in preset {}", start.name)
        }
        _ => format!("preset {}", start.name),
    };
    args.output.print(&Plan::new(recipe, &facts, origin)?, Plan::text)
}

/// The preset, then the flags, then `--set`.
fn recipe(args: &Args, network: &BackboneEntry) -> Result<Recipe> {
    let base = (start_of(args, network)?.recipe)();
    let mut draft = Draft::parse(&base.to_toml()?, "recipe")?;
    for (key, value) in [("epochs", args.epochs), ("batch_size", args.network.batch_size)] {
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
        "{images_per_second:.0} images/s, {ms_per_step:.2} ms per step of {batch_size} ({steps} steps after {warmup_s:.1} s)\n"
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
