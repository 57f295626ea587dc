//! Shapes: element counts, broadcasting, the split of a shape around an axis.

use crate::{Error, Result};

/// The number of elements of a shape that [`checked_count`] has accepted.
pub(crate) fn elem_count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// The number of elements of a shape; an error if no memory could hold them. An axis of size zero does not make up for
/// the others, so that the product of any of a shape's axes is a number too.
pub(crate) fn checked_count(shape: &[usize], what: &'static str) -> Result<usize> {
    const MOST: usize = isize::MAX as usize / size_of::<f32>();
    let bound = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size.max(1)));
    match bound {
        Some(bound) if bound <= MOST => Ok(elem_count(shape)),
        _ => Err(Error::TooLarge { what, shape: shape.to_vec() }),
    }
}

/// The sizes before, at and after `axis`: reductions and slices work on `[outer, mid, inner]`.
pub(crate) fn split_at(shape: &[usize], axis: usize, what: &'static str) -> Result<[usize; 3]> {
    if axis >= shape.len() {
        return Err(Error::Index { what, index: axis, size: shape.len() });
    }
    Ok([elem_count(&shape[..axis]), shape[axis], elem_count(&shape[axis + 1..])])
}

/// The last axis and the number of rows before it.
pub(crate) fn rows(shape: &[usize], what: &'static str) -> Result<(usize, usize)> {
    match shape {
        [.., last] if *last > 0 => Ok((elem_count(shape) / last, *last)),
        _ => Err(Error::Shape {
            what,
            expected: "[.., D] with D > 0".to_owned(),
            got: shape.to_vec(),
        }),
    }
}

/// The common shape of two operands, aligned at the last axis as in NumPy.
pub(crate) fn broadcast(a: &[usize], b: &[usize], what: &'static str) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| {
        let missing = rank - shape.len();
        if axis < missing { 1 } else { shape[axis - missing] }
    };
    let shape = (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(Error::Shape {
                what,
                expected: format!("a shape that broadcasts with {a:?}"),
                got: b.to_vec(),
            }),
        })
        .collect::<Result<Vec<_>>>()?;
    checked_count(&shape, what)?;
    Ok(shape)
}

/// Strides of `shape` inside the broadcast shape `out`: zero along the repeated axes.
pub(crate) fn broadcast_strides(shape: &[usize], out: &[usize]) -> Vec<usize> {
    let missing = out.len() - shape.len();
    let mut strides = vec![0; out.len()];
    let mut step = 1;
    for axis in (0..shape.len()).rev() {
        strides[missing + axis] = if shape[axis] == 1 { 0 } else { step };
        step *= shape[axis];
    }
    strides
}

/// The axes of `out` along which `shape` was repeated, from the last to the first.
pub(crate) fn repeated_axes(shape: &[usize], out: &[usize]) -> Vec<usize> {
    let missing = out.len() - shape.len();
    (0..out.len())
        .rev()
        .filter(|&axis| axis < missing || (shape[axis - missing] == 1 && out[axis] != 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_aligns_at_the_last_axis() {
        assert_eq!(broadcast(&[4, 1, 3], &[2, 1], "add").unwrap(), [4, 2, 3]);
        assert!(broadcast(&[4, 3], &[4], "add").is_err());
    }

    #[test]
    fn counts_that_memory_cannot_hold_are_refused() {
        assert_eq!(checked_count(&[], "zeros").unwrap(), 1);
        assert_eq!(checked_count(&[3, 0, 1 << 40], "zeros").unwrap(), 0);
        for shape in [&[1 << 33, 1 << 31][..], &[1 << 62], &[0, 1 << 40, 1 << 40], &[usize::MAX, 2]]
        {
            assert!(
                matches!(checked_count(shape, "zeros"), Err(Error::TooLarge { .. })),
                "{shape:?}"
            );
        }
    }

    #[test]
    fn repeated_axes_have_stride_zero() {
        assert_eq!(broadcast_strides(&[2, 1], &[4, 2, 3]), [0, 1, 0]);
        assert_eq!(repeated_axes(&[2, 1], &[4, 2, 3]), [2, 0]);
    }

    #[test]
    fn splitting_needs_an_existing_axis() {
        assert_eq!(split_at(&[2, 3, 4], 1, "sum").unwrap(), [2, 3, 4]);
        assert!(split_at(&[2], 1, "sum").is_err());
    }
}
