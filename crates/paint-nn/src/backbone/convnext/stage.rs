//! The layers of a stage. `[B, N, C]`: pixels row by row, channels last.

use paint_tensor::{Mlp, Tensor};

use crate::backbone::residual::Assembly;
use crate::error::Result;
use crate::layers::{LayerNorm, Linear};
use crate::params::{ParamId, Params, Part, Role, Slot};

/// The side of the kernels of a block.
const SIDE: usize = 7;

/// Rows and columns of pixels.
pub(super) type Grid = [usize; 2];

/// A convolution by kernels as large as its stride: a product over patches.
#[derive(Debug, Clone, Copy)]
pub(in crate::backbone) struct Patches {
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
    fn of_pixels(&self, params: &Params, x: &Tensor, grid: Grid) -> Result<(Tensor, Grid)> {
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

/// What comes before every stage but the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Downsample {
    pub(super) norm: LayerNorm,
    pub(super) patches: Patches,
}

impl Downsample {
    pub(super) fn forward(
        &self,
        params: &Params,
        x: &Tensor,
        grid: Grid,
    ) -> Result<(Tensor, Grid)> {
        self.patches.of_pixels(params, &self.norm.forward(params, x)?, grid)
    }
}

/// A stage.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) downsample: Option<Downsample>,
    pub(super) blocks: Vec<Block>,
}

/// `x + γ MLP(norm(conv(x)))`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    gamma: ParamId,
    /// `[C, 1, 7, 7]`.
    conv: ParamId,
    conv_bias: ParamId,
    norm: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

impl Block {
    /// Block `index` of width `c`; `name` gives the names of its layers.
    pub(super) fn declare(
        assembly: &mut Assembly,
        index: usize,
        c: usize,
        name: impl Fn(&str) -> String,
    ) -> Result<Self> {
        let role = |part| move |slot| Role::Block { index, part, slot };
        let conv = |slot| role(Part::Conv1)(slot);
        let (kernels, scale) = ([c, 1, SIDE, SIDE], role(Part::Scale2)(Slot::Weight));
        Ok(Self {
            // As the paper begins training: every block is all but the identity.
            gamma: assembly.param(name("gamma"), scale, &[c], |_| 1e-6)?,
            conv: assembly
                .param(name("conv_dw.weight"), conv(Slot::Weight), &kernels, |z| 0.02 * z)?,
            conv_bias: assembly.param(name("conv_dw.bias"), conv(Slot::Bias), &[c], |_| 0.0)?,
            norm: assembly.layer_norm(&name("norm"), role(Part::Norm1), c, super::EPS)?,
            fc1: assembly.linear(&name("mlp.fc1"), role(Part::Fc1), [4 * c, c])?,
            fc2: assembly.linear(&name("mlp.fc2"), role(Part::Fc2), [c, 4 * c])?,
        })
    }

    pub(super) fn forward(&self, params: &Params, x: &Tensor, grid: Grid) -> Result<Tensor> {
        let [b, n, c] = x.dims3("pixels")?;
        let kernels = params[self.conv].reshape([c, SIDE * SIDE])?.transpose(0, 1)?;
        let y = x
            .reshape([b, grid[0], grid[1], c])?
            .depthwise(&kernels.reshape([SIDE, SIDE, c])?)?
            .add(&params[self.conv_bias])?
            .reshape([b, n, c])?
            .compact()?;
        let mlp = Mlp { fc1: self.fc1.values(params), fc2: self.fc2.values(params) };
        let y = self.norm.forward(params, &y)?.mlp(mlp, None)?;
        Ok(x.add(&y.mul(&params[self.gamma])?)?)
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

    /// `name.weight` `[outputs, inputs]` and `name.bias`.
    fn linear(
        &mut self,
        name: &str,
        role: impl Fn(Slot) -> Role,
        shape: [usize; 2],
    ) -> Result<Linear> {
        let weight =
            self.param(format!("{name}.weight"), role(Slot::Weight), &shape, |z| 0.02 * z)?;
        let bias = self.param(format!("{name}.bias"), role(Slot::Bias), &shape[..1], |_| 0.0)?;
        Ok(Linear::at(weight, bias))
    }

    /// `name.weight` and `name.bias` of a norm over the last axis.
    pub(super) fn layer_norm(
        &mut self,
        name: &str,
        role: impl Fn(Slot) -> Role,
        channels: usize,
        eps: f32,
    ) -> Result<LayerNorm> {
        let shape = [channels];
        let weight = self.param(format!("{name}.weight"), role(Slot::Weight), &shape, |_| 1.0)?;
        let bias = self.param(format!("{name}.bias"), role(Slot::Bias), &shape, |_| 0.0)?;
        Ok(LayerNorm::at(weight, bias, eps))
    }
}
