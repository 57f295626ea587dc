//! `paint stats`: what a network's tokens are like on clean images, for the methods that align to it.

use std::path::{Path, PathBuf};

use paint_data::dataset::{Labels, Options, Split};
use paint_methods::SourceStatistics;
use paint_run::config::{Model, Resize, Source};
use paint_run::model::{self, embedded};
use paint_run::source::SourceImages;
use paint_tensor::Device;
use serde::Serialize;

use crate::output::Output;
use crate::place::{dataset_row, resolved};
use crate::{Usage, process};

/// Measure the statistics of a network's tokens on clean images, which `keel` aligns to
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file of weights of a vision transformer; `embedded` for the built-in ones
    #[arg(long)]
    weights: PathBuf,
    /// Clean images, some hundred; labels are not read: a folder, a .npy or .npz array, or CIFAR-10, of which the
    /// training set is taken
    #[arg(long)]
    images: PathBuf,
    /// How many of them are drawn [default: 2000, or all where there are fewer]
    #[arg(long)]
    count: Option<usize>,
    /// The seed of the draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The file to write [default: beside the weights, where `keel` finds it]
    #[arg(long)]
    out: Option<PathBuf>,
    /// The row of `paint list devices`
    #[arg(long, default_value = "cpu")]
    device: String,
    #[command(flatten)]
    output: Output,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Written {
    file: PathBuf,
    images: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    process::set_threads(0)?;
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
    let device = Device::from_name(&args.device)?;
    let model = model::open(&mut Model::new(&args.weights), &device)?;
    let source = Source {
        name: dataset_row(&args.images).into(),
        path: args.images.clone(),
        options: Options { split: Split::Train, labels: Labels::Ignored, ..Options::default() },
        images: args.count,
        seed: Some(args.seed),
    };
    let images =
        SourceImages::open(&source, args.seed, model.spec(), (None, Resize::default()), &device)?;
    let statistics = SourceStatistics::collect(&*model, images.data().images)?;
    statistics.save(&out)?;
    let written = Written { file: out, images: statistics.images() };
    args.output
        .print(&written, |w| format!("statistics of {} images: {}\n", w.images, w.file.display()))
}
