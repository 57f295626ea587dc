//! A matrix product as cuBLASLt is asked for it.

use cudarc::cublaslt::sys;

use super::buffer::Kind;

/// A product with more operations than this takes so long that algorithms are worth timing, and that the cost of its
/// call does not matter.
pub(super) const LARGE: f64 = 4e9;

/// One operand: memory whose rows are `pitch` apart, read as it lies or transposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) transposed: bool,
    pub(super) pitch: usize,
    /// Elements from one matrix of a batch to the next.
    pub(super) batch: usize,
}

/// What cuBLASLt itself does to a product. Its GELU is the tanh approximation, which is within bf16's own rounding of
/// the exact one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Activation {
    None,
    Gelu,
    /// GELU, with its argument stored beside the result.
    GeluAndArgument,
    /// Times the derivative of GELU at an argument that was stored.
    GeluGradient,
}

/// How a number of an operand is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Element {
    F32,
    Bf16,
    /// An 8-bit float.
    E4m3,
}

impl From<Kind> for Element {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::F32 => Self::F32,
            Kind::Bf16 => Self::Bf16,
        }
    }
}

impl Element {
    pub(super) fn data_type(self) -> sys::cudaDataType {
        match self {
            Self::F32 => sys::cudaDataType::CUDA_R_32F,
            Self::Bf16 => sys::cudaDataType::CUDA_R_16BF,
            Self::E4m3 => sys::cudaDataType::CUDA_R_8F_E4M3,
        }
    }

    /// How bias and residual are stored beside a result.
    pub(super) fn of_terms(self) -> Self {
        if self == Self::E4m3 { Self::Bf16 } else { self }
    }
}

/// Everything that decides which algorithms fit a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) batches: usize,
    pub(super) a: Layout,
    pub(super) b: Layout,
    /// Of both operands.
    pub(super) operands: Element,
    pub(super) output: Element,
    pub(super) tf32: bool,
    pub(super) bias: bool,
    pub(super) activation: Activation,
    /// The largest power of two, up to 256, that divides all addresses.
    pub(super) alignment: u32,
}

impl Problem {
    pub(super) fn is_large(&self) -> bool {
        2.0 * (self.batches * self.m) as f64 * (self.n * self.k) as f64 >= LARGE
    }
}

/// Where the operands are.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) out: u64,
    pub(super) bias: Option<u64>,
    /// Added to the product.
    pub(super) residual: Option<u64>,
    /// Where the argument of the activation goes, or is.
    pub(super) argument: Option<u64>,
    /// The number by which the right operand is multiplied.
    pub(super) unit: Option<u64>,
}

impl Addresses {
    pub(super) fn alignment(&self) -> u32 {
        let all =
            [Some(self.a), Some(self.b), Some(self.out), self.bias, self.residual, self.argument];
        let bits = all.into_iter().flatten().fold(256, |bits, address| bits | address);
        1 << bits.trailing_zeros()
    }
}
