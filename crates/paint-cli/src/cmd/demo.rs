//! `paint demo`: the whole thing on embedded weights and images, with nothing to download.

mod screen;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use paint_bench::grid::named;
use paint_bench::report::html;
use paint_data::dataset::{Corrupted, embedded};
use paint_data::{Dataset, Loader, ReadAhead, Stream, scenario};
use paint_methods::{BuildArgs, Registry, by_name};
use paint_rng::Seed;
use paint_run::config::Model;
use paint_run::experiment::{write_json, write_text};
use paint_run::table::terminal;
use paint_run::{Event, Runner, Setup, Summary, Task, model};
use paint_tensor::{Device, Tensor};
use serde::Serialize;

use crate::flags::{SeedFlag, ThreadsFlag};
use crate::output::Output;
use crate::place::refuse_foreign;
use screen::Screen;

const BATCH_SIZE: usize = 50;
/// The rows of `METHODS` that run side by side, with their settings. PAINT's were chosen for the embedded model on the
/// four held-out corruptions (RESULTS.md).
const METHODS: [(&str, &str); 2] =
    [("source", ""), ("paint", "preset = \"paper_adam\"\nlr_blocks = 2e-4\neta = 0.4")];

/// Stream fifteen corruptions through the frozen model and PAINT, side by side; nothing to download
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Number of images per corruption, at most 1000
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=1000))]
    images: u16,
    /// Use all 1,000 images of each corruption
    #[arg(long, conflicts_with = "images")]
    full: bool,
    /// Folder for demo.html and summary.json
    #[arg(long, value_name = "DIR", default_value = "paint-demo")]
    out: PathBuf,
    #[command(flatten)]
    seed: SeedFlag,
    #[command(flatten)]
    threads: ThreadsFlag,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint demo
  paint demo --full --out out/demo";

/// `summary.json` of the demo.
#[derive(Serialize)]
struct Demo {
    methods: Vec<Summary>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    refuse_foreign(&args.out, "demo")?;
    args.threads.start()?;
    let (device, seed) = (Device::cpu(), Seed(args.seed.value()));
    let dataset: Arc<dyn Dataset> = Arc::new(Corrupted::new(Box::new(embedded()?), seed)?);
    let limit = (!args.full).then_some(usize::from(args.images));
    let order = scenario::Config { batch_size: BATCH_SIZE, limit, ..scenario::Config::default() };
    let stream = order.stream(&*dataset, seed)?;
    let model = model::open(&mut Model::new(model::embedded::NAME), &device)?;
    let setup = Setup {
        dataset: dataset.info().name.into(),
        scenario: order.name,
        batch_size: BATCH_SIZE,
        limit,
        backbone: model.spec().name.clone(),
        weights_sha256: Some(model::embedded::SHA256.into()),
        seed: args.seed.value(),
        device: device.to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let names: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
    let screen = Rc::new(RefCell::new(Screen::new(names, stream.batches.len())?));
    let task = Task { dataset: &*dataset, stream: &stream, setup: &setup };
    let mut runners = Vec::new();
    for (at, (name, settings)) in METHODS.iter().enumerate() {
        let settings = settings.parse().with_context(|| format!("settings of {name}"))?;
        let method = by_name(name)?.build(&BuildArgs::new(&*model, seed), &settings)?;
        let screen = Rc::clone(&screen);
        let observer = move |event: &Event| screen.borrow_mut().observe(at, event);
        runners.push(Runner::new(name, method, task)?.with_observer(observer));
    }
    paint_files::create_folder(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let shots = side_by_side(&mut runners, &dataset, &stream, &device, &screen)?;
    let methods = runners.iter_mut().map(Runner::finish).collect::<paint_run::Result<Vec<_>>>()?;
    let demo = Demo { methods };

    write_json(&args.out.join("summary.json"), &demo)?;
    let page = args.out.join("demo.html");
    write_text(&page, &render(&demo, &screen.borrow(), &shots, stream.num_samples())?)?;
    note!("written: {}", page.display());
    args.output.print(&demo, |demo| {
        let table = terminal(&demo.methods.iter().collect::<Vec<_>>());
        format!("accuracy in %, severity 5, {} images a domain\n{table}", limit.unwrap_or(1000))
    })
}

/// Feeds every batch to every runner; returns an image of each visit's last batch with what the methods said.
fn side_by_side(
    runners: &mut [Runner<'_>],
    dataset: &Arc<dyn Dataset>,
    stream: &Stream,
    device: &Device,
    screen: &RefCell<Screen>,
) -> anyhow::Result<Vec<html::Shot>> {
    let ahead = ReadAhead { threads: 1, ..ReadAhead::default() };
    let loader = Loader::new(Arc::clone(dataset), stream.clone(), ahead);
    let mut shots = Vec::new();
    for (index, batch) in loader.enumerate() {
        let batch = batch?;
        let images = Tensor::from_vec(batch.images, batch.shape, device)?;
        for runner in &mut *runners {
            runner.feed(&images)?;
        }
        let segment = batch.plan.segment;
        if stream.batches.get(index + 1).is_some_and(|next| next.segment == segment) {
            continue;
        }
        // Every domain has the same images in the same order: take another one from each.
        let at = shots.len() % batch.plan.samples.len();
        let shown = batch.plan.samples[at];
        let domain = dataset.domains()[shown.domain].name.clone();
        screen.borrow().domain_done(&domain);
        let sample = dataset.sample(shown.domain, shown.index)?;
        let name = |class: usize| dataset.info().class_name(class);
        let said = |runner: &Runner<'_>| runner.scores().get(at).map(|score| name(score.predicted));
        shots.push(html::Shot {
            domain,
            image: sample.image,
            truth: sample.label.map(name).unwrap_or_default(),
            predicted: runners.iter().filter_map(said).collect(),
        });
    }
    Ok(shots)
}

/// What to try after the demo.
const NEXT: [(&str, &str); 3] = [
    ("Every method on the same images, with a report:", "paint bench --reproduce table1"),
    (
        "Your own model, adapting to a folder of images without labels:",
        "paint adapt --weights model.safetensors --images new_images/ --state state.safetensors",
    ),
    ("Where each method looks:", "paint cam --methods source,cotta,paint"),
];

fn render(
    demo: &Demo,
    screen: &Screen,
    shots: &[html::Shot],
    samples: usize,
) -> anyhow::Result<String> {
    let settings = METHODS.iter().map(|(name, settings)| {
        let settings = by_name(name)?.resolve(&settings.parse()?)?;
        Ok(named(&Registry::default(), name, &serde_json::json!(settings)).to_string())
    });
    let settings = settings.collect::<anyhow::Result<Vec<_>>>()?;
    let runs = demo.methods.iter().zip(&screen.batches).zip(&settings);
    let runs: Vec<html::Run<'_>> = runs
        .map(|((summary, batches), settings)| html::Run { summary, settings, batches })
        .collect();
    let intro = format!(
        "{samples} images of CIFAR-10 under fifteen corruptions of severity 5, one after the other, in batches of \
         {BATCH_SIZE}, without a label and without a reset."
    );
    let facts = demo.methods.first().map(|summary| facts(&summary.setup)).unwrap_or_default();
    Ok(html::demo_page(&html::DemoPage {
        title: "PAINT, adapting while the world changes",
        intro: &intro,
        facts: &facts,
        runs: &runs,
        shots,
        next: &NEXT,
    }))
}

/// What is true of all runs of the page.
fn facts(setup: &Setup) -> Vec<String> {
    let weights = setup.weights_sha256.as_deref().unwrap_or_default();
    let images = setup.limit.map_or_else(|| "all".into(), |limit| limit.to_string());
    vec![
        format!("model {}, embedded weights {}", setup.backbone, &weights[..weights.len().min(12)]),
        format!("seed {}", setup.seed),
        format!("{images} images per domain"),
        format!("batch size {}", setup.batch_size),
        setup.device.clone(),
        format!("paint {}", setup.version),
    ]
}
