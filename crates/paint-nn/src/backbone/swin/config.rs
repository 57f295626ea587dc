//! The sizes of a Swin Transformer, and which images they fit.

use super::grid::{relative_positions, window_of};
use crate::backbone::pixels::Grid;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};

/// The side of a patch.
pub(super) const PATCH: usize = 4;
/// Larger than any that was published; it bounds the scores of a window.
const LARGEST_WINDOW: usize = 32;
/// Each stage doubles the width.
const MOST_STAGES: usize = 8;

/// Sizes of a Swin Transformer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwinConfig {
    /// Channels of the first stage; each further one has twice as many.
    pub embed_dim: usize,
    /// Blocks of each stage.
    pub depths: Vec<usize>,
    /// Heads of each stage.
    pub num_heads: Vec<usize>,
    /// The side of a window.
    pub window_size: usize,
    /// The number of classes unless a checkpoint brings its own.
    pub num_classes: usize,
}

impl SwinConfig {
    /// Swin-T.
    pub fn tiny() -> Self {
        Self {
            embed_dim: 96,
            depths: vec![2, 2, 6, 2],
            num_heads: vec![3, 6, 12, 24],
            window_size: 7,
            num_classes: 1000,
        }
    }

    /// Swin-S.
    pub fn small() -> Self {
        Self { depths: vec![2, 2, 18, 2], ..Self::tiny() }
    }

    /// Swin-B.
    pub fn base() -> Self {
        Self { embed_dim: 128, num_heads: vec![4, 8, 16, 32], ..Self::small() }
    }

    /// Channels of a stage.
    pub(super) fn width(&self, stage: usize) -> usize {
        self.embed_dim << stage
    }

    /// Refuses sizes that no network can have.
    pub(super) fn check(&self) -> Result<()> {
        let stages = self.depths.len();
        if !(1..=MOST_STAGES).contains(&stages) || self.depths.contains(&0) {
            let expected = format!("1 to {MOST_STAGES} stages of at least one block");
            return Err(refused("depths of a Swin", expected, format!("{:?}", self.depths)));
        }
        if self.embed_dim == 0 || self.embed_dim > 1 << 16 {
            return Err(refused("embed_dim of a Swin", "1 to 65536", self.embed_dim.to_string()));
        }
        let divides = |(stage, heads): (usize, &usize)| {
            *heads > 0 && self.width(stage).is_multiple_of(*heads)
        };
        if self.num_heads.len() != stages || !self.num_heads.iter().enumerate().all(divides) {
            let expected = format!(
                "one number for each of {stages} stages, a divisor of its width {} · 2^stage",
                self.embed_dim
            );
            return Err(refused("num_heads of a Swin", expected, format!("{:?}", self.num_heads)));
        }
        if !(1..=LARGEST_WINDOW).contains(&self.window_size) {
            let expected = format!("1 to {LARGEST_WINDOW}");
            return Err(refused("window_size of a Swin", expected, self.window_size.to_string()));
        }
        Ok(())
    }

    /// The grid of each stage as timm counts it: half of the one before, what is left over not counted.
    pub(super) fn grids(&self, image_size: Grid) -> Result<Vec<Grid>> {
        let grid = image_size.map(|side| side / PATCH);
        let stages = self.depths.len();
        let grids: Vec<Grid> = (0..stages).map(|stage| grid.map(|side| side >> stage)).collect();
        if grids.iter().flatten().any(|side| *side == 0) {
            let least = PATCH << (stages - 1);
            let expected = format!("at least {least}x{least} for {stages} stages");
            return Err(refused("the image size of a Swin", expected, by(image_size)));
        }
        Ok(grids)
    }

    /// Refuses weights whose relative positions are those of other windows than images of this size have.
    pub(super) fn check_windows(
        &self,
        weights: &Checkpoint,
        grids: &[Grid],
        image_size: Grid,
    ) -> Result<()> {
        for (stage, &grid) in grids.iter().enumerate() {
            let name = format!("layers.{stage}.blocks.0.attn.relative_position_bias_table");
            let Some(&found) = weights.get(&name).and_then(|array| array.shape.first()) else {
                continue;
            };
            let window = window_of(grid, self.window_size);
            let needed = relative_positions(window);
            if found != needed {
                let expected = format!(
                    "one that leaves the windows of the weights: {} has {found} relative positions, and images of {} \
                     have windows of {} with {needed} in that stage; tables are not resampled",
                    name,
                    by(image_size),
                    by(window)
                );
                return Err(refused("the image size of a Swin", expected, by(image_size)));
            }
        }
        Ok(())
    }
}

pub(super) fn refused(
    what: &'static str,
    expected: impl Into<String>,
    got: impl Into<String>,
) -> Error {
    Error::Argument { what, expected: expected.into(), got: got.into() }
}

fn by([height, width]: Grid) -> String {
    format!("{height}x{width}")
}
