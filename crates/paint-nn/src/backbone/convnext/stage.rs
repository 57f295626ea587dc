//! The layers of a stage. `[B, N, C]`: pixels row by row, channels last.

use paint_tensor::{Mlp, Tensor};

use crate::backbone::pixels::{Grid, Patches};
use crate::backbone::residual::Assembly;
use crate::error::Result;
use crate::layers::{LayerNorm, Linear};
use crate::params::{ParamId, Params, Part, Role, Slot};

/// The side of the kernels of a block.
const SIDE: usize = 7;

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
