//! `paint bench step`: one adaptation step in the shape of PAINT, timed, or its values for given inputs.
//!
//! The step: query forward of the frozen source, prompted forward, mixed forward of the whole batch (every sample
//! confident, the worst case), backward into the prompt and blocks 0..2, plain SGD, final forward. The two losses go
//! backward one after the other, so that only one forward's activations are held at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use paint_nn::backbone::{self, Backbone, BuildOptions, Request, Weights};
use paint_nn::checkpoint::{self, Dtype, PreprocessFlags};
use paint_nn::loss::{MixedLabels, interpolation_consistency, mutual_information};
use paint_nn::optim::{Group, Optimizer, Rule, Sgd};
use paint_nn::params::Trainable;
use paint_rng::Seed;
use paint_run::metric::peak_memory_mib;
use paint_tensor::{Device, Gradients, Tensor};
use serde::Serialize;

use super::work::{Work, step_flops};
use crate::output::Output;
use crate::{Usage, process};

/// λ of the mixed forward.
const LAMBDA: f32 = 0.3;
/// Prompt tokens.
const PROMPTS: usize = 2;
/// The blocks that train.
const TRAINED: usize = 3;

/// Time one adaptation step: three forwards, one backward, update, final forward.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The network, see `paint list backbones`
    #[arg(long, default_value = "vit_tiny_patch4_32")]
    backbone: String,
    /// Images in a batch
    #[arg(long, default_value_t = 50)]
    batch: usize,
    /// Threads; 0 takes every core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// The device, see `paint list devices`
    #[arg(long, default_value = "cpu")]
    device: String,
    /// How a GPU computes: f32, tf32 or bf16
    #[arg(long, default_value = "f32")]
    precision: String,
    /// Timed steps, after one that is not counted
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    #[command(flatten)]
    output: Output,
    /// Weights to use instead of random ones
    #[arg(long, requires = "images")]
    weights: Option<PathBuf>,
    /// A safetensors file with `images`, `prompt` and `labels`
    #[arg(long, requires = "dump")]
    images: Option<PathBuf>,
    /// Write `logits` and `grad.*` of these inputs to this file instead of timing
    #[arg(long, requires = "weights")]
    dump: Option<PathBuf>,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Report {
    backbone: String,
    device: String,
    batch: usize,
    threads: usize,
    repeat: usize,
    /// Of the first step, which compiles kernels and fills pools.
    first_step_ms: f64,
    /// Median.
    ms_per_step: f64,
    /// Processor time of all threads, mean.
    cpu_ms_per_step: f64,
    images_per_second: f64,
    /// Of the process, or of the GPU's own memory.
    peak_memory_bytes: u64,
    /// Of the rate of a large matrix product, measured in the same process.
    matmul_peak_fraction: f64,
    matmul_peak_gflops: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.batch == 0 || args.repeat == 0 {
        return Err(Usage("--batch and --repeat take a number from 1".to_owned()).into());
    }
    process::set_threads(args.threads)?;
    let device = process::device(&args.device, &args.precision)?;
    match (&args.weights, &args.images, &args.dump) {
        (Some(weights), Some(images), Some(out)) => dump(args, &device, weights, images, out),
        _ => time(args, &device),
    }
}

/// The inputs of a step.
struct Inputs {
    images: Tensor,
    labels: Vec<usize>,
}

/// The two models and the prompt of a step.
struct Bench {
    source: Box<dyn Backbone>,
    model: Box<dyn Backbone>,
    prompt: Tensor,
    optimizer: Optimizer,
}

impl Bench {
    fn new(source: Box<dyn Backbone>, prompt: &Tensor) -> Self {
        let mut model = source.duplicate();
        let blocks = Trainable::Blocks(0..TRAINED);
        model.params_mut().track(&blocks);
        let rule = Rule::Sgd(Sgd { momentum: 0.0, nesterov: false, weight_decay: 0.0 });
        let optimizer = Optimizer::new(rule, vec![Group { select: blocks, lr: 1e-4 }]);
        Self { source, model, prompt: prompt.variable(), optimizer }
    }

    /// Logits of the prompted forward, and the gradients of both losses.
    fn gradients(&self, embedding: &Tensor, labels: &[usize]) -> Result<(Tensor, Gradients)> {
        let request = Request { prompt: Some(&self.prompt), ..Request::default() };
        let b = labels.len();
        let logits = self.model.forward_embedded(embedding, &request)?.logits;
        let mut gradients = mutual_information(&logits)?.backward()?;
        let before = logits.detach();
        // The tape of the first forward hangs on its logits: it must go before the second forward makes its own.
        drop(logits);
        let partner: Vec<usize> = (0..b).rev().collect();
        let mixed =
            embedding.scale(LAMBDA)?.add(&embedding.gather(&partner)?.scale(1.0 - LAMBDA)?)?;
        let partners: Vec<usize> = partner.iter().map(|&i| labels[i]).collect();
        let mixed_labels = MixedLabels { first: labels, second: &partners, lambda: LAMBDA };
        let mixed_logits = self.model.forward_embedded(&mixed, &request)?.logits;
        let loss = interpolation_consistency(&mixed_logits, mixed_labels, b)?;
        gradients.accumulate(loss.backward()?)?;
        Ok((before, gradients))
    }

    fn step(&mut self, inputs: &Inputs) -> Result<()> {
        let embedding = self.source.embed(&inputs.images)?;
        // What decides is read on the host, as a method does: queries, pseudo labels, predictions.
        self.source.forward_embedded(&embedding, &Request::default())?.pooled.to_vec()?;
        let (logits, gradients) = self.gradients(&embedding, &inputs.labels)?;
        logits.argmax()?;
        self.optimizer.step(self.model.params_mut(), &gradients)?;
        let prompt_gradient = gradients.get(&self.prompt).context("the prompt has no gradient")?;
        let prompt = self.prompt.detach().sub(&prompt_gradient.scale(1e-3)?)?;
        drop(gradients);
        self.prompt = prompt.variable();
        let mut frozen = self.model.duplicate();
        frozen.params_mut().freeze();
        let prompt = self.prompt.detach();
        let request = Request { prompt: Some(&prompt), ..Request::default() };
        frozen.forward_embedded(&embedding, &request)?.logits.argmax()?;
        Ok(())
    }
}

fn time(args: &Args, device: &Device) -> Result<()> {
    let entry = backbone::find(&args.backbone).map_err(|error| Usage(error.to_string()))?;
    let source = entry.build(Weights::Random(Seed(0)), &BuildOptions::new(device))?;
    let [height, width] = source.spec().image_size;
    let classes = source.spec().num_classes;
    let mut rng = Seed(0).derive("bench/step", &[]);
    let mut draw = |shape: &[usize]| {
        let data = (0..shape.iter().product()).map(|_| rng.uniform() as f32).collect();
        Tensor::from_vec(data, shape, device)
    };
    let images = draw(&[args.batch, 3, height, width])?;
    let prompt = draw(&[PROMPTS, source.spec().feature_dim])?;
    let inputs = Inputs { images, labels: (0..args.batch).map(|i| i % classes).collect() };
    let flops = step_flops(&Work::of(&*source)?, args.batch, PROMPTS, TRAINED);

    let mut bench = Bench::new(source, &prompt);
    let first = Instant::now();
    bench.step(&inputs)?;
    device.synchronize()?;
    let first_step_ms = first.elapsed().as_secs_f64() * 1e3;
    let cpu_start = process::cpu_seconds();
    let mut times = Vec::with_capacity(args.repeat);
    for _ in 0..args.repeat {
        let start = Instant::now();
        bench.step(&inputs)?;
        device.synchronize()?;
        times.push(start.elapsed().as_secs_f64());
    }
    let cpu = process::cpu_seconds() - cpu_start;
    let resident = || (peak_memory_mib().unwrap_or_default() * f64::from(1 << 20)) as u64;
    let peak_memory_bytes = device.memory().map_or_else(resident, |memory| memory.peak as u64);
    times.sort_by(f64::total_cmp);
    let median = f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2]);
    let peak = device.peak_gflops()?;
    let report = Report {
        backbone: args.backbone.clone(),
        device: device.to_string(),
        batch: args.batch,
        threads: process::threads(),
        repeat: args.repeat,
        first_step_ms,
        ms_per_step: median * 1e3,
        cpu_ms_per_step: cpu / args.repeat as f64 * 1e3,
        images_per_second: args.batch as f64 / median,
        peak_memory_bytes,
        matmul_peak_fraction: flops / median / (peak * 1e9),
        matmul_peak_gflops: peak,
    };
    args.output.print(&report, |report| {
        format!(
            "{} x{} on {} ({} threads): {:.1} ms a step (median of {}), {:.1} images/s, {:.1} ms of processor time\n\
             peak memory {:.1} MiB, {:.0} % of the machine's {:.0} GFLOP/s for matrix products\n",
            report.backbone,
            report.batch,
            report.device,
            report.threads,
            report.ms_per_step,
            report.repeat,
            report.images_per_second,
            report.cpu_ms_per_step,
            report.peak_memory_bytes as f64 / f64::from(1 << 20),
            report.matmul_peak_fraction * 100.0,
            report.matmul_peak_gflops,
        )
    })
}

fn dump(args: &Args, device: &Device, weights: &Path, inputs: &Path, out: &Path) -> Result<()> {
    let preprocess = checkpoint::read_preprocess(weights, &PreprocessFlags::default())?;
    let options = BuildOptions { preprocess: Some(preprocess), ..BuildOptions::new(device) };
    let weights = Weights::Checkpoint(checkpoint::read(weights)?);
    let entry = backbone::find(&args.backbone).map_err(|error| Usage(error.to_string()))?;
    let source = entry.build(weights, &options)?;
    let file = checkpoint::read(inputs)?;
    let array = |name: &str| {
        file.get(name).with_context(|| format!("no array {name:?}: {}", inputs.display()))
    };
    let tensor = |name: &str| -> Result<Tensor> {
        let array = array(name)?;
        Ok(Tensor::from_vec(array.data.clone(), &array.shape, device)?)
    };
    let labels: Vec<usize> = array("labels")?.data.iter().map(|&label| label as usize).collect();
    let bench = Bench::new(source, &tensor("prompt")?);
    let embedding = bench.source.embed(&tensor("images")?)?;
    let (logits, gradients) = bench.gradients(&embedding, &labels)?;
    let mut values = vec![("logits".to_owned(), logits)];
    let prompt = gradients.get(&bench.prompt).context("the prompt has no gradient")?;
    values.push(("grad.prompt".to_owned(), prompt.clone()));
    for (id, gradient) in bench.model.params().gradients(&gradients) {
        values.push((format!("grad.{}", bench.model.params().param(id).name()), gradient));
    }
    let host: Vec<Vec<f32>> =
        values.iter().map(|(_, tensor)| tensor.to_vec()).collect::<Result<_, _>>()?;
    let arrays = values
        .iter()
        .zip(&host)
        .map(|((name, tensor), data)| (name.as_str(), tensor.shape(), &data[..]));
    checkpoint::write_safetensors(out, arrays, Dtype::F32, &BTreeMap::new())?;
    Ok(())
}
