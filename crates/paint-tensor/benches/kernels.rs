//! The operations of a transformer's step, beside the machine's measured limits.
//!
//! ```sh
//! cargo bench -p paint-tensor --bench kernels       # every core, the fastest kernel
//! RAYON_NUM_THREADS=1 PAINT_KERNEL=avx512 cargo bench -p paint-tensor --bench kernels
//! ```
//!
//! Products in GFLOP/s and as a share of the rate of a large product that fits the caches, the others in GB/s of what
//! they must read and write. Each time is the median over nine rounds of twelve inputs, as a network of twelve blocks
//! has them: an input has left the caches when its turn comes again.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program that prints a table and stops at an error"
)]

use std::hint::black_box;
use std::time::Instant;

use paint_tensor::{BatchNorm, BnMode, Device, Mlp, StepParam, StepRule, Tensor, TrainingStep};

const ROUNDS: usize = 9;
const BLOCKS: usize = 12;

/// A network's width, and the shape of its batch.
struct Network {
    name: &'static str,
    images: usize,
    tokens: usize,
    width: usize,
    heads: usize,
}

const NETWORKS: [Network; 2] = [
    Network { name: "ViT-Tiny/4, 50 images", images: 50, tokens: 65, width: 192, heads: 3 },
    Network { name: "ViT-B/16, 8 images", images: 8, tokens: 197, width: 768, heads: 12 },
];

fn values(shape: &[usize], device: &Device) -> Tensor {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    Tensor::from_vec((0..shape.iter().product()).map(|_| next()).collect(), shape, device).unwrap()
}

/// Seconds of one call, the median over rounds through all inputs.
fn median(inputs: &[Tensor], call: impl Fn(&Tensor) -> Tensor) -> f64 {
    let mut times: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            inputs.iter().for_each(|input| drop(black_box(call(input))));
            begun.elapsed().as_secs_f64() / inputs.len() as f64
        })
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

/// The gradient of the sum of `call(input)` with respect to `input`.
fn gradient(input: &Tensor, call: impl Fn(&Tensor) -> Tensor) -> Tensor {
    let input = input.variable();
    let gradients = call(&input).sum_all().unwrap().backward().unwrap();
    gradients.get(&input).unwrap().clone()
}

fn product(name: &str, flops: usize, peak: f64, seconds: f64) {
    let rate = flops as f64 / seconds / 1e9;
    println!(
        "{name:34} {:9.3} ms {rate:8.0} GFLOP/s {:5.2} of the peak",
        1e3 * seconds,
        rate / peak
    );
}

fn pass(name: &str, floats: usize, seconds: f64) {
    println!("{name:34} {:9.3} ms {:8.1} GB/s", 1e3 * seconds, 4.0 * floats as f64 / seconds / 1e9);
}

fn network(network: &Network, device: &Device, peak: f64) {
    let &Network { name, images, tokens, width, heads } = network;
    let (rows, hidden) = (images * tokens, 4 * width);
    let inputs = |last: usize| -> Vec<Tensor> {
        (0..BLOCKS).map(|_| values(&[images, tokens, last], device)).collect()
    };
    let (x, qkv) = (inputs(width), inputs(3 * width));
    let weight = |to: usize, from: usize| (values(&[to, from], device), values(&[to], device));
    let (w, narrow, w1, w2) = (
        weight(3 * width, width),
        weight(width, width),
        weight(hidden, width),
        weight(width, hidden),
    );
    let mlp = Mlp { fc1: (&w1.0, &w1.1), fc2: (&w2.0, &w2.1) };
    println!("{name}");
    let time = median(&x, |x| x.linear(&w.0, Some(&w.1)).unwrap());
    product("  qkv, bias", 2 * rows * width * 3 * width, peak, time);
    let time = median(&x, |x| x.linear_residual(&narrow.0, Some(&narrow.1), x).unwrap());
    product("  proj, bias and residual", 2 * rows * width * width, peak, time);
    let time = median(&x, |x| x.mlp(mlp, Some(x)).unwrap());
    product("  mlp", 4 * rows * width * hidden, peak, time);
    let time = median(&x, |x| gradient(x, |x| x.mlp(mlp, Some(x)).unwrap()));
    product("  mlp and its input's gradient", 8 * rows * width * hidden, peak, time);
    let time = median(&qkv, |qkv| qkv.attention(heads).unwrap());
    product("  attention", 4 * images * tokens * tokens * width, peak, time);
    let time = median(&qkv, |qkv| gradient(qkv, |qkv| qkv.attention(heads).unwrap()));
    product("  attention and its gradient", 14 * images * tokens * tokens * width, peak, time);
    let time = median(&x, |x| x.layer_norm(&narrow.1, &narrow.1, 1e-6).unwrap());
    pass("  layer norm", 2 * rows * width, time);
    let time = median(&x, |x| {
        let (scale, shift) = (narrow.1.variable(), narrow.1.variable());
        gradient(x, |x| x.layer_norm(&scale, &shift, 1e-6).unwrap())
    });
    pass("  layer norm and its gradients", 6 * rows * width, time);
    let time = median(&x, |x| x.add(x).unwrap());
    pass("  sum of two", 3 * rows * width, time);
    let time = median(&x, |x| x.lerp(x, 0.25).unwrap());
    pass("  moving average", 3 * rows * width, time);
    let adam = StepRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, t: 7, decoupled: false };
    let step = TrainingStep { rule: adam, clip: None, average_decay: 0.0 };
    let time = median(&x, |x| {
        let param = StepParam {
            value: x,
            grad: x,
            first: Some(x),
            second: Some(x),
            average: None,
            lr: 1e-3,
            weight_decay: 0.0,
        };
        step.apply(&[param]).unwrap().0.remove(0).value
    });
    pass("  step of Adam", 7 * rows * width, time);
}

/// The stages of ResNet-56 on images of 32 x 32, `[side, channels]`.
const PLANES: [[usize; 2]; 3] = [[32, 16], [16, 32], [8, 64]];

fn batch_norm(device: &Device) {
    println!("ResNet-56, 50 images");
    for [side, channels] in PLANES {
        let shape = [50, channels, side, side];
        let x: Vec<Tensor> = (0..BLOCKS).map(|_| values(&shape, device)).collect();
        let running_mean = values(&[channels], device);
        let running_var = running_mean.mul(&running_mean).unwrap();
        let time = median(&x, |x| {
            let (scale, shift) = (running_mean.variable(), running_mean.variable());
            let norm = BatchNorm {
                scale: &scale,
                shift: &shift,
                running_mean: &running_mean,
                running_var: &running_var,
                eps: 1e-5,
                mode: BnMode::Batch,
                batch_size: None,
            };
            gradient(x, |x| x.batch_norm_relu(&norm, None).unwrap().0)
        });
        let name = format!("  norm, ReLU, gradients, {side} x {side} x {channels}");
        pass(&name, 7 * 50 * channels * side * side, time);
    }
}

/// The kernels of 7 x 7 of ConvNeXt-T, `[side, channels]` of each stage.
const STAGES: [[usize; 2]; 4] = [[56, 96], [28, 192], [14, 384], [7, 768]];

fn depthwise(device: &Device, peak: f64) {
    println!("ConvNeXt-T, 8 images");
    for [side, channels] in STAGES {
        let x: Vec<Tensor> =
            (0..BLOCKS).map(|_| values(&[8, side, side, channels], device)).collect();
        let kernels = values(&[7, 7, channels], device);
        let time = median(&x, |x| x.depthwise(&kernels).unwrap());
        let name = format!("  7 x 7 on {side} x {side} x {channels}");
        product(&name, 2 * 49 * 8 * side * side * channels, peak, time);
        let time = median(&x, |x| gradient(&kernels, |kernels| x.depthwise(kernels).unwrap()));
        product("    and the kernels' gradient", 4 * 49 * 8 * side * side * channels, peak, time);
    }
}

fn main() {
    let device = Device::from_name("cpu").unwrap();
    let peak = device.peak_gflops().unwrap();
    println!("a large product: {peak:.0} GFLOP/s");
    NETWORKS.iter().for_each(|row| network(row, &device, peak));
    batch_norm(&device);
    depthwise(&device, peak);
}
