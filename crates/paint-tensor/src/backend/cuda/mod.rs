//! NVIDIA GPUs: our kernels, compiled at run time, and cuBLASLt for matrix products.
//!
//! Elements are `f32`, except behind [`Backend::compact`] in bf16 precision: from there on an operation's result is
//! stored as its first input is, while sums, statistics, losses and everything that belongs to a parameter stay `f32`.
//! Operations that are never on that path read a widened copy.

mod arena;
mod attention;
mod axes;
mod buffer;
mod compile;
mod convolve;
mod distort;
mod driver;
mod elements;
mod gemm;
mod lt;
mod matmul;
mod open;
mod peak;
mod pick;
mod pool;
mod record;
mod rows;
mod staging;
mod training;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use self::arena::{Arena, Block};
use self::axes::axes;
use self::driver::{Arg, Gpu, Kernels};
use self::matmul::Products;
use super::{
    Attention, AttentionGrad, Backend, BackendEntry, Binary, Compute, Conv, Gemm, Memory,
    Precision, Recording, Storage, Unary, Window,
};
use crate::Result;
use crate::op::distort::{Distortion, Noise};
use crate::shape::{broadcast_strides, elem_count};

pub(crate) use self::buffer::Buffer;
pub(crate) use self::record::Recorded;

pub(crate) const ENTRY: BackendEntry = BackendEntry {
    name: "cuda",
    what: "an NVIDIA GPU, by number: cuda:0",
    open: |name, precision| open::open(name, precision).map(|cuda| cuda as Arc<dyn Backend>),
    devices: open::devices,
};

struct Cuda {
    ordinal: i32,
    precision: Precision,
    gpu: Arc<Gpu>,
    arena: Arc<Arena>,
    kernels: Kernels,
    products: Products,
    workspace: Buffer,
    cache: Option<PathBuf>,
    attention: Mutex<HashMap<attention::Variant, Arc<Kernels>>>,
    /// The memory that recordings share, while there are any.
    shared: Mutex<Weak<Block>>,
}

/// A buffer that is known to be on a GPU.
fn on_gpu(x: &Storage) -> &Buffer {
    match x {
        Storage::Cuda(buffer) => buffer,
        Storage::Cpu(_) => unreachable!("operations check that their inputs share a device"),
    }
}

impl Backend for Cuda {
    fn name(&self) -> String {
        let precision = match self.precision {
            Precision::F32 => String::new(),
            other => format!(" ({other})"),
        };
        format!("cuda:{}{precision}", self.ordinal)
    }

    fn peak_gflops(&self) -> Result<f64> {
        self.measured_peak_gflops()
    }

    fn upload(&self, data: Vec<f32>) -> Result<Storage> {
        Ok(Storage::Cuda(self.uploaded(&data)?))
    }

    fn download(&self, x: &Storage) -> Result<Vec<f32>> {
        let x = self.widened(x)?;
        let mut data = vec![0.0; x.len()];
        if !data.is_empty() {
            self.gpu.copy_out(x.address(), &mut data)?;
        }
        Ok(data)
    }

    fn fill(&self, len: usize, value: f32) -> Result<Storage> {
        let out = self.take_f32(len)?;
        self.each("fill_f32", len, &[Arg::Address(out.address()), Arg::F32(value)], len)?;
        Ok(Storage::Cuda(out))
    }

    fn synchronize(&self) -> Result<()> {
        self.gpu.synchronize()
    }

    fn memory(&self) -> Option<Memory> {
        Some(self.arena.memory())
    }

    fn reset_peak(&self) {
        self.arena.reset_peak();
    }

    fn record(&self, inputs: &[&Storage], compute: Compute<'_>) -> Result<Option<Recording>> {
        Ok(self.recorded(inputs, compute)?.map(Recording::Cuda))
    }

    fn replay(&self, recording: &Recording, inputs: &[&Storage]) -> Result<Option<Vec<Storage>>> {
        let Recording::Cuda(recorded) = recording;
        self.replayed(recorded, inputs)
    }

    fn compact(&self, x: &Storage) -> Result<Storage> {
        match self.precision {
            Precision::Bf16 => Ok(Storage::Cuda(self.narrowed(on_gpu(x))?)),
            Precision::F32 | Precision::Tf32 => Ok(x.clone()),
        }
    }

    fn gemm(&self, gemm: &Gemm) -> Result<(Storage, Option<Storage>)> {
        self.product(gemm)
    }

    fn attention(&self, attention: &Attention) -> Result<(Storage, Storage)> {
        self.attention_forward(attention)
    }

    fn attention_backward(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<(Storage, Storage)> {
        self.attention_gradients(attention, saved)
    }

    fn attention_backward_packed(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<Storage> {
        self.attention_gradients_packed(attention, saved)
    }

    fn layer_norm(
        &self,
        x: &Storage,
        gamma: &Storage,
        beta: &Storage,
        eps: f32,
    ) -> Result<(Storage, Storage)> {
        self.layer_norm_forward(on_gpu(x), on_gpu(gamma), on_gpu(beta), eps)
    }

    fn layer_norm_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        gamma: &Storage,
        grad: &Storage,
        earlier: Option<Storage>,
    ) -> Result<Storage> {
        let norm = [x, stats, gamma].map(on_gpu);
        self.layer_norm_gradient(norm, on_gpu(grad), earlier.as_ref().map(on_gpu))
    }

    fn layer_norm_affine_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        grad: &Storage,
        d: usize,
    ) -> Result<(Storage, Storage)> {
        self.layer_norm_affine_gradient(on_gpu(x), on_gpu(stats), on_gpu(grad), d)
    }

    fn conv2d(&self, conv: &Conv, x: &Storage, weight: &Storage) -> Result<Storage> {
        self.convolve(conv, &self.widened(x)?, &self.widened(weight)?)
    }

    fn conv2d_backward_input(
        &self,
        conv: &Conv,
        weight: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        self.convolve_backward_input(conv, &self.widened(weight)?, &self.widened(grad)?)
    }

    fn conv2d_backward_weight(&self, conv: &Conv, x: &Storage, grad: &Storage) -> Result<Storage> {
        self.convolve_backward_weight(conv, &self.widened(x)?, &self.widened(grad)?)
    }

    fn channel_moments(&self, x: &Storage, split: [usize; 3]) -> Result<(Storage, Storage)> {
        let (x, mean, variance) =
            (self.widened(x)?, self.take_f32(split[1])?, self.take_f32(split[1])?);
        let args = [&x, &mean, &variance].map(|x| Arg::Address(x.address()));
        self.per_channel("channel_moments", &args, split)?;
        Ok((Storage::Cuda(mean), Storage::Cuda(variance)))
    }

    fn channel_affine(
        &self,
        x: &Storage,
        scale: &Storage,
        shift: &Storage,
        split: [usize; 3],
    ) -> Result<Storage> {
        let inputs = [self.widened(x)?, self.widened(scale)?, self.widened(shift)?];
        self.channel_map("channel_affine", &inputs.each_ref(), split)
    }

    fn channel_gradient_sums(
        &self,
        x: &Storage,
        grad: &Storage,
        centre: &Storage,
        split: [usize; 3],
    ) -> Result<(Storage, Storage)> {
        let inputs = [self.widened(x)?, self.widened(grad)?, self.widened(centre)?];
        let (plain, centred) = (self.take_f32(split[1])?, self.take_f32(split[1])?);
        let args: Vec<Arg> =
            inputs.iter().chain([&plain, &centred]).map(|x| Arg::Address(x.address())).collect();
        self.per_channel("channel_gradient_sums", &args, split)?;
        Ok((Storage::Cuda(plain), Storage::Cuda(centred)))
    }

    fn channel_combine(
        &self,
        x: &Storage,
        grad: &Storage,
        [a, b, c]: [&Storage; 3],
        split: [usize; 3],
    ) -> Result<Storage> {
        let inputs = [x, grad, a, b, c].map(|x| self.widened(x));
        let [x, grad, a, b, c] = inputs;
        self.channel_map("channel_combine", &[&x?, &grad?, &a?, &b?, &c?], split)
    }

    fn max_pool(&self, window: &Window, x: &Storage) -> Result<(Storage, Storage)> {
        self.pool_max(window, &self.widened(x)?)
    }

    fn max_pool_backward(
        &self,
        window: &Window,
        place: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        self.unpool_max(window, &self.widened(place)?, &self.widened(grad)?)
    }

    fn avg_pool(&self, window: &Window, x: &Storage) -> Result<Storage> {
        self.pool_mean(window, &self.widened(x)?)
    }

    fn avg_pool_backward(&self, window: &Window, grad: &Storage) -> Result<Storage> {
        self.unpool_mean(window, &self.widened(grad)?)
    }

    fn softmax(&self, x: &Storage, d: usize) -> Result<Storage> {
        self.by_row("softmax", &[&self.widened(x)?], d)
    }

    fn softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage> {
        self.by_row("softmax_backward", &[&self.widened(y)?, &self.widened(grad)?], d)
    }

    fn log_softmax(&self, x: &Storage, d: usize) -> Result<Storage> {
        self.by_row("log_softmax", &[&self.widened(x)?], d)
    }

    fn log_softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage> {
        self.by_row("log_softmax_backward", &[&self.widened(y)?, &self.widened(grad)?], d)
    }

    fn l2_normalize(&self, x: &Storage, d: usize) -> Result<(Storage, Storage)> {
        self.l2_normalize_forward(&self.widened(x)?, d)
    }

    fn l2_normalize_backward(
        &self,
        y: &Storage,
        factor: &Storage,
        grad: &Storage,
        d: usize,
    ) -> Result<Storage> {
        let inputs = [&self.widened(y)?, on_gpu(factor), &self.widened(grad)?];
        self.by_row("l2_normalize_backward", &inputs, d)
    }

    fn unary(&self, op: Unary, x: &Storage) -> Result<Storage> {
        self.elementwise(op, &self.widened(x)?)
    }

    fn binary(&self, op: Binary, a: &Storage, b: &Storage) -> Result<Storage> {
        let (a, b) = (on_gpu(a), on_gpu(b));
        let out = self.take(a.len(), a.kind)?;
        self.zip(op, a, b, &out)?;
        Ok(Storage::Cuda(out))
    }

    fn binary_broadcast(
        &self,
        op: Binary,
        shape: &[usize],
        (a, a_strides): (&Storage, &[usize]),
        (b, b_strides): (&Storage, &[usize]),
    ) -> Result<Storage> {
        let axes = axes("broadcasting", shape, [a_strides, b_strides])?;
        let (a, b) = (self.widened(a)?, self.widened(b)?);
        self.map("binary_broadcast", &[Arg::I32(op as i32), axes], &[&a, &b], elem_count(shape))
    }

    fn accumulate(&self, a: Storage, b: &Storage) -> Result<Storage> {
        let sum = on_gpu(&a);
        if sum.is_alone() && sum.address().is_multiple_of(16) {
            self.zip(Binary::Add, sum, on_gpu(b), sum)?;
            return Ok(a);
        }
        self.binary(Binary::Add, &a, b)
    }

    fn distort(
        &self,
        images: &Storage,
        size: [usize; 2],
        looks: &[Distortion],
        noise: Noise,
    ) -> Result<Storage> {
        self.distorted(&self.widened(images)?, size, looks, noise)
    }

    fn restore(&self, value: &Storage, source: &Storage, places: &[usize]) -> Result<Storage> {
        self.restored(&self.widened(value)?, &self.widened(source)?, places)
    }

    fn lerp(&self, a: &Storage, b: &Storage, w: f32) -> Result<Storage> {
        self.lerped(on_gpu(a), on_gpu(b), w)
    }

    fn sum(&self, x: &Storage, split: [usize; 3]) -> Result<Storage> {
        Ok(Storage::Cuda(self.sums(on_gpu(x), split)?))
    }

    fn permute(&self, x: &Storage, shape: &[usize], order: &[usize]) -> Result<Storage> {
        let x = self.widened(x)?;
        let steps = broadcast_strides(shape, shape);
        let (sizes, steps): (Vec<_>, Vec<_>) =
            order.iter().map(|&axis| (shape[axis], steps[axis])).unzip();
        self.map("permute", &[axes("permute", &sizes, [&steps])?], &[&x], x.len())
    }

    fn concat(&self, outer: usize, parts: &[(&Storage, usize)]) -> Result<Storage> {
        self.joined(outer, parts)
    }

    fn slice(
        &self,
        x: &Storage,
        [outer, mid, inner]: [usize; 3],
        start: usize,
        len: usize,
    ) -> Result<Storage> {
        let (x, width) = (on_gpu(x), len * inner);
        let out = self.take(outer * width, x.kind)?;
        self.copy_rows((x, start * inner, mid * inner), (&out, 0, width), [outer, width])?;
        Ok(Storage::Cuda(out))
    }

    fn gather(&self, x: &Storage, indices: &[usize], width: usize) -> Result<Storage> {
        self.gathered(&self.widened(x)?, indices, width)
    }

    fn scatter_add(
        &self,
        x: &Storage,
        indices: &[usize],
        width: usize,
        len: usize,
    ) -> Result<Storage> {
        self.scattered(&self.widened(x)?, indices, [width, len])
    }
}
