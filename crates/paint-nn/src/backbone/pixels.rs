//! Pixels as rows, `[B, N, C]` for `N = H·W`: what networks with channels last have in common.

use paint_tensor::Tensor;

use super::Request;
use super::residual::Assembly;
use crate::error::Result;
use crate::params::{ParamId, Params, Role, Slot};

/// Rows and columns of pixels.
pub(super) type Grid = [usize; 2];

/// A convolution by kernels as large as its stride: a product over patches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patches {
    /// `[O, I, side, side]`.
    weight: ParamId,
    bias: ParamId,
    side: usize,
}

impl Patches {
    /// `[B, I, H, W]` → `[B, N, O]` and its grid; pixels that fill no patch are left out.
    pub(super) fn of_images(&self, params: &Params, x: &Tensor) -> Result<(Tensor, Grid)> {
        let [_, inputs, h, w] = x.dims4("images")?;
        let grid = [h / self.side, w / self.side];
        let x = x.slice(2, 0, grid[0] * self.side)?.slice(3, 0, grid[1] * self.side)?;
        let weight = &params[self.weight];
        let weight = weight.reshape([weight.shape()[0], inputs * self.side * self.side])?;
        let patches = x.unfold_patches(self.side)?;
        Ok((patches.linear(&weight, Some(&params[self.bias]))?, grid))
    }

    /// `[B, N, I]` → `[B, N', O]` and its grid; pixels that fill no patch are left out.
    pub(super) fn of_pixels(
        &self,
        params: &Params,
        x: &Tensor,
        grid: Grid,
    ) -> Result<(Tensor, Grid)> {
        let ([b, _, c], s) = (x.dims3("pixels")?, self.side);
        let [rows, columns] = grid.map(|side| side / s);
        let x = x.reshape([b, grid[0], grid[1], c])?;
        let x = x.slice(1, 0, rows * s)?.slice(2, 0, columns * s)?;
        let patches = x
            .reshape([b, rows, s, columns, s, c])?
            .permute(&[0, 1, 3, 2, 4, 5])?
            .reshape([b, rows * columns, s * s * c])?;
        let weight = &params[self.weight];
        let outputs = weight.shape()[0];
        let weight = weight.permute(&[0, 2, 3, 1])?.reshape([outputs, s * s * c])?;
        Ok((patches.linear(&weight, Some(&params[self.bias]))?, [rows, columns]))
    }
}

impl Assembly {
    /// `name.weight` `[outputs, inputs, side, side]` and `name.bias` of a convolution with the stride of its kernels.
    pub(super) fn patches(
        &mut self,
        name: &str,
        role: impl Fn(Slot) -> Role,
        [outputs, inputs, side]: [usize; 3],
    ) -> Result<Patches> {
        let shape = [outputs, inputs, side, side];
        let weight =
            self.param(format!("{name}.weight"), role(Slot::Weight), &shape, |z| 0.02 * z)?;
        let bias = self.param(format!("{name}.bias"), role(Slot::Bias), &[outputs], |_| 0.0)?;
        Ok(Patches { weight, bias, side })
    }
}

/// Lets the request see the pixels that the first block reads, as images.
pub(super) fn before_blocks(request: &Request<'_>, x: &Tensor, grid: Grid) -> Result<()> {
    request.after_block.map_or(Ok(()), |hook| hook.before_blocks(0, &images_of(x, grid)?))
}

/// `[B, N, C]` → `[B, C, H, W]`.
fn images_of(x: &Tensor, grid: Grid) -> Result<Tensor> {
    let [b, _, c] = x.dims3("pixels")?;
    Ok(x.transpose(1, 2)?.reshape([b, c, grid[0], grid[1]])?)
}

/// What the request makes of the pixels that a block gave; it sees images.
pub(super) fn after_block(
    request: &Request<'_>,
    index: usize,
    x: Tensor,
    grid: Grid,
) -> Result<Tensor> {
    let Some(hook) = request.after_block else { return Ok(x) };
    let [b, n, c] = x.dims3("pixels")?;
    let images = super::seen_by(hook, index, images_of(&x, grid)?)?;
    Ok(images.reshape([b, c, n])?.transpose(1, 2)?)
}
