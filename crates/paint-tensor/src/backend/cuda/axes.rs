//! Shapes as the kernels take them.

use super::param::structures;
use crate::shape::elem_count;
use crate::{Error, Result};

/// The most axes that a kernel walks over.
const RANK: usize = 8;
/// A matrix of fewer rows can be turned: a grid has blocks for so many.
pub(super) const MOST_TURNED: usize = 1 << 20;

structures! {
    /// The axes of a broadcast result, with the strides of both operands.
    struct Broadcast {
        rank: i32,
        size: [i32; RANK],
        a: [i32; RANK],
        b: [i32; RANK],
    }

    /// The axes of a result, with the strides of the input.
    struct Axes {
        rank: i32,
        size: [i32; RANK],
        stride: [i32; RANK],
    }
}

impl Broadcast {
    pub(super) fn new(shape: &[usize], a: &[usize], b: &[usize]) -> Result<Self> {
        let (rank, size, [a, b]) = joined("broadcasting", shape, [a, b])?;
        Ok(Self { rank, size, a, b })
    }

    /// Whether the last axis is one of whole packs.
    pub(super) fn is_packed(&self, pack: usize) -> bool {
        self.size[..self.rank as usize].last().is_some_and(|last| last % pack as i32 == 0)
    }
}

impl Axes {
    pub(super) fn new(shape: &[usize], strides: &[usize]) -> Result<Self> {
        let (rank, size, [stride]) = joined("permute", shape, [strides])?;
        Ok(Self { rank, size, stride })
    }

    /// The rows and columns of an input that is a matrix whose axes are exchanged; none if it has too many rows.
    pub(super) fn turned(&self) -> Option<[usize; 2]> {
        let [columns, rows] = [self.size[0], self.size[1]];
        let turned =
            self.rank == 2 && self.stride[..2] == [1, columns] && (rows as usize) < MOST_TURNED;
        turned.then_some([rows as usize, columns as usize])
    }

    /// The same axes for packs of so many neighbours, if these stay neighbours.
    pub(super) fn packed(mut self, pack: usize) -> Option<Self> {
        let (pack, last) = (pack as i32, (self.rank as usize).checked_sub(1)?);
        // A size from 2^31 on does not fit its type.
        let fits = self.stride[last] == 1 && self.size[last] > 0 && self.size[last] % pack == 0;
        if !fits || self.stride[..last].iter().any(|stride| stride % pack != 0) {
            return None;
        }
        self.stride[..last].iter_mut().for_each(|stride| *stride /= pack);
        self.size[last] /= pack;
        Some(self)
    }
}

/// Rank, sizes and each list of strides. Neighbouring axes that follow one another in memory in every list become one.
fn joined<const N: usize>(
    what: &'static str,
    shape: &[usize],
    strides: [&[usize]; N],
) -> Result<(i32, [i32; RANK], [[i32; RANK]; N])> {
    let mut joined: Vec<(usize, [usize; N])> = Vec::with_capacity(shape.len());
    for (axis, &size) in shape.iter().enumerate() {
        let steps = strides.map(|list| list[axis]);
        match joined.last_mut() {
            Some((length, outer)) if (0..N).all(|i| outer[i] == steps[i] * size) => {
                (*length, *outer) = (*length * size, steps);
            }
            _ => joined.push((size, steps)),
        }
    }
    if joined.len() > RANK || elem_count(shape) > u32::MAX as usize {
        return Err(Error::Shape {
            what,
            expected: format!("at most {RANK} axes and 2^32 elements on a GPU"),
            got: shape.to_vec(),
        });
    }
    let (mut sizes, mut lists) = ([0; RANK], [[0; RANK]; N]);
    for (axis, (size, steps)) in joined.iter().enumerate() {
        sizes[axis] = *size as i32;
        for (list, step) in lists.iter_mut().zip(steps) {
            list[axis] = *step as i32;
        }
    }
    Ok((joined.len() as i32, sizes, lists))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_follow_one_another_in_every_list_become_one() {
        // [2, 3, 4] + [3, 4]: the last two axes are one for both, the first is repeated in the second.
        let Broadcast { rank, size, a, b } =
            Broadcast::new(&[2, 3, 4], &[12, 4, 1], &[0, 4, 1]).unwrap();
        assert_eq!(
            (rank, &size[..2], &a[..2], &b[..2]),
            (2, &[2, 12][..], &[12, 1][..], &[0, 1][..])
        );
        // [2, 3] with its axes exchanged stays two axes.
        let Axes { rank, size, stride } = Axes::new(&[3, 2], &[1, 3]).unwrap();
        assert_eq!((rank, &size[..2], &stride[..2]), (2, &[3, 2][..], &[1, 3][..]));
        assert_eq!(Axes::new(&[], &[]).unwrap().rank, 0);
    }

    #[test]
    fn an_exchanged_matrix_and_neighbours_that_stay_together_are_seen() {
        let axes = |shape: &[usize], strides: &[usize]| Axes::new(shape, strides).unwrap();
        assert_eq!(axes(&[3, 2], &[1, 3]).turned(), Some([2, 3]));
        // A batch of matrices is none, nor is a matrix as it lies.
        assert_eq!(axes(&[5, 3, 2], &[6, 1, 3]).turned(), None);
        assert_eq!(axes(&[2, 3], &[3, 1]).turned(), None);
        // Patches of 4 x 4 pixels of an image of 8 x 8: [2, 2, 4, 4].
        let patches = axes(&[2, 2, 4, 4], &[32, 4, 8, 1]).packed(4).unwrap();
        assert_eq!(
            (patches.size[..4].to_vec(), patches.stride[..4].to_vec()),
            (vec![2, 2, 4, 1], vec![8, 1, 2, 1])
        );
        assert!(axes(&[2, 2, 4, 4], &[32, 4, 8, 1]).packed(8).is_none());
        assert!(axes(&[3, 2], &[1, 3]).packed(4).is_none());
    }

    #[test]
    fn more_than_a_kernel_counts_is_refused() {
        let odd: Vec<usize> = (0..9).map(|i| 2 * i + 1).collect();
        assert!(Axes::new(&[2; 9], &odd).is_err());
        assert!(Axes::new(&[1 << 17, 1 << 16], &[1, 1 << 17]).is_err());
        assert!(
            Axes::new(&[2; 9], &[256, 128, 64, 32, 16, 8, 4, 2, 1]).is_ok(),
            "one axis in fact"
        );
    }
}
