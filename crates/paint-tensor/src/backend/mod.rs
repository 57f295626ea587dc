//! What a device must be able to do.
//!
//! One trait with one method per kernel; a tensor dispatches once per operation. Kernels work on flat storages and
//! sizes: shapes, checks and gradients belong to the operations above.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod depthwise;
mod precision;
mod problem;
mod table;
mod tokens;
mod training;
mod windows;

pub(crate) use depthwise::{Depthwise, DepthwiseKernels};
pub use precision::Precision;
pub(crate) use problem::{
    After, Attention, AttentionGrad, Chain, Conv, Epilogue, Gate, Gemm, HeadRows, Matrix, Next,
    Window,
};
pub use table::{BACKENDS, BackendEntry, DeviceInfo, Memory};
pub(crate) use tokens::TokenKernels;
pub use training::StepRule;
pub(crate) use training::{Compose, Step, StepSlot, SteppedSlot, Training};
pub(crate) use windows::{BiasGradient, WindowAttention, WindowKernels};

use crate::Result;
use crate::op::distort::{Distortion, Noise};

/// A block of numbers on some device; cloning shares it.
#[derive(Clone)]
pub(crate) enum Storage {
    Cpu(cpu::Slab),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Buffer),
}

impl Storage {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Cpu(slab) => slab.len(),
            #[cfg(feature = "cuda")]
            Self::Cuda(buffer) => buffer.len(),
        }
    }

    /// Where the first element is. While this storage lives, no other memory is handed out there.
    pub(crate) fn place(&self) -> u64 {
        match self {
            Self::Cpu(slab) => slab.place(),
            #[cfg(feature = "cuda")]
            Self::Cuda(buffer) => buffer.place(),
        }
    }

    /// A part of the block, sharing the memory.
    pub(crate) fn part(&self, start: usize, len: usize) -> Self {
        match self {
            Self::Cpu(slab) => Self::Cpu(slab.part(start, len)),
            #[cfg(feature = "cuda")]
            Self::Cuda(buffer) => Self::Cuda(buffer.part(start, len)),
        }
    }
}

/// A computation that a device can do again by itself.
pub(crate) enum Recording {
    #[cfg(feature = "cuda")]
    Cuda(cuda::Recorded),
}

/// Elements on their way to the host.
pub(crate) enum Fetch {
    Here(Vec<f32>),
    #[cfg(feature = "cuda")]
    Coming(cuda::Fetched),
}

/// The outputs of a computation for these inputs; none if it failed.
pub(crate) type Compute<'a> = &'a dyn Fn(Vec<Storage>) -> Option<Vec<Storage>>;

/// Elementwise functions of one argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unary {
    Exp,
    Log,
    Sqrt,
    Relu,
    /// 1 where positive, NaN for NaN, else 0.
    Step,
    /// `x Φ(x)`, with the exact normal distribution function.
    Gelu,
    /// `d gelu / dx = Φ(x) + x φ(x)`.
    GeluSlope,
    /// `x σ(1.5958 (x + 0.044715 x³))`: the tanh form of GELU.
    GeluTanh,
    /// Its derivative.
    GeluTanhSlope,
    /// `x σ(r x)` for a rate `r`: SiLU at 1, quick GELU at 1.702.
    Swish(f32),
    /// Its derivative.
    SwishSlope(f32),
    Scale(f32),
    AddScalar(f32),
}

/// Elementwise functions of two arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
}

/// The kernels of a device.
pub(crate) trait Backend: DepthwiseKernels + TokenKernels + Training + Send + Sync {
    fn name(&self) -> String;
    /// Measures the best rate of a large matrix product in the precision of the device, of `int8` in `f32`.
    fn peak_gflops(&self) -> Result<f64>;
    fn upload(&self, data: Vec<f32>) -> Result<Storage>;
    /// `len` elements that `write` sets, all of them, in the memory that they stay in if that is the host's.
    fn write(&self, len: usize, write: &mut dyn FnMut(&mut [f32])) -> Result<Storage> {
        let mut data = vec![0.0; len];
        write(&mut data);
        self.upload(data)
    }
    fn download(&self, x: &Storage) -> Result<Vec<f32>>;
    /// Begins a download; none while a computation is recorded, because its values exist only in replays.
    fn fetch(&self, x: &Storage) -> Result<Option<Fetch>> {
        Ok(Some(Fetch::Here(self.download(x)?)))
    }
    fn fill(&self, len: usize, value: f32) -> Result<Storage>;

    /// Waits until all queued work is done.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    /// The memory of a device that has its own.
    fn memory(&self) -> Option<Memory> {
        None
    }
    /// Restarts the measurement of the peak of that memory.
    fn reset_peak(&self) {}
    /// Whether this thread records a computation.
    fn is_recording(&self) -> bool {
        false
    }
    /// Records a computation for inputs of these sizes; none if it cannot be recorded or would gain nothing.
    fn record(&self, _inputs: &[&Storage], _compute: Compute<'_>) -> Result<Option<Recording>> {
        Ok(None)
    }
    /// What a recorded computation gives for other inputs; none where they are not stored as those it was recorded
    /// with.
    fn replay(&self, recording: &Recording, _inputs: &[&Storage]) -> Result<Option<Vec<Storage>>> {
        match *recording {
            #[cfg(feature = "cuda")]
            Recording::Cuda(_) => unreachable!("a recording is replayed where it was made"),
        }
    }
    /// Whether a recording reads tensors, besides its inputs, that are gone: it must not be replayed.
    fn is_stale(&self, _recording: &Recording) -> bool {
        false
    }
    /// The elements, stored as activations are in the precision of the device.
    fn compact(&self, x: &Storage) -> Result<Storage> {
        Ok(x.clone())
    }

    /// The product and, where the epilogue asks for it, what its gradient reads.
    fn gemm(&self, gemm: &Gemm) -> Result<(Storage, Option<Storage>)>;
    /// Two products, the second of what the first gives, which is kept if asked for.
    fn gemm_chain(&self, first: &Gemm, next: &Next, keep: bool) -> Result<Chain> {
        if let Some(chain) = self.fused_chain(first, next, keep)? {
            return Ok(chain);
        }
        let (hidden, saved) = self.gemm(first)?;
        let a = Matrix::row_major(&hidden, first.n);
        let (n, b, epilogue) = (next.n, next.b, next.epilogue);
        let (out, _) = self.gemm(&Gemm { n, k: first.n, a, b, epilogue, ..*first })?;
        Ok(Chain { hidden: keep.then_some(hidden), saved, out })
    }
    /// Both products together; none where one after the other is as fast.
    fn fused_chain(&self, _first: &Gemm, _next: &Next, _keep: bool) -> Result<Option<Chain>> {
        Ok(None)
    }
    /// The output `[B, M, D]` and `log Σ exp` of the scores `[B, h, M]`.
    fn attention(&self, attention: &Attention) -> Result<(Storage, Storage)>;
    /// The gradients of the query rows `[B, M, D]` and of key and value rows `[B, N, 2D]`.
    fn attention_backward(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<(Storage, Storage)>;
    /// The gradient of packed rows `[q | k | v]`, `[B, N, 3D]`.
    fn attention_backward_packed(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<Storage>;

    /// Attention inside windows in one kernel, where the device has one.
    fn windows(&self) -> Option<&dyn WindowKernels> {
        None
    }

    /// The output and `[rows, 2]`: mean and reciprocal standard deviation.
    fn layer_norm(
        &self,
        x: &Storage,
        gamma: &Storage,
        beta: &Storage,
        eps: f32,
    ) -> Result<(Storage, Storage)>;
    /// The gradient of the input, added to the `earlier` gradient of a residual stream if there is one.
    fn layer_norm_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        gamma: &Storage,
        grad: &Storage,
        earlier: Option<Storage>,
    ) -> Result<Storage>;
    /// The gradients of scale and shift, `d` elements each.
    fn layer_norm_affine_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        grad: &Storage,
        d: usize,
    ) -> Result<(Storage, Storage)>;

    fn conv2d(&self, conv: &Conv, x: &Storage, weight: &Storage) -> Result<Storage>;
    /// The gradient of the input.
    fn conv2d_backward_input(
        &self,
        conv: &Conv,
        weight: &Storage,
        grad: &Storage,
    ) -> Result<Storage>;
    /// The gradient of the kernels.
    fn conv2d_backward_weight(&self, conv: &Conv, x: &Storage, grad: &Storage) -> Result<Storage>;

    /// Mean and biased variance of the channels of `[outer, channels, inner]`.
    fn channel_moments(&self, x: &Storage, split: [usize; 3]) -> Result<(Storage, Storage)>;
    /// `scale x + shift`, with one `[scale, shift]` per channel, and what comes after it.
    fn channel_affine(
        &self,
        x: &Storage,
        coefficients: [&Storage; 2],
        after: After<'_>,
        split: [usize; 3],
    ) -> Result<Storage>;
    /// `Σ grad` and `Σ grad (x - centre)` of each channel of `[x, grad]`, for a gradient that comes through a gate if
    /// there is one.
    fn channel_gradient_sums(
        &self,
        operands: [&Storage; 2],
        centre: &Storage,
        gate: Option<Gate<'_>>,
        split: [usize; 3],
    ) -> Result<(Storage, Storage)>;
    /// `a grad + b x + c` of `[x, grad]`, with one `[a, b, c]` per channel; `grad` is gated as above.
    fn channel_combine(
        &self,
        operands: [&Storage; 2],
        coefficients: [&Storage; 3],
        gate: Option<Gate<'_>>,
        split: [usize; 3],
    ) -> Result<Storage>;
    /// The gradient in front of a ReLU, from its result.
    fn relu_backward(&self, y: &Storage, grad: &Storage) -> Result<Storage> {
        self.binary(Binary::Mul, grad, &self.unary(Unary::Step, y)?)
    }

    /// The largest element of each window of each plane, and its place in the plane.
    fn max_pool(&self, window: &Window, x: &Storage) -> Result<(Storage, Storage)>;
    fn max_pool_backward(
        &self,
        window: &Window,
        place: &Storage,
        grad: &Storage,
    ) -> Result<Storage>;
    /// The mean of each window of each plane; without padding.
    fn avg_pool(&self, window: &Window, x: &Storage) -> Result<Storage>;
    fn avg_pool_backward(&self, window: &Window, grad: &Storage) -> Result<Storage>;

    fn softmax(&self, x: &Storage, d: usize) -> Result<Storage>;
    fn softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage>;
    fn log_softmax(&self, x: &Storage, d: usize) -> Result<Storage>;
    fn log_softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage>;
    /// The output and the factor of each row.
    fn l2_normalize(&self, x: &Storage, d: usize) -> Result<(Storage, Storage)>;
    fn l2_normalize_backward(
        &self,
        y: &Storage,
        factor: &Storage,
        grad: &Storage,
        d: usize,
    ) -> Result<Storage>;

    fn unary(&self, op: Unary, x: &Storage) -> Result<Storage>;
    fn binary(&self, op: Binary, a: &Storage, b: &Storage) -> Result<Storage>;
    /// `strides` are those of `a` and `b` inside the broadcast shape `out`.
    fn binary_broadcast(
        &self,
        op: Binary,
        out: &[usize],
        a: (&Storage, &[usize]),
        b: (&Storage, &[usize]),
    ) -> Result<Storage>;
    /// `a + b`, in the memory of `a` if nothing else refers to it.
    fn accumulate(&self, a: Storage, b: &Storage) -> Result<Storage>;

    /// Every look at images with planes of `size`; the images of one look come together.
    fn distort(
        &self,
        images: &Storage,
        size: [usize; 2],
        looks: &[Distortion],
        noise: Noise,
    ) -> Result<Storage>;
    /// `value` with the elements of `source` at `places`.
    fn restore(&self, value: &Storage, source: &Storage, places: &[usize]) -> Result<Storage>;
    /// `a + w (b - a)`.
    fn lerp(&self, a: &Storage, b: &Storage, w: f32) -> Result<Storage>;

    /// The sum over the middle of `[outer, mid, inner]`.
    fn sum(&self, x: &Storage, split: [usize; 3]) -> Result<Storage>;
    /// Axis `i` of the output is axis `axes[i]` of the input.
    fn permute(&self, x: &Storage, shape: &[usize], axes: &[usize]) -> Result<Storage>;
    /// Parts `[outer, mid_i, inner]` joined along the middle; `parts` gives `mid_i * inner` of each.
    fn concat(&self, outer: usize, parts: &[(&Storage, usize)]) -> Result<Storage>;
    /// `len` of the middle of `[outer, mid, inner]`, from `start`.
    fn slice(&self, x: &Storage, split: [usize; 3], start: usize, len: usize) -> Result<Storage>;
    /// Rows of `width` elements by index.
    fn gather(&self, x: &Storage, indices: &[usize], width: usize) -> Result<Storage>;
    /// Zeros of `len` elements, plus row `i` of `x` added to row `indices[i]`.
    fn scatter_add(
        &self,
        x: &Storage,
        indices: &[usize],
        width: usize,
        len: usize,
    ) -> Result<Storage>;
}
