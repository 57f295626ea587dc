//! `paint bench step`: one adaptation step of PAINT, timed, or the values of its passes for given inputs.
//!
//! The step is the method's own: query forward of the frozen source, prompted forward, mixed forward of the whole batch
//! (every sample confident, the worst case), backward into the prompt and blocks 0..2, plain SGD, final forward.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use paint_methods::BuildArgs;
use paint_methods::paint::{Config, Paint, Preset};
use paint_nn::backbone::{self, Backbone, BackboneEntry, BuildOptions, Family, Request, Weights};
use paint_nn::checkpoint::{self, Dtype, PreprocessFlags};
use paint_nn::loss::{MixedLabels, interpolation_consistency, mutual_information};
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

/// Time one step of PAINT with every sample confident: three forwards, two backwards, update, final forward.
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
    /// Timed steps, after the first (on a GPU the first two)
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
    let network = backbone::find(&args.backbone).map_err(|error| Usage(error.to_string()))?;
    if network.family != Family::Transformer {
        let why =
            format!("--backbone: the step with prompts needs a transformer, got {}", network.name);
        return Err(Usage(why).into());
    }
    process::set_threads(args.threads)?;
    let device = process::device(&args.device, &args.precision)?;
    match (&args.weights, &args.images, &args.dump) {
        (Some(weights), Some(images), Some(out)) => dump(network, &device, weights, images, out),
        _ => time(args, network, &device),
    }
}

/// The method with every sample confident, and steps so small that a thousand of them stay finite.
fn method(source: &dyn Backbone) -> Result<Paint> {
    let config = Config {
        phi: 0.0,
        prompt_length: PROMPTS,
        blocks: TRAINED,
        lr_prompts: 1e-3,
        lr_blocks: 1e-4,
        ..Config::preset(Preset::Paper)
    };
    Ok(Paint::new(&BuildArgs::new(source, Seed(0)), config)?)
}

/// Logits of the prompted forward, and the gradients of both losses with a given mix.
fn gradients(
    model: &dyn Backbone,
    prompt: &Tensor,
    embedding: &Tensor,
    labels: &[usize],
) -> Result<(Tensor, Gradients)> {
    let request = Request { prompt: Some(prompt), ..Request::default() };
    let logits = model.forward_embedded(embedding, &request)?.logits;
    let mut gradients = mutual_information(&logits)?.backward()?;
    let partner: Vec<usize> = (0..labels.len()).rev().collect();
    let mixed = embedding.gather(&partner)?.lerp(embedding, LAMBDA)?;
    let partners: Vec<usize> = partner.iter().map(|&i| labels[i]).collect();
    let mixed_labels = MixedLabels { first: labels, second: &partners, lambda: LAMBDA };
    let mixed_logits = model.forward_embedded(&mixed, &request)?.logits;
    let loss = interpolation_consistency(&mixed_logits, mixed_labels, labels.len())?;
    gradients.accumulate(loss.backward()?)?;
    Ok((logits.detach(), gradients))
}

fn time(args: &Args, network: &BackboneEntry, device: &Device) -> Result<()> {
    let source = network.build(Weights::Random(Seed(0)), &BuildOptions::new(device))?;
    let [height, width] = source.spec().image_size;
    let mut rng = Seed(0).derive("bench/step", &[]);
    let shape = [args.batch, 3, height, width];
    let data = (0..shape.iter().product()).map(|_| rng.uniform() as f32).collect();
    let images = Tensor::from_vec(data, shape, device)?;
    let flops = step_flops(&Work::of(&*source)?, args.batch, PROMPTS, TRAINED);

    let mut paint = method(source.as_ref())?;
    let first = Instant::now();
    paint.adapt(&images)?;
    device.synchronize()?;
    let first_step_ms = first.elapsed().as_secs_f64() * 1e3;
    if device.memory().is_some() {
        // A GPU records the passes of fixed size in the second step.
        paint.adapt(&images)?;
        device.synchronize()?;
    }
    let cpu_start = process::cpu_seconds();
    let mut times = Vec::with_capacity(args.repeat);
    for _ in 0..args.repeat {
        let start = Instant::now();
        paint.adapt(&images)?;
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

fn dump(
    network: &BackboneEntry,
    device: &Device,
    weights: &Path,
    inputs: &Path,
    out: &Path,
) -> Result<()> {
    let preprocess = checkpoint::read_preprocess(weights, &PreprocessFlags::default())?;
    let options = BuildOptions { preprocess: Some(preprocess), ..BuildOptions::new(device) };
    let weights = Weights::Checkpoint(checkpoint::read(weights)?);
    let source = network.build(weights, &options)?;
    let file = checkpoint::read(inputs)?;
    let array = |name: &str| {
        file.get(name).with_context(|| format!("no array {name:?}: {}", inputs.display()))
    };
    let tensor = |name: &str| -> Result<Tensor> {
        let array = array(name)?;
        Ok(Tensor::from_vec(array.data.clone(), &array.shape, device)?)
    };
    let labels: Vec<usize> = array("labels")?.data.iter().map(|&label| label as usize).collect();
    let (mut model, prompt) = (source.duplicate(), tensor("prompt")?.variable());
    model.params_mut().track(&Trainable::Blocks(0..TRAINED));
    let embedding = source.embed(&tensor("images")?)?;
    let (logits, gradients) = gradients(model.as_ref(), &prompt, &embedding, &labels)?;
    let mut values = vec![("logits".to_owned(), logits)];
    let of_prompt = gradients.get(&prompt).context("the prompt has no gradient")?;
    values.push(("grad.prompt".to_owned(), of_prompt.clone()));
    for (id, gradient) in model.params().gradients(&gradients) {
        values.push((format!("grad.{}", model.params().param(id).name()), gradient));
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
