//! What a device must be able to do.
//!
//! One trait with one method per kernel; a tensor dispatches once per operation. Kernels see flat storages and sizes:
//! shapes, checks and gradients belong to the operations above.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod precision;
mod table;

use std::ops::Range;

pub use precision::Precision;
pub use table::{BACKENDS, BackendEntry, DeviceInfo, Memory};

use crate::Result;

/// A block of `f32` on some device; cloning shares it.
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

    /// A part of the block, sharing the memory.
    pub(crate) fn part(&self, start: usize, len: usize) -> Self {
        match self {
            Self::Cpu(slab) => Self::Cpu(slab.part(start, len)),
            #[cfg(feature = "cuda")]
            Self::Cuda(buffer) => Self::Cuda(buffer.part(start, len)),
        }
    }
}

/// Elementwise functions of one argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unary {
    Exp,
    Log,
    Sqrt,
    Relu,
    /// 1 where positive, else 0.
    Step,
    /// `x Φ(x)`, with the exact normal distribution function.
    Gelu,
    /// `d gelu / dx = Φ(x) + x φ(x)`.
    GeluSlope,
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

/// A matrix inside a storage: element `(i, j)` of batch `z` is at `start + z * batch + i * row + j * col`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) batch: usize,
    pub(crate) row: usize,
    pub(crate) col: usize,
    /// A storage of the same layout whose elements multiply those of `storage`.
    pub(crate) times: Option<&'a Storage>,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix with `cols` columns.
    pub(crate) fn row_major(storage: &'a Storage, cols: usize) -> Self {
        Self { storage, batch: 0, row: cols, col: 1, times: None }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { row: self.col, col: self.row, ..self }
    }
}

/// What happens to a product before it is stored.
#[derive(Clone, Copy)]
pub(crate) enum Epilogue<'a> {
    None,
    Bias(&'a Storage),
    /// Bias (if any) and exact GELU; with `slope`, what the backward rule needs is stored too: the derivative, or
    /// whatever [`Backend::gelu_backward`] reads.
    Gelu {
        bias: Option<&'a Storage>,
        slope: bool,
    },
    /// Bias (if any) and the sum with a residual of the product's own shape.
    Residual {
        bias: Option<&'a Storage>,
        residual: &'a Storage,
    },
}

/// `C[z] = epilogue(A[z] B[z])` with `A [m, k]`, `B [k, n]`, `C [batches, m, n]`.
#[derive(Clone, Copy)]
pub(crate) struct Gemm<'a> {
    pub(crate) batches: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Matrix<'a>,
    pub(crate) b: Matrix<'a>,
    pub(crate) epilogue: Epilogue<'a>,
    /// The product belongs to a parameter: it is stored in `f32` whatever the operands are.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "the processor stores every product in f32")
    )]
    pub(crate) full: bool,
}

/// The rows of one of query, key or value: row `i` of batch `b` starts at `start + (b * rows + i) * row`.
#[derive(Clone, Copy)]
pub(crate) struct HeadRows<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) start: usize,
    pub(crate) row: usize,
}

/// Multi-head attention: `softmax(Q Kᵀ / sqrt(D/h)) V` per head, heads side by side in a row.
#[derive(Clone, Copy)]
pub(crate) struct Attention<'a> {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) q_len: usize,
    pub(crate) kv_len: usize,
    pub(crate) q: HeadRows<'a>,
    pub(crate) k: HeadRows<'a>,
    pub(crate) v: HeadRows<'a>,
}

impl Attention<'_> {
    pub(crate) fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    pub(crate) fn scale(&self) -> f32 {
        (self.head_dim as f32).sqrt().recip()
    }
}

/// What the backward pass of attention reads besides its inputs.
pub(crate) struct AttentionGrad<'a> {
    pub(crate) out: &'a Storage,
    /// `log Σ exp` of each row of scores, `[B, h, M]`.
    pub(crate) lse: &'a Storage,
    pub(crate) grad: &'a Storage,
}

/// A convolution: `[batch, inputs, H, W]` by kernels `[outputs, inputs / groups, kh, kw]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conv {
    pub(crate) batch: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) groups: usize,
    /// `[H, W]`.
    pub(crate) input: [usize; 2],
    /// `[kh, kw]`.
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    /// `[oh, ow]`.
    pub(crate) output: [usize; 2],
}

impl Conv {
    /// Elements of one kernel.
    pub(crate) fn depth(&self) -> usize {
        self.inputs / self.groups * self.kernel[0] * self.kernel[1]
    }

    /// Elements of one output plane.
    pub(crate) fn output_len(&self) -> usize {
        self.output[0] * self.output[1]
    }
}

/// Square windows over planes `[H, W]`, one for each element of `[oh, ow]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) input: [usize; 2],
    pub(crate) side: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) output: [usize; 2],
}

impl Window {
    /// Elements of an input plane.
    pub(crate) fn input_len(&self) -> usize {
        self.input[0] * self.input[1]
    }

    /// Elements of an output plane.
    pub(crate) fn output_len(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// The rows and columns of the input that output `index` covers.
    pub(crate) fn covers(&self, index: usize) -> [Range<usize>; 2] {
        let place = [index / self.output[1], index % self.output[1]];
        [0, 1].map(|axis| {
            let start = place[axis] * self.stride;
            let end = (start + self.side).saturating_sub(self.padding).min(self.input[axis]);
            start.saturating_sub(self.padding)..end
        })
    }
}

/// One parameter's update.
#[derive(Clone, Copy)]
pub(crate) enum Update<'a> {
    /// `g += wd p; v' = mu v + g; p' = p - lr (g + mu v' if nesterov, else v')`; returns `[p', v']`.
    Sgd { lr: f32, momentum: f32, weight_decay: f32, nesterov: bool, velocity: Option<&'a Storage> },
    /// Adam with bias correction; returns `[p', m', v']`.
    Adam { step: crate::AdamStep, moments: Option<(&'a Storage, &'a Storage)> },
}

/// The kernels of a device.
pub(crate) trait Backend: Send + Sync {
    fn name(&self) -> String;
    /// The best rate of a large matrix product in the chosen precision, measured now.
    fn peak_gflops(&self) -> Result<f64>;
    fn upload(&self, data: Vec<f32>) -> Result<Storage>;
    fn download(&self, x: &Storage) -> Result<Vec<f32>>;
    fn fill(&self, len: usize, value: f32) -> Result<Storage>;

    /// Waits until all work that was asked for is done.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    /// The memory of a device that has its own.
    fn memory(&self) -> Option<Memory> {
        None
    }
    /// The elements as activations are kept in the chosen precision.
    fn compact(&self, x: &Storage) -> Result<Storage> {
        Ok(x.clone())
    }
    /// The gradient behind a fused GELU, from the gradient of its result and what [`Epilogue::Gelu`] saved; `None` where
    /// that is a factor that the next products read as [`Matrix::times`].
    fn gelu_backward(&self, _grad: &Storage, _saved: &Storage) -> Result<Option<Storage>> {
        Ok(None)
    }

    /// The product and, where the epilogue asks for it, the slope of the activation.
    fn gemm(&self, gemm: &Gemm) -> Result<(Storage, Option<Storage>)>;
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
    ) -> Result<Storage> {
        let (dq, dkv) = self.attention_backward(attention, saved)?;
        let d = attention.width();
        self.concat(attention.batch * attention.q_len, &[(&dq, d), (&dkv, 2 * d)])
    }

    /// The output and `[rows, 2]`: mean and reciprocal standard deviation.
    fn layer_norm(
        &self,
        x: &Storage,
        gamma: &Storage,
        beta: &Storage,
        eps: f32,
    ) -> Result<(Storage, Storage)>;
    /// The gradient of the input.
    fn layer_norm_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        gamma: &Storage,
        grad: &Storage,
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
    /// `scale x + shift` with one `scale` and `shift` a channel.
    fn channel_affine(
        &self,
        x: &Storage,
        scale: &Storage,
        shift: &Storage,
        split: [usize; 3],
    ) -> Result<Storage>;
    /// `Σ grad` and `Σ grad (x - centre)` of each channel.
    fn channel_gradient_sums(
        &self,
        x: &Storage,
        grad: &Storage,
        centre: &Storage,
        split: [usize; 3],
    ) -> Result<(Storage, Storage)>;
    /// `a grad + b x + c` with one `[a, b, c]` a channel.
    fn channel_combine(
        &self,
        x: &Storage,
        grad: &Storage,
        coefficients: [&Storage; 3],
        split: [usize; 3],
    ) -> Result<Storage>;

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
    /// `a + b`, in the memory of `a` where nothing else refers to it.
    fn accumulate(&self, a: Storage, b: &Storage) -> Result<Storage>;
    fn update(&self, param: &Storage, grad: &Storage, update: &Update) -> Result<Vec<Storage>>;

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
