//! `paint demo`: the whole thing on embedded weights and images, with nothing to download.

mod screen;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use paint_bench::grid::named;
use paint_bench::report::html;
use paint_data::scenario::BatchPlan;
use paint_data::{Loader, ReadAhead, SampleRef};
use paint_methods::Registry;
use paint_run::experiment::{write_json, write_text};
use paint_run::table::terminal;
use paint_run::{Config, Draft, Event, Experiment, Runner, Setup, Summary, model};
use paint_tensor::Tensor;
use serde::Serialize;

use crate::flags::{MetricFlag, SeedFlag, ThreadsFlag};
use crate::output::Output;
use crate::place::refuse_foreign;
use screen::Screen;

/// The methods that run side by side, with their settings. PAINT's were chosen for the embedded model on the four
/// held-out corruptions (RESULTS.md).
const METHODS: [(&str, &[&str]); 3] = [
    ("source", &[]),
    ("paint", &["preset=paper_adam", "lr_blocks=2e-4", "eta=0.4"]),
    ("keel", &[]),
];

/// Stream fifteen corruptions through the frozen model, PAINT and keel, side by side, the last one sorted by class;
/// nothing to download
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Number of images per corruption, at most 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
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
    metric: MetricFlag,
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
    let open =
        |(name, settings): &(&str, &[&str])| Ok(Experiment::open(config(args, name, settings)?)?);
    let mut experiments = METHODS.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    experiments.iter_mut().for_each(sort_last);
    let rate = args.metric.rate();
    let names: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
    let stream = &experiments[0].stream;
    let screen = Rc::new(RefCell::new(Screen::new(names, stream.batches.len(), rate)?));
    let mut runners = Vec::new();
    for (at, experiment) in experiments.iter().enumerate() {
        let screen = Rc::clone(&screen);
        let observer = move |event: &Event| screen.borrow_mut().observe(at, event);
        runners.push(experiment.runner()?.with_observer(observer));
    }
    paint_files::create_folder(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let shots = side_by_side(&mut runners, &experiments[0], &screen)?;
    let methods = runners.iter_mut().map(Runner::finish).collect::<paint_run::Result<Vec<_>>>()?;
    let demo = Demo { methods };

    write_json(&args.out.join("summary.json"), &demo)?;
    let page = args.out.join("demo.html");
    write_text(&page, &render(&demo, &experiments, &screen.borrow(), &shots))?;
    note!("written: {}", page.display());
    args.output.print(&demo, |demo| {
        let table = terminal(&demo.methods.iter().collect::<Vec<_>>(), rate);
        let images = experiments[0].config.scenario.limit.unwrap_or(1000);
        let what = format!("{} in %, severity 5, {images} images per domain", rate.name());
        format!("{what}; the last domain is five times as long and sorted by class\n{table}")
    })
}

/// The run of one method, as `paint run` would be told of it.
fn config(args: &Args, method: &str, settings: &[&str]) -> paint_run::Result<Config> {
    let mut draft = Draft::default();
    draft.set("data.name", "embedded")?;
    draft.set_assignment("data.corrupt={}")?;
    draft.set("model.weights", model::embedded::NAME)?;
    draft.set("out", args.out.display().to_string())?;
    draft.set("method.name", method)?;
    for setting in settings {
        draft.set_assignment(&format!("method.{setting}"))?;
    }
    if !args.full {
        draft.set("scenario.limit", i64::from(args.images))?;
    }
    draft.set("seed", args.seed.value() as i64)?;
    draft.resolve()
}

/// The last domain is five times as long and sorted by class, as a folder for each class would give it.
fn sort_last(experiment: &mut Experiment) {
    let Experiment { dataset, stream, config, .. } = experiment;
    let Some(last) = stream.batches.last().cloned() else { return };
    let Some(&SampleRef { domain, .. }) = last.samples.first() else { return };
    let is_last = |batch: &BatchPlan| batch.segment == last.segment;
    let count: usize =
        stream.batches.iter().filter(|batch| is_last(batch)).map(|batch| batch.samples.len()).sum();
    stream.batches.retain(|batch| !is_last(batch));
    let held = (5 * count).min(dataset.len(domain));
    let mut samples: Vec<SampleRef> = (0..held).map(|index| SampleRef { domain, index }).collect();
    samples.sort_by_key(|sample| dataset.label(domain, sample.index));
    let batches = samples.chunks(config.scenario.batch_size);
    stream
        .batches
        .extend(batches.map(|batch| BatchPlan { samples: batch.to_vec(), ..last.clone() }));
}

/// Feeds every batch to every runner; returns an image of each visit's last batch with what the methods said.
fn side_by_side(
    runners: &mut [Runner<'_>],
    experiment: &Experiment,
    screen: &RefCell<Screen>,
) -> anyhow::Result<Vec<html::Shot>> {
    let Experiment { dataset, stream, .. } = experiment;
    let ahead = ReadAhead { threads: 1, ..ReadAhead::default() };
    let loader = Loader::new(Arc::clone(dataset), stream.clone(), ahead);
    let mut shots = Vec::new();
    for (index, batch) in loader.enumerate() {
        let batch = batch?;
        let images = Tensor::from_vec(batch.images, batch.shape, experiment.device())?;
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
    experiments: &[Experiment],
    screen: &Screen,
    shots: &[html::Shot],
) -> String {
    let settings = |experiment: &Experiment| {
        let method = &experiment.config.method;
        named(&Registry::default(), &method.name, &serde_json::json!(method.settings)).to_string()
    };
    let settings: Vec<String> = experiments.iter().map(settings).collect();
    let runs = demo.methods.iter().zip(&screen.batches).zip(&settings);
    let runs: Vec<html::Run<'_>> = runs
        .map(|((summary, batches), settings)| html::Run { summary, settings, batches })
        .collect();
    let Experiment { stream, config, .. } = &experiments[0];
    let intro = format!(
        "{} images of CIFAR-10 under fifteen corruptions of severity 5, one after the other, in batches of {}, \
         without a label and without a reset. Those of the last corruption are sorted by class.",
        stream.num_samples(),
        config.scenario.batch_size,
    );
    let facts = demo.methods.first().map(|summary| facts(&summary.setup)).unwrap_or_default();
    html::demo_page(&html::DemoPage {
        title: "PAINT, adapting while the world changes",
        intro: &intro,
        facts: &facts,
        runs: &runs,
        shots,
        next: &NEXT,
        rate: screen.rate,
    })
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
