//! What a method asks of the tokens of a network while they pass.

use super::Storage;
use crate::Result;
use crate::op::alignment::Alignment;

/// The kernels of a device for them. What a device has no kernel for is composed of other operations (`op/tokens.rs`).
pub(crate) trait TokenKernels {
    /// `x` brought from its running moments towards others, given as `[running, target]`; with it the new running
    /// moments and the weight. The formulas are in `op/alignment.rs`.
    fn align(&self, x: &Storage, moments: [&Storage; 2], by: &Alignment) -> Result<[Storage; 3]>;

    /// Mean and variance of each channel over the tokens of an image from `first` on; `x` is `[b, n, d]`.
    fn token_moments(
        &self,
        _x: &Storage,
        _sizes: [usize; 3],
        _first: usize,
    ) -> Result<Option<[Storage; 2]>> {
        Ok(None)
    }

    /// Writes the rows of `part`, of `width` elements, over the beginnings of those of `x`, of `row`; false where `x`
    /// has to stay as it is.
    fn overwrite_first(
        &self,
        _x: &mut Storage,
        _part: &Storage,
        _row_and_width: [usize; 2],
    ) -> Result<bool> {
        Ok(false)
    }
}
