//! NVIDIA GPUs: our kernels, compiled at run time, and cuBLASLt for matrix products.
//!
//! Elements are `f32`, except after [`Backend::compact`] in bf16 precision: from there on an operation's result is
//! stored as its first input is, while sums, statistics, losses and everything that belongs to a parameter stay
//! `f32`. Operations that are never on that path read a widened copy.

mod arena;
mod attention;
mod axes;
mod buffer;
mod channels;
mod compile;
mod convolve;
mod depthwise;
mod distort;
mod driver;
mod elements;
mod fetch;
mod fp8;
mod gelu_product;
mod gemm;
mod kernel;
mod lt;
mod matmul;
mod modules;
mod open;
mod param;
mod peak;
mod places;
mod pool;
mod problem;
mod record;
mod rows;
#[cfg(test)]
mod signature;
mod staging;
mod tokens;
mod training;
mod trial;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use self::arena::{Arena, Block};
use self::driver::Gpu;
use self::matmul::Products;
use self::modules::Kernels;
use super::{
    After, Attention, AttentionGrad, Backend, BackendEntry, Binary, Chain, Compute, Conv, Fetch,
    Gate, Gemm, Memory, Next, Precision, Recording, Storage, Unary, Window,
};
use crate::Result;
use crate::op::distort::{Distortion, Noise};

pub(crate) use self::buffer::Buffer;
pub(crate) use self::fetch::Fetched;
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
    /// Those of all lanes of this GPU and precision.
    products: Arc<Products>,
    workspace: Buffer,
    cache: Option<PathBuf>,
    attention: Mutex<attention::Compiled>,
    gelu_products: Mutex<gelu_product::Compiled>,
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
        self.downloaded(x)
    }

    fn fetch(&self, x: &Storage) -> Result<Option<Fetch>> {
        Ok(self.fetched(x)?.map(Fetch::Coming))
    }

    fn fill(&self, len: usize, value: f32) -> Result<Storage> {
        self.map(&self.kernels.elementwise.fill, len, |out, n| (out, value, n))
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

    fn is_recording(&self) -> bool {
        record::stream(&self.gpu).is_some()
    }

    fn record(&self, inputs: &[&Storage], compute: Compute<'_>) -> Result<Option<Recording>> {
        Ok(self.recorded(inputs, compute)?.map(Recording::Cuda))
    }

    fn replay(&self, recording: &Recording, inputs: &[&Storage]) -> Result<Option<Vec<Storage>>> {
        let Recording::Cuda(recorded) = recording;
        self.replayed(recorded, inputs)
    }

    fn is_stale(&self, recording: &Recording) -> bool {
        let Recording::Cuda(recorded) = recording;
        recorded.is_stale()
    }

    fn compact(&self, x: &Storage) -> Result<Storage> {
        if self.precision.is_compact() {
            return Ok(Storage::Cuda(self.narrowed(on_gpu(x))?));
        }
        Ok(x.clone())
    }

    fn gemm(&self, gemm: &Gemm) -> Result<(Storage, Option<Storage>)> {
        self.product(gemm)
    }

    fn fused_chain(&self, first: &Gemm, next: &Next, keep: bool) -> Result<Option<Chain>> {
        if keep { Ok(None) } else { self.rounded_chain(first, next) }
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
        self.moments_of_channels(&self.widened(x)?, split)
    }

    fn channel_affine(
        &self,
        x: &Storage,
        [scale, shift]: [&Storage; 2],
        after: After<'_>,
        split: [usize; 3],
    ) -> Result<Storage> {
        let inputs = [self.widened(x)?, self.widened(scale)?, self.widened(shift)?];
        self.affine_by_channel(inputs.each_ref(), after, split)
    }

    fn channel_gradient_sums(
        &self,
        [x, grad]: [&Storage; 2],
        centre: &Storage,
        gate: Option<Gate<'_>>,
        split: [usize; 3],
    ) -> Result<(Storage, Storage)> {
        let inputs = [self.widened(x)?, self.widened(grad)?, self.widened(centre)?];
        self.gradient_sums_of_channels(inputs.each_ref(), gate, split)
    }

    fn channel_combine(
        &self,
        [x, grad]: [&Storage; 2],
        [a, b, c]: [&Storage; 3],
        gate: Option<Gate<'_>>,
        split: [usize; 3],
    ) -> Result<Storage> {
        let coefficients = [self.widened(a)?, self.widened(b)?, self.widened(c)?];
        let (x, grad) = (self.widened(x)?, self.widened(grad)?);
        self.combine_by_channel([&x, &grad], coefficients.each_ref(), gate, split)
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
        self.of_rows(&self.kernels.rowwise.softmax, &self.widened(x)?, d)
    }

    fn softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage> {
        let kernel = &self.kernels.rowwise.softmax_backward;
        self.of_row_pairs(kernel, [&self.widened(y)?, &self.widened(grad)?], d)
    }

    fn log_softmax(&self, x: &Storage, d: usize) -> Result<Storage> {
        self.of_rows(&self.kernels.rowwise.log_softmax, &self.widened(x)?, d)
    }

    fn log_softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage> {
        let kernel = &self.kernels.rowwise.log_softmax_backward;
        self.of_row_pairs(kernel, [&self.widened(y)?, &self.widened(grad)?], d)
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
        let (y, factor, grad) = (self.widened(y)?, on_gpu(factor), self.widened(grad)?);
        let kernel = &self.kernels.rowwise.l2_normalize_backward;
        self.by_row(kernel, [y.len(), d], |dx, rows, d| {
            (y.read(), factor.read(), grad.read(), dx, rows, d)
        })
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
        a: (&Storage, &[usize]),
        b: (&Storage, &[usize]),
    ) -> Result<Storage> {
        self.broadcast(op, shape, a, b)
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
        self.permuted(&self.widened(x)?, shape, order)
    }

    fn concat(&self, outer: usize, parts: &[(&Storage, usize)]) -> Result<Storage> {
        self.joined(outer, parts)
    }

    fn slice(&self, x: &Storage, split: [usize; 3], start: usize, len: usize) -> Result<Storage> {
        self.sliced(on_gpu(x), split, [start, len])
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
