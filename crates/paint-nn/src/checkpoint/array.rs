//! Arrays as they lie in a file: strided views, converted to f32.

use paint_files::{Budget, Dtype, Fault, Source, element_count};

use super::narrow::{bf16_to_f32, f16_to_f32};

/// What an array costs beside its elements.
const ENTRY: u64 = 128;

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

/// The strides of a row-major array.
pub(super) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = shape[axis].max(1).saturating_mul(strides[axis]);
    }
    strides
}

/// Little-endian elements as f32. Doubles and wide integers round to the nearest f32.
fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| f(*chunk)).collect()
    }
    match dtype {
        Dtype::F64 => each(bytes, |b| f64::from_le_bytes(b) as f32),
        Dtype::F32 => each(bytes, f32::from_le_bytes),
        Dtype::F16 => each(bytes, |b| f16_to_f32(u16::from_le_bytes(b))),
        Dtype::Bf16 => each(bytes, |b| bf16_to_f32(u16::from_le_bytes(b))),
        Dtype::I64 => each(bytes, |b| i64::from_le_bytes(b) as f32),
        Dtype::I32 => each(bytes, |b| i32::from_le_bytes(b) as f32),
        Dtype::I16 => each(bytes, |b| f32::from(i16::from_le_bytes(b))),
        Dtype::I8 => each(bytes, |b| f32::from(i8::from_le_bytes(b))),
        Dtype::U64 => each(bytes, |b| u64::from_le_bytes(b) as f32),
        Dtype::U32 => each(bytes, |b| u32::from_le_bytes(b) as f32),
        Dtype::U16 => each(bytes, |b| f32::from(u16::from_le_bytes(b))),
        Dtype::U8 => each(bytes, |[b]| f32::from(b)),
        Dtype::Bool => each(bytes, |[b]| if b == 0 { 0.0 } else { 1.0 }),
    }
}

/// A window on stored elements: what PyTorch calls a tensor and NumPy an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// The elements, little-endian.
    pub storage: &'a Source,
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
        let elements = (count as u64).saturating_mul(4);
        budget.charge("the array", elements.saturating_add(8 * self.shape.len() as u64 + ENTRY))?;
        let data = if count == 0 { Vec::new() } else { self.elements(count, budget)? };
        Ok(Array { shape: self.shape.to_vec(), dtype: self.dtype, data })
    }

    /// Reads from the first element to the last, which is more than `count` where the view has gaps.
    fn elements(&self, count: usize, budget: &mut Budget) -> Result<Vec<f32>, Fault> {
        let size = self.dtype.size();
        let stored = self.storage.len() / size as u64;
        let reach =
            self.shape.iter().zip(self.strides).try_fold(0_usize, |reach, (&n, &stride)| {
                (n - 1).checked_mul(stride).and_then(|more| reach.checked_add(more))
            });
        let end = reach.and_then(|reach| self.offset.checked_add(reach)?.checked_add(1));
        let Some(end) = end.filter(|&end| end as u64 <= stored) else {
            return Err(Fault::invalid(
                "view",
                format!("to end within its storage of {stored} elements"),
                format!(
                    "offset {}, shape {:?}, strides {:?}",
                    self.offset, self.shape, self.strides
                ),
            ));
        };
        let bytes = ((end - self.offset) * size) as u64;
        let is_packed = self.strides == row_major(self.shape);
        if !is_packed {
            // Small views across a large storage must not read it again and again.
            budget.charge("the view", bytes.saturating_sub((count * size) as u64))?;
        }
        let bytes = self.storage.read((self.offset * size) as u64, bytes, "array data")?;
        Ok(if is_packed { decode(self.dtype, &bytes) } else { self.gather(count, &bytes) })
    }

    fn gather(&self, count: usize, bytes: &[u8]) -> Vec<f32> {
        let size = self.dtype.size();
        let mut packed = Vec::with_capacity(count * size);
        for_each_offset(self.shape, self.strides, |offset| {
            packed.extend_from_slice(&bytes[offset * size..][..size]);
        });
        decode(self.dtype, &packed)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        bytes: &[u8],
        offset: usize,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Array, Fault> {
        let storage = &Source::from(bytes.to_vec());
        View { storage, dtype: Dtype::U8, offset, shape, strides }
            .read(&mut Budget::for_file(bytes.len() as u64))
    }

    #[test]
    fn a_transposed_view_reads_in_row_major_order() {
        let bytes = [0, 1, 2, 3, 4, 5, 6];
        let array = read(&bytes, 1, &[3, 2], &[1, 3]).unwrap();
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
            let fault = read(&bytes, offset, &shape, &strides).unwrap_err();
            assert!(fault.to_string().contains("storage of 6 elements"), "{fault}");
        }
    }

    #[test]
    fn a_shape_whose_product_overflows_is_refused() {
        let fault = read(&[0; 6], 0, &[usize::MAX, 2], &[0, 0]).unwrap_err();
        assert!(fault.to_string().contains("countable"), "{fault}");
    }

    #[test]
    fn an_expanded_scalar_cannot_ask_for_more_than_the_file_allows() {
        let fault = read(&[1], 0, &[1 << 40], &[0]).unwrap_err();
        assert!(matches!(fault, Fault::TooLarge { .. }), "{fault}");
        assert_eq!(read(&[1], 0, &[3], &[0]).unwrap().data, [1.; 3]);
    }

    #[test]
    fn transposing_axes_moves_elements() {
        let array =
            Array { shape: vec![1, 2, 3], dtype: Dtype::F32, data: vec![0., 1., 2., 3., 4., 5.] };
        let turned = array.transposed(&[2, 0, 1]);
        assert_eq!((turned.shape, turned.data), (vec![3, 1, 2], vec![0., 3., 1., 4., 2., 5.]));
    }
}
