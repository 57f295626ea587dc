//! An array as it lies in a file: element types, decoding, strided views, and the limit on what a file may ask for.

use super::error::Fault;
use super::narrow::{bf16_to_f32, f16_to_f32};

/// The element type an array was stored with.
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
    pub(super) fn from_name(name: &str) -> Option<Self> {
        use Dtype::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        [F64, F32, F16, Bf16, I64, I32, I16, I8, U64, U32, U16, U8, Bool]
            .into_iter()
            .find(|d| d.name() == name)
    }

    /// Little-endian elements as f32. Doubles and wide integers round to the nearest f32.
    pub(super) fn decode(self, bytes: &[u8]) -> Vec<f32> {
        fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f32) -> Vec<f32> {
            bytes.as_chunks::<N>().0.iter().map(|chunk| f(*chunk)).collect()
        }
        match self {
            Self::F64 => each(bytes, |b| f64::from_le_bytes(b) as f32),
            Self::F32 => each(bytes, f32::from_le_bytes),
            Self::F16 => each(bytes, |b| f16_to_f32(u16::from_le_bytes(b))),
            Self::Bf16 => each(bytes, |b| bf16_to_f32(u16::from_le_bytes(b))),
            Self::I64 => each(bytes, |b| i64::from_le_bytes(b) as f32),
            Self::I32 => each(bytes, |b| i32::from_le_bytes(b) as f32),
            Self::I16 => each(bytes, |b| f32::from(i16::from_le_bytes(b))),
            Self::I8 => each(bytes, |b| f32::from(i8::from_le_bytes(b))),
            Self::U64 => each(bytes, |b| u64::from_le_bytes(b) as f32),
            Self::U32 => each(bytes, |b| u32::from_le_bytes(b) as f32),
            Self::U16 => each(bytes, |b| f32::from(u16::from_le_bytes(b))),
            Self::U8 => each(bytes, |[b]| f32::from(b)),
            Self::Bool => each(bytes, |[b]| if b == 0 { 0.0 } else { 1.0 }),
        }
    }
}

/// One array of a checkpoint, row-major, converted to f32.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The element type in the file.
    pub dtype: Dtype,
    /// The elements; as many as the product of `shape`.
    pub data: Vec<f32>,
}

impl Array {
    /// The same elements with the axes in another order: axis `i` of the result is axis `order[i]` of `self`.
    pub(super) fn transposed(&self, order: &[usize]) -> Self {
        let strides = row_major(&self.shape);
        let shape: Vec<usize> = order.iter().map(|&axis| self.shape[axis]).collect();
        let strides: Vec<usize> = order.iter().map(|&axis| strides[axis]).collect();
        let mut data = Vec::with_capacity(self.data.len());
        for_each_offset(&shape, &strides, |offset| data.push(self.data[offset]));
        Self { shape, dtype: self.dtype, data }
    }
}

/// The number of elements of a shape; none if the axes are beyond all reason.
///
/// Zero axes count as one for that judgement, so that later products over some of the axes cannot overflow either.
pub(super) fn element_count(shape: &[usize]) -> Option<usize> {
    const LIMIT: usize = usize::MAX >> 16;
    let product = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n.max(1)))?;
    let count = if shape.contains(&0) { 0 } else { product };
    (product <= LIMIT).then_some(count)
}

/// The strides of a row-major array.
pub(super) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = shape[axis].max(1).saturating_mul(strides[axis]);
    }
    strides
}

/// A window on stored elements: what PyTorch calls a tensor and NumPy an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// The elements, little-endian.
    pub bytes: &'a [u8],
    pub dtype: Dtype,
    /// Index of the first element.
    pub offset: usize,
    pub shape: &'a [usize],
    /// Distance between neighbours along each axis, in elements.
    pub strides: &'a [usize],
}

impl View<'_> {
    /// Copies the elements out in row-major order, after checking that all of them lie in the storage and that `budget`
    /// allows the copy.
    pub(super) fn read(&self, budget: &mut Budget) -> Result<Array, Fault> {
        let overflow = || {
            Fault::invalid("shape", "a countable number of elements", format!("{:?}", self.shape))
        };
        let count = element_count(self.shape).ok_or_else(overflow)?;
        let stored = self.bytes.len() / self.dtype.size();
        if count > 0 {
            let last =
                self.shape.iter().zip(self.strides).try_fold(self.offset, |last, (&n, &stride)| {
                    (n - 1).checked_mul(stride).and_then(|reach| last.checked_add(reach))
                });
            match last {
                Some(last) if last < stored => {}
                _ => {
                    return Err(Fault::invalid(
                        "view",
                        format!("to end within its storage of {stored} elements"),
                        format!(
                            "offset {}, shape {:?}, strides {:?}",
                            self.offset, self.shape, self.strides
                        ),
                    ));
                }
            }
        }
        let elements = (count as u64).saturating_mul(4);
        budget.charge(
            "the array",
            elements.saturating_add(8 * self.shape.len() as u64 + Budget::ENTRY),
        )?;
        let data = if count == 0 {
            Vec::new()
        } else if self.strides == row_major(self.shape) {
            let size = self.dtype.size();
            self.dtype.decode(&self.bytes[self.offset * size..(self.offset + count) * size])
        } else {
            self.gather(count)
        };
        Ok(Array { shape: self.shape.to_vec(), dtype: self.dtype, data })
    }

    fn gather(&self, count: usize) -> Vec<f32> {
        let size = self.dtype.size();
        let mut packed = Vec::with_capacity(count * size);
        for_each_offset(self.shape, self.strides, |offset| {
            let at = (self.offset + offset) * size;
            packed.extend_from_slice(&self.bytes[at..at + size]);
        });
        self.dtype.decode(&packed)
    }
}

/// Calls `f` with the storage offset of every element in row-major order.
fn for_each_offset(shape: &[usize], strides: &[usize], mut f: impl FnMut(usize)) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    let mut offset = 0;
    loop {
        f(offset);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < shape[axis] {
                offset += strides[axis];
                break;
            }
            offset -= (shape[axis] - 1) * strides[axis];
            index[axis] = 0;
        }
    }
}

/// What decoding one file may allocate in all.
///
/// Half floats double, deflate and shared storages multiply, so the limit is a multiple of the file's size; a header
/// that claims more lies, and is refused before anything is allocated for it.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    spent: u64,
}

impl Budget {
    const FACTOR: u64 = 16;
    const SLACK: u64 = 1 << 20;
    /// What an array costs beside its elements.
    const ENTRY: u64 = 128;

    pub(super) fn for_file(bytes: usize) -> Self {
        Self {
            limit: (bytes as u64).saturating_mul(Self::FACTOR).saturating_add(Self::SLACK),
            spent: 0,
        }
    }

    pub(super) fn charge(&mut self, what: &str, bytes: u64) -> Result<(), Fault> {
        let spent = self.spent.saturating_add(bytes);
        if spent > self.limit {
            return Err(Fault::TooLarge {
                what: what.to_owned(),
                claimed: bytes,
                limit: self.left(),
            });
        }
        self.spent = spent;
        Ok(())
    }

    pub(super) fn left(&self) -> u64 {
        self.limit - self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<'a>(
        bytes: &'a [u8],
        offset: usize,
        shape: &'a [usize],
        strides: &'a [usize],
    ) -> View<'a> {
        View { bytes, dtype: Dtype::U8, offset, shape, strides }
    }

    #[test]
    fn a_transposed_view_reads_in_row_major_order() {
        let bytes = [0, 1, 2, 3, 4, 5, 6];
        let array = view(&bytes, 1, &[3, 2], &[1, 3]).read(&mut Budget::for_file(7)).unwrap();
        assert_eq!(array.data, [1., 4., 2., 5., 3., 6.]);
    }

    #[test]
    fn a_view_past_its_storage_is_refused() {
        let bytes = [0; 6];
        for (offset, shape, strides) in [
            (1, [2, 3], [3, 1]),
            (0, [2, 3], [4, 1]),
            (usize::MAX, [1, 1], [1, 1]),
            (0, [2, 2], [usize::MAX, 1]),
        ] {
            let fault =
                view(&bytes, offset, &shape, &strides).read(&mut Budget::for_file(6)).unwrap_err();
            assert!(fault.to_string().contains("storage of 6 elements"), "{fault}");
        }
    }

    #[test]
    fn a_shape_whose_product_overflows_is_refused() {
        let fault =
            view(&[0; 6], 0, &[usize::MAX, 2], &[0, 0]).read(&mut Budget::for_file(6)).unwrap_err();
        assert!(fault.to_string().contains("countable"), "{fault}");
    }

    #[test]
    fn an_expanded_scalar_cannot_ask_for_more_than_the_file_allows() {
        let fault = view(&[1], 0, &[1 << 40], &[0]).read(&mut Budget::for_file(1)).unwrap_err();
        assert!(matches!(fault, Fault::TooLarge { .. }), "{fault}");
        assert_eq!(view(&[1], 0, &[3], &[0]).read(&mut Budget::for_file(1)).unwrap().data, [1.; 3]);
    }

    #[test]
    fn transposing_axes_moves_elements() {
        let array =
            Array { shape: vec![1, 2, 3], dtype: Dtype::F32, data: vec![0., 1., 2., 3., 4., 5.] };
        let turned = array.transposed(&[2, 0, 1]);
        assert_eq!((turned.shape, turned.data), (vec![3, 1, 2], vec![0., 3., 1., 4., 2., 5.]));
    }
}
