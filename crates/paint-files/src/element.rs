//! Elements of arrays in files: their types, and how many a shape holds.

/// The type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE double.
    F64,
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of an IEEE single.
    Bf16,
    /// Signed 64-bit.
    I64,
    /// Signed 32-bit.
    I32,
    /// Signed 16-bit.
    I16,
    /// Signed 8-bit.
    I8,
    /// Unsigned 64-bit.
    U64,
    /// Unsigned 32-bit.
    U32,
    /// Unsigned 16-bit.
    U16,
    /// Unsigned 8-bit.
    U8,
    /// One byte, zero or not.
    Bool,
}

impl Dtype {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// The name that the safetensors format gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "F64",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::I64 => "I64",
            Self::I32 => "I32",
            Self::I16 => "I16",
            Self::I8 => "I8",
            Self::U64 => "U64",
            Self::U32 => "U32",
            Self::U16 => "U16",
            Self::U8 => "U8",
            Self::Bool => "BOOL",
        }
    }

    /// The element type of that safetensors name.
    pub fn from_name(name: &str) -> Option<Self> {
        use Dtype::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        [F64, F32, F16, Bf16, I64, I32, I16, I8, U64, U32, U16, U8, Bool]
            .into_iter()
            .find(|d| d.name() == name)
    }
}

/// The number of elements of a shape; none if no memory could ever hold them.
///
/// Axes of length zero count as one for that judgement, so that a product over some of the axes cannot overflow either.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    const LIMIT: usize = usize::MAX >> 16;
    let product = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n.max(1)))?;
    let count = if shape.contains(&0) { 0 } else { product };
    (product <= LIMIT).then_some(count)
}
