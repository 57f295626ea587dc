//! The problems that the larger kernels solve.

use std::ops::Range;

use super::Storage;

/// A matrix inside a storage: element `(i, j)` of batch `z` is at `start + z * batch + i * row + j * col`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) batch: usize,
    pub(crate) row: usize,
    pub(crate) col: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix with `cols` columns.
    pub(crate) fn row_major(storage: &'a Storage, cols: usize) -> Self {
        Self { storage, batch: 0, row: cols, col: 1 }
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
    /// Bias (if any) and exact GELU; with `slope`, also stores what [`Epilogue::GeluGradient`] reads.
    Gelu {
        bias: Option<&'a Storage>,
        slope: bool,
    },
    /// Multiplied by the derivative of a GELU, from what [`Epilogue::Gelu`] stored.
    GeluGradient(&'a Storage),
    /// Bias (if any) and the sum with a residual of the product's own shape.
    Residual {
        bias: Option<&'a Storage>,
        residual: &'a Storage,
    },
}

impl<'a> Epilogue<'a> {
    /// Bias and residual.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "the CPU asks for each kind of epilogue by itself")
    )]
    pub(crate) fn added(self) -> (Option<&'a Storage>, Option<&'a Storage>) {
        match self {
            Self::None | Self::GeluGradient(_) => (None, None),
            Self::Bias(bias) => (Some(bias), None),
            Self::Gelu { bias, .. } => (bias, None),
            Self::Residual { bias, residual } => (bias, Some(residual)),
        }
    }
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
    /// The product is the gradient of a parameter: it is stored in `f32`, however the operands are stored.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "the CPU stores every product in f32")
    )]
    pub(crate) full: bool,
    /// The product is a layer inside a network through which no gradient passes: `int8` and `fp8` round its factors.
    #[cfg_attr(
        not(any(target_arch = "x86_64", feature = "cuda")),
        expect(dead_code, reason = "only the CPU of x86 and GPUs multiply numbers of 8 bits")
    )]
    pub(crate) frozen: bool,
}

/// A second product, whose left operand is what a first one gives.
#[derive(Clone, Copy)]
pub(crate) struct Next<'a> {
    pub(crate) n: usize,
    pub(crate) b: Matrix<'a>,
    pub(crate) epilogue: Epilogue<'a>,
}

/// What two products in a row give.
pub(crate) struct Chain {
    /// The first product, if it was to be kept.
    pub(crate) hidden: Option<Storage>,
    /// What the epilogue of the first saves.
    pub(crate) saved: Option<Storage>,
    /// The second product.
    pub(crate) out: Storage,
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

/// What follows an affine map of channels.
#[derive(Clone, Copy)]
pub(crate) enum After<'a> {
    Nothing,
    /// ReLU, of the sum with a residual of the map's own shape if there is one.
    Relu(Option<&'a Storage>),
}

/// A ReLU behind an affine map of channels: a gradient passes where `scale x + shift` is above zero.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a> {
    pub(crate) scale: &'a Storage,
    pub(crate) shift: &'a Storage,
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
