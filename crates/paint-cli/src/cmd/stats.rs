//! `paint stats`: what a network's tokens are like on clean images, for the methods that align to it.

use std::path::{Path, PathBuf};

use paint_data::dataset::{Labels, Options, Split, entry_at};
use paint_methods::SourceStatistics;
use paint_run::config::{Model, Resize, Source};
use paint_run::model::{self, embedded};
use paint_run::source::SourceImages;
use paint_tensor::Device;
use serde::Serialize;

use crate::Usage;
use crate::flags::{ComputeFlags, SeedFlag};
use crate::output::Output;
use crate::place::resolved;

/// Measure the statistics of a network's tokens on clean images, which `keel` aligns to
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file of weights of a vision transformer; `embedded` for the built-in ones
    #[arg(long)]
    weights: PathBuf,
    /// A few hundred clean images; labels are not read: a folder, a .npy or .npz array, or CIFAR-10, of which the
    /// training set is taken
    #[arg(long)]
    images: PathBuf,
    /// How many of them are drawn [default: 2000, or all where there are fewer]
    #[arg(long)]
    count: Option<usize>,
    #[command(flatten)]
    seed: SeedFlag,
    /// The file to write [default: beside the weights, where `keel` finds it]
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    compute: ComputeFlags,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint stats --weights model.safetensors --images clean_images/
  paint stats --weights embedded --images CIFAR --count 1000 --out statistics.safetensors";

/// What is printed.
#[derive(Debug, Serialize)]
struct Written {
    file: PathBuf,
    images: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.compute.threads.start()?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None if args.weights == Path::new(embedded::NAME) => {
            return Err(Usage(
                "the built-in weights have no folder: name a file with --out".into(),
            )
            .into());
        }
        None => model::statistics_path(&args.weights),
    };
    if resolved(&out)? == resolved(&args.weights)? {
        return Err(
            Usage(format!("--out {} is the file of weights: name another", out.display())).into()
        );
    }
    let device = Device::open(args.compute.device(), args.compute.precision().parse()?)?;
    let model = model::open(&mut Model::new(&args.weights), &device)?;
    let source = Source {
        name: entry_at(&args.images).name.into(),
        path: args.images.clone(),
        options: Options { split: Split::Train, labels: Labels::Ignored, ..Options::default() },
        images: args.count,
        seed: Some(args.seed.seed.unwrap_or(0)),
    };
    let images = SourceImages::open(
        &source,
        args.seed.seed.unwrap_or(0),
        model.spec(),
        (None, Resize::default()),
        &device,
    )?;
    let statistics = SourceStatistics::collect(&*model, images.data().images)?;
    statistics.save(&out)?;
    let written = Written { file: out, images: statistics.images() };
    args.output
        .print(&written, |w| format!("statistics of {} images: {}\n", w.images, w.file.display()))
}
