//! The layers of a stage. `[B, N, C]`: pixels row by row, channels last.

use paint_tensor::{Mlp, Tensor};

use super::grid::{self, pad};
use crate::backbone::branches::{Branches, add_branch};
use crate::backbone::pixels::Grid;
use crate::backbone::residual::Assembly;
use crate::error::Result;
use crate::layers::{LayerNorm, Linear};
use crate::params::{ParamId, Params, Part, Role, Slot};

/// What comes before every stage but the first: four neighbours become one pixel of twice the width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Merging {
    norm: LayerNorm,
    /// `[2C, 4C]`.
    reduction: ParamId,
}

impl Merging {
    /// The merging before block `index`, from width `c`.
    pub(super) fn declare(
        assembly: &mut Assembly,
        (index, c): (usize, usize),
        name: &str,
    ) -> Result<Self> {
        let role = |part| move |slot| Role::Block { index, part, slot };
        let norm = role(Part::DownsampleNorm);
        let reduction = role(Part::DownsampleConv)(Slot::Weight);
        Ok(Self {
            norm: assembly.layer_norm(&format!("{name}.norm"), norm, 4 * c, super::EPS)?,
            reduction: assembly.param(
                format!("{name}.reduction.weight"),
                reduction,
                &[2 * c, 4 * c],
                |z| 0.02 * z,
            )?,
        })
    }

    /// `[B, H·W, C]` → `[B, ⌈H/2⌉·⌈W/2⌉, 2C]`; a side of odd length is padded with zeros.
    pub(super) fn forward(&self, params: &Params, x: &Tensor, grid: Grid) -> Result<Tensor> {
        let even = grid.map(|side| side.next_multiple_of(2));
        let x = if even == grid { x.clone() } else { pad(x, grid, even)? };
        let ([b, _, c], [rows, columns]) = (x.dims3("pixels")?, even.map(|side| side / 2));
        // The lower neighbour comes before the right one.
        let x = x.reshape([b, rows, 2, columns, 2, c])?.permute(&[0, 1, 3, 4, 2, 5])?.reshape([
            b,
            rows * columns,
            4 * c,
        ])?;
        Ok(self.norm.forward(params, &x)?.linear(&params[self.reduction], None)?)
    }
}

/// `x + proj(attention(norm1(x)))`, then `x + MLP(norm2(x))`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    num_heads: usize,
    norm1: LayerNorm,
    /// `[(2 wh - 1)(2 ww - 1), h]`.
    table: ParamId,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

/// The sizes of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockSizes {
    /// Its number in the whole network.
    pub(super) index: usize,
    /// `C`.
    pub(super) width: usize,
    pub(super) num_heads: usize,
    /// Rows of the table.
    pub(super) positions: usize,
    pub(super) eps: f32,
}

impl Block {
    /// The block of these sizes; `name` gives the names of its layers.
    pub(super) fn declare(
        assembly: &mut Assembly,
        sizes: BlockSizes,
        name: impl Fn(&str) -> String,
    ) -> Result<Self> {
        let BlockSizes { index, width: c, num_heads, positions, eps } = sizes;
        let role = |part| move |slot| Role::Block { index, part, slot };
        let table = role(Part::RelativePositions)(Slot::Weight);
        Ok(Self {
            num_heads,
            norm1: assembly.layer_norm(&name("norm1"), role(Part::Norm1), c, eps)?,
            table: assembly.param(
                name("attn.relative_position_bias_table"),
                table,
                &[positions, num_heads],
                |z| 0.02 * z,
            )?,
            qkv: assembly.linear(&name("attn.qkv"), role(Part::Qkv), [3 * c, c])?,
            proj: assembly.linear(&name("attn.proj"), role(Part::Proj), [c, c])?,
            norm2: assembly.layer_norm(&name("norm2"), role(Part::Norm2), c, eps)?,
            fc1: assembly.linear(&name("mlp.fc1"), role(Part::Fc1), [4 * c, c])?,
            fc2: assembly.linear(&name("mlp.fc2"), role(Part::Fc2), [c, 4 * c])?,
        })
    }

    /// Block `within` of its stage, `[B, N, C]` → `[B, N, C]`.
    pub(super) fn forward(
        &self,
        params: &Params,
        x: &Tensor,
        (stage, within): (&grid::Stage, usize),
        branches: Branches<'_>,
    ) -> Result<Tensor> {
        let normed = stage.padded(&self.norm1.forward(params, x)?)?;
        let qkv = self.qkv.forward(params, &normed)?;
        let bias = self.bias(params, stage)?;
        let attended = qkv.window_attention(self.num_heads, &bias, stage.windows(within))?;
        let attended = stage.cropped(&attended)?;
        let x = match branches.attention {
            None => self.proj.forward_residual(params, &attended, x)?,
            factors => add_branch(x, self.proj.forward(params, &attended)?, None, factors)?,
        };
        let normed = self.norm2.forward(params, &x)?;
        let mlp = Mlp { fc1: self.fc1.values(params), fc2: self.fc2.values(params) };
        match branches.mlp {
            None => Ok(normed.mlp(mlp, Some(&x))?),
            factors => add_branch(&x, normed.mlp(mlp, None)?, None, factors),
        }
    }

    /// The bias of each two pixels of a window, `[h, n, n]`.
    fn bias(&self, params: &Params, stage: &grid::Stage) -> Result<Tensor> {
        let bias = params[self.table].gather(&stage.relative)?; // [n n, h]
        Ok(bias.transpose(0, 1)?.reshape([self.num_heads, stage.len, stage.len])?)
    }
}
