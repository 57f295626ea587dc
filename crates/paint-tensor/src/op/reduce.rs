//! Sums, means and the largest element.

use crate::shape::split_at;
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// The sum over one axis, which disappears.
    pub fn sum(&self, axis: usize) -> Result<Self> {
        let split = split_at(self.shape(), axis, "sum")?;
        let mut shape = self.shape().to_vec();
        shape.remove(axis);
        self.sum_split(split, shape)
    }

    /// The mean over one axis, which disappears.
    pub fn mean(&self, axis: usize) -> Result<Self> {
        let [_, mid, _] = split_at(self.shape(), axis, "mean")?;
        self.sum(axis)?.scale(1.0 / mid as f32)
    }

    /// The sum of all elements, shape `[]`.
    pub fn sum_all(&self) -> Result<Self> {
        self.sum_split([1, self.elem_count(), 1], Vec::new())
    }

    /// The mean of all elements, shape `[]`.
    pub fn mean_all(&self) -> Result<Self> {
        self.sum_all()?.scale(1.0 / self.elem_count() as f32)
    }

    fn sum_split(&self, split: [usize; 3], shape: Vec<usize>) -> Result<Self> {
        let out = self.device().backend().sum(self.storage(), split)?;
        Ok(self.derived(shape, out, &[self.link()], || SumRule {
            input: self.link().clone(),
            shape: self.shape().to_vec(),
            split,
        }))
    }

    /// The index of the largest element of each row of `[B, C]`, the first of equals. A NaN is not larger than
    /// anything.
    pub fn argmax(&self) -> Result<Vec<usize>> {
        let [_, c] = self.dims2("argmax")?;
        let best = |row: &[f32]| largest(row.iter().copied());
        Ok(self.to_vec()?.chunks_exact(c.max(1)).map(best).collect())
    }
}

/// The place of the largest value, the first of equals. A NaN is not larger than anything.
pub fn largest(values: impl Iterator<Item = f32>) -> usize {
    let first = (0, f32::NEG_INFINITY);
    values
        .enumerate()
        .fold(first, |best, (at, value)| if value > best.1 { (at, value) } else { best })
        .0
}

struct SumRule {
    input: Link,
    shape: Vec<usize>,
    split: [usize; 3],
}

impl Rule for SumRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || {
            let [outer, mid, inner] = self.split;
            grad.reshape([outer, 1, inner])?.broadcast_to([outer, mid, inner])?.reshape(&self.shape)
        })
    }
}
