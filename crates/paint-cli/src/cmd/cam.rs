//! `paint cam`: where each method looks, image by image.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use paint_bench::cam::{look, side_by_side};
use paint_bench::protocol::{Place, Protocol};
use paint_bench::report::html::{CamShot, cam_page};
use paint_data::dataset::{self, Corrupt, Labels, Options, entry_at};
use paint_data::{BatchPlan, Loader, ReadAhead, Stream};
use paint_methods::Registry;
use paint_run::Experiment;
use paint_run::experiment::write_text;
use paint_run::model::embedded;
use paint_run::probe;
use paint_tensor::Tensor;
use serde::Serialize;

use crate::Usage;
use crate::flags::{NetworkFlags, SetFlag};
use crate::output::Output;
use crate::place::resolved;

/// Draw where methods look: attention weighted by gradients, as PNG files and a page
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of images or .npy array [default: the embedded images, corrupted]
    #[arg(long)]
    images: Option<PathBuf>,
    /// Weights file, or `embedded`
    #[arg(long, default_value = embedded::NAME)]
    weights: PathBuf,
    /// Methods, separated by commas; each adapts to the images first
    #[arg(long, value_delimiter = ',', default_value = "source,cotta,paint")]
    methods: Vec<String>,
    /// Number of images to draw
    #[arg(long, default_value_t = 8)]
    count: usize,
    /// Number of images to adapt to first
    #[arg(long, default_value_t = 200)]
    adapt: usize,
    /// Corrupt the images first; see `paint list corruptions` [default: fog for the embedded images, none for --images]
    #[arg(long)]
    corruption: Option<String>,
    /// Clean images that --images were made from, in the same order; drawn beside them
    #[arg(long, value_name = "PATH", requires = "images")]
    clean_data: Option<PathBuf>,
    /// Class to explain, by number [default: the predicted one]
    #[arg(long)]
    class: Option<usize>,
    /// Folder for the PNG files and cam.html
    #[arg(long, value_name = "DIR", default_value = "paint-cam")]
    out: PathBuf,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    set: SetFlag,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint cam --methods source,cotta,paint
  paint cam --images photos/ --weights model.safetensors --corruption fog --out maps";

/// What is printed.
#[derive(Serialize)]
struct Drawn {
    file: String,
    truth: Option<String>,
    /// The class each method predicts, in their order.
    predicted: Vec<String>,
    /// The class each method predicts for the clean image, where that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predicted_clean: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.network.compute.threads.start()?;
    let mut protocol = protocol(args)?;
    for name in &args.methods {
        paint_methods::by_name(name)?;
    }
    // A file in the way is found before minutes of adaptation.
    paint_files::create_folder(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let mut shots: Vec<CamShot> = Vec::new();
    for name in &args.methods {
        let experiment = open(args, &mut protocol, name)?;
        add(args, &experiment, &mut shots).with_context(|| format!("method {name}"))?;
    }
    ensure!(
        args.clean_data.is_none() || shots.iter().all(|shot| shot.clean.is_some()),
        "--clean-data: expected the images that --images were made from, as many and with the same labels in the same order"
    );
    let drawn = draw(&shots, &args.out)?;
    let page = args.out.join("cam.html");
    write_text(&page, &cam_page(&protocol.what, &shots)?)?;
    note!("written: {}", page.display());
    args.output.print(&drawn, |drawn| {
        let line = |d: &Drawn| {
            let truth = d.truth.as_deref().unwrap_or("unknown");
            format!("{}  {truth}  {}\n", d.file, d.predicted.join("  "))
        };
        format!("file     class  {}\n", args.methods.join("  "))
            + &drawn.iter().map(line).collect::<String>()
    })
}

/// The embedded protocol, or the same for the user's images.
fn protocol(args: &Args) -> anyhow::Result<Protocol> {
    let mut protocol = Protocol::find("embedded")?;
    protocol.scenario.limit = Some(args.adapt.max(args.count));
    if args.weights != Path::new(embedded::NAME) {
        protocol.model.sha256 = None;
        protocol.settings.clear();
    }
    let images = match &args.images {
        Some(images) => {
            check_images(images, &args.out)?;
            protocol.data.name = entry_at(images).name.into();
            protocol.data.corrupt = args.corruption.as_ref().map(|_| Corrupt::default());
            protocol.probe = args.clean_data.as_deref().map(clean_images).transpose()?;
            format!("{} images of {}", args.count, images.display())
        }
        None => "embedded images".to_owned(),
    };
    let fog = args.images.is_none().then(|| "fog".to_owned());
    let corruption = args.corruption.clone().or(fog);
    match &corruption {
        Some(corruption) => protocol.scenario.domains = Some(vec![corruption.clone()]),
        None => protocol.scenario.severity = None,
    }
    if let Some(size) = args.network.batch_size {
        protocol.scenario.batch_size = size as usize;
    }
    for assignment in args.set.for_methods(&args.methods)? {
        protocol.set(&assignment)?;
    }
    protocol.what = match (corruption, protocol.scenario.severity) {
        (Some(corruption), Some(severity)) => {
            format!("{corruption} at severity {severity}, {images}")
        }
        _ => images,
    };
    protocol.check(&Registry::default())?;
    Ok(protocol)
}

/// Clean images beside those of the stream; nothing is counted on them.
fn clean_images(path: &Path) -> anyhow::Result<probe::Config> {
    ensure!(path.exists(), "no such folder or file: {}", path.display());
    let (name, path) = (entry_at(path).name.into(), path.to_owned());
    let data = dataset::Config { name, path, options: Options::default(), corrupt: None };
    Ok(probe::Config { data: Some(data), ..probe::Config::default() })
}

fn check_images(images: &Path, out: &Path) -> anyhow::Result<()> {
    ensure!(images.exists(), "no such folder or file: {}", images.display());
    if resolved(out)? == resolved(images)? {
        let out = out.display();
        return Err(Usage(format!("--out {out} is where the images are: name another")).into());
    }
    Ok(())
}

/// The experiment of one method. Subfolders that are not the model's classes are no labels: a map needs none, so the
/// images are taken as `paint adapt` takes them.
fn open(args: &Args, protocol: &mut Protocol, method: &str) -> anyhow::Result<Experiment> {
    let config = |protocol: &Protocol| {
        let mut config = protocol.config(&place(args));
        config.seed = args.network.seed.value();
        method.clone_into(&mut config.method.name);
        config.method.settings = protocol.settings.get(method).cloned().unwrap_or_default();
        config
    };
    let refused = match Experiment::open(config(protocol)) {
        Err(error) if args.images.is_some() && protocol.data.options.labels == Labels::Read => {
            error
        }
        opened => return Ok(opened?),
    };
    let mut unlabelled = protocol.clone();
    unlabelled.data.options.labels = Labels::Ignored;
    let clean = unlabelled.probe.as_mut().and_then(|probe| probe.data.as_mut());
    clean.into_iter().for_each(|data| data.options.labels = Labels::Ignored);
    let Ok(experiment) = Experiment::open(config(&unlabelled)) else { return Err(refused.into()) };
    note!("labels are ignored: {refused}");
    *protocol = unlabelled;
    Ok(experiment)
}

fn place(args: &Args) -> Place {
    Place {
        data: args.images.clone().unwrap_or_default(),
        clean: args.clean_data.clone().unwrap_or_default(),
        device: args.network.compute.device().to_owned(),
        precision: args.network.compute.precision().to_owned(),
        threads: args.network.compute.threads.threads,
        ..Place::new(&args.out, &args.weights)
    }
}

/// Adapts to the stream, then adds to `shots` where its first images are looked at.
fn add(args: &Args, experiment: &Experiment, shots: &mut Vec<CamShot>) -> anyhow::Result<()> {
    let mut method = experiment.method()?;
    let loader = Loader::new(
        Arc::clone(&experiment.dataset),
        first_images(&experiment.stream, args.adapt),
        ReadAhead::default(),
    );
    for batch in loader {
        let batch = batch?;
        let images = Tensor::from_vec(batch.images, batch.shape, experiment.device())?;
        method.set_domain(batch.plan.samples.first().map(|sample| sample.domain));
        method.step(&images)?;
    }
    let samples = experiment.stream.batches.iter().flat_map(|batch| &batch.samples);
    for (i, at) in samples.take(args.count).enumerate() {
        let maps = look(experiment, &mut *method, *at, args.class)?;
        let maps = maps.context("the network has no attention to look at")?;
        if shots.len() <= i {
            shots.push(CamShot::new(experiment, *at)?);
        }
        shots[i].add(experiment, &experiment.config.method.name, maps);
    }
    Ok(())
}

/// The first `count` images of each visit.
fn first_images(stream: &Stream, count: usize) -> Stream {
    let mut batches: Vec<BatchPlan> = Vec::new();
    let (mut visit, mut left) = (None, count);
    for batch in &stream.batches {
        if visit.replace(batch.segment) != Some(batch.segment) {
            left = count;
        }
        let samples: Vec<_> = batch.samples.iter().copied().take(left).collect();
        left -= samples.len();
        if !samples.is_empty() {
            batches.push(BatchPlan { samples, ..batch.clone() });
        }
    }
    Stream { batches }
}

/// One PNG for each image: the image, then the map of each method, each beside that of the clean image.
fn draw(shots: &[CamShot], out: &Path) -> anyhow::Result<Vec<Drawn>> {
    /// Small images are enlarged to about this many pixels.
    const SIDE: usize = 192;
    ensure!(!shots.is_empty(), "there is no image to draw");
    let mut drawn = Vec::new();
    for (i, shot) in shots.iter().enumerate() {
        let panels = shot.panels()?;
        let factor = (SIDE / shot.image.height()).max(1);
        let file = format!("{i:03}.png");
        let path = out.join(&file);
        let image = side_by_side(&panels, factor)?;
        paint_data::write_atomically(&path, |file| image.write_png(file))?;
        drawn.push(Drawn {
            file,
            truth: shot.truth.clone(),
            predicted: shot.maps.iter().map(|map| map.said.clone()).collect(),
            predicted_clean: shot.maps.iter().filter_map(|map| map.said_of_clean.clone()).collect(),
        });
    }
    Ok(drawn)
}
