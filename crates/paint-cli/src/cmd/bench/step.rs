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
use paint_nn::backbone::{self, Backbone, BuildOptions, Family, Request, Weights};
use paint_nn::checkpoint::{self, Dtype};
use paint_nn::loss::{MixedLabels, interpolation_consistency, mutual_information};
use paint_nn::params::Trainable;
use paint_rng::Seed;
use paint_run::config::Model;
use paint_run::metric::peak_memory_mib;
use paint_run::model;
use paint_tensor::{Device, Gradients, Tensor};
use serde::Serialize;

use super::work::{Work, step_flops};
use crate::flags::NetworkFlags;
use crate::output::Output;
use crate::{Usage, process};

/// The network where neither a name nor weights are given.
const DEFAULT: &str = "vit_tiny_patch4_32";
/// λ of the mixed forward.
const LAMBDA: f32 = 0.3;
/// Prompt tokens.
const PROMPTS: usize = 2;
/// The blocks that train.
const TRAINED: usize = 3;

/// Time one step of PAINT with every sample confident: three forwards, two backwards, update, final forward
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Network; see `paint list backbones` [default: that of the weights, or `vit_tiny_patch4_32`]
    #[arg(long, value_name = "NAME")]
    backbone: Option<String>,
    /// Number of timed steps, after the first (on a GPU after the first two)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(flatten)]
    network: NetworkFlags,
    #[command(flatten)]
    output: Output,
    /// Weights file to use in place of random weights
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Safetensors file with `images`, `prompt` and `labels`
    #[arg(long, requires = "dump")]
    images: Option<PathBuf>,
    /// Write `logits` and `grad.*` for these inputs to this file; time nothing
    #[arg(long, requires_all = ["weights", "images"])]
    dump: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  paint bench step
  paint bench step --backbone vit_base_patch16_224 --batch-size 50 --device cuda:0 --precision tf32";

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
    /// CPU time of all threads, mean; none where the system does not say.
    cpu_ms_per_step: Option<f64>,
    images_per_second: f64,
    /// Of the process, or of the GPU's own memory; none where the system does not say.
    peak_memory_bytes: Option<u64>,
    /// Of the rate of a large matrix product, measured in the same process.
    matmul_peak_fraction: f64,
    matmul_peak_gflops: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let device = args.network.compute.open()?;
    let source = open(args, &device)?;
    match (&args.images, &args.dump) {
        (Some(images), Some(out)) => dump(source.as_ref(), &device, images, out),
        _ => time(args, source.as_ref(), &device),
    }
}

fn open(args: &Args, device: &Device) -> Result<Box<dyn Backbone>> {
    if let Some(weights) = args.weights.clone() {
        let mut model = Model { weights, backbone: args.backbone.clone(), ..Model::default() };
        let source = model::open(&mut model, device)?;
        check(source.family(), &source.spec().name)?;
        return Ok(source);
    }
    let name = args.backbone.as_deref().unwrap_or(DEFAULT);
    let network = backbone::find(name).map_err(|error| Usage(error.to_string()))?;
    check(network.family, name)?;
    let weights = Weights::Random(Seed(args.network.seed.value()));
    Ok(network.build(weights, &BuildOptions::new(device))?)
}

fn check(family: Family, name: &str) -> Result<(), Usage> {
    if family == Family::Transformer {
        return Ok(());
    }
    Err(Usage(format!("the step with prompts needs a transformer, got {name}")))
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

fn time(args: &Args, source: &dyn Backbone, device: &Device) -> Result<()> {
    let (batch, repeat) = (args.network.batch_size.unwrap_or(50) as usize, args.repeat as usize);
    let [height, width] = source.spec().image_size;
    let mut rng = Seed(args.network.seed.value()).derive("bench/step", &[]);
    let shape = [batch, 3, height, width];
    let data = (0..shape.iter().product()).map(|_| rng.uniform() as f32).collect();
    let images = Tensor::from_vec(data, shape, device)?;
    let flops = step_flops(&Work::of(source)?, batch, PROMPTS, TRAINED);

    let mut paint = method(source)?;
    let first = Instant::now();
    device.run(|| paint.adapt(&images))?;
    device.synchronize()?;
    let first_step_ms = first.elapsed().as_secs_f64() * 1e3;
    if device.memory().is_some() {
        // A GPU records the passes of fixed size in the second step.
        device.run(|| paint.adapt(&images))?;
        device.synchronize()?;
    }
    let cpu_start = process::cpu_seconds();
    let mut times = Vec::with_capacity(repeat);
    for _ in 0..repeat {
        let start = Instant::now();
        device.run(|| paint.adapt(&images))?;
        device.synchronize()?;
        times.push(start.elapsed().as_secs_f64());
    }
    let cpu = cpu_start.zip(process::cpu_seconds()).map(|(start, end)| end - start);
    let resident = || peak_memory_mib().map(|mib| (mib * f64::from(1 << 20)) as u64);
    times.sort_by(f64::total_cmp);
    let median = f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2]);
    let peak = device.peak_gflops()?;
    let report = Report {
        backbone: source.spec().name.clone(),
        device: device.to_string(),
        batch,
        threads: process::threads(),
        repeat,
        first_step_ms,
        ms_per_step: median * 1e3,
        cpu_ms_per_step: cpu.map(|seconds| seconds / repeat as f64 * 1e3),
        images_per_second: batch as f64 / median,
        peak_memory_bytes: device.memory().map(|memory| memory.peak as u64).or_else(resident),
        matmul_peak_fraction: flops / median / (peak * 1e9),
        matmul_peak_gflops: peak,
    };
    args.output.print(&report, text)
}

fn text(report: &Report) -> String {
    let cpu =
        report.cpu_ms_per_step.map_or_else(String::new, |ms| format!(", {ms:.1} ms of CPU time"));
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let memory = report.peak_memory_bytes.map_or_else(
        || "peak memory unknown".to_owned(),
        |bytes| format!("peak memory {:.1} MiB", mib(bytes)),
    );
    format!(
        "{} x{} on {} ({} threads): {:.1} ms per step (median of {}), {:.1} images/s{cpu}\n\
         {memory}, {:.0} % of the machine's {:.0} GFLOP/s for matrix products\n",
        report.backbone,
        report.batch,
        report.device,
        report.threads,
        report.ms_per_step,
        report.repeat,
        report.images_per_second,
        report.matmul_peak_fraction * 100.0,
        report.matmul_peak_gflops,
    )
}

fn dump(source: &dyn Backbone, device: &Device, inputs: &Path, out: &Path) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cpu_ms_per_step: Option<f64>, peak_memory_bytes: Option<u64>) -> Report {
        Report {
            backbone: "vit".into(),
            device: "cpu".into(),
            batch: 50,
            threads: 2,
            repeat: 5,
            first_step_ms: 12.0,
            ms_per_step: 10.0,
            cpu_ms_per_step,
            images_per_second: 5000.0,
            peak_memory_bytes,
            matmul_peak_fraction: 0.5,
            matmul_peak_gflops: 100.0,
        }
    }

    #[test]
    fn what_the_system_does_not_say_is_null_and_never_zero() {
        let unknown = report(None, None);
        let json = serde_json::to_value(&unknown).unwrap();
        assert!(json["cpu_ms_per_step"].is_null() && json["peak_memory_bytes"].is_null(), "{json}");
        let lines = text(&unknown);
        assert!(!lines.contains("CPU time") && lines.contains("peak memory unknown"), "{lines}");
        let lines = text(&report(Some(19.5), Some(3 << 20)));
        assert!(lines.contains("19.5 ms of CPU time") && lines.contains("3.0 MiB"), "{lines}");
    }
}
