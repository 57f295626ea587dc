//! The residual branches of a block, with a factor per image where stochastic depth asks for one.

use paint_tensor::Tensor;

use crate::error::Result;

/// The factors `[B]` of a block's two branches.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Branches<'a> {
    pub(super) attention: Option<&'a Tensor>,
    pub(super) mlp: Option<&'a Tensor>,
}

impl<'a> Branches<'a> {
    /// Those of block `index` in a list with two per block, or none if the list is empty.
    pub(super) fn of(all: &'a [Option<Tensor>], index: usize) -> Self {
        let at = |place: usize| all.get(place).and_then(Option::as_ref);
        Self { attention: at(2 * index), mlp: at(2 * index + 1) }
    }
}

/// `x + f γ branch`.
pub(super) fn add_branch(
    x: &Tensor,
    mut branch: Tensor,
    scale: Option<&Tensor>,
    factors: Option<&Tensor>,
) -> Result<Tensor> {
    if let Some(scale) = scale {
        branch = branch.mul(scale)?;
    }
    Ok(match factors {
        None => x.add(&branch)?,
        Some(factors) => x.add_scaled(&branch, factors)?,
    })
}
