//! The sizes of a Swin Transformer, read off its arrays.

use paint_files::Fault;
use serde::Serialize;

use super::{expect, shape};
use crate::checkpoint::Checkpoint;

/// The sizes of a Swin Transformer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwinSizes {
    /// Channels of the first stage; each further one has twice as many.
    pub embed_dim: usize,
    /// Blocks of each stage.
    pub depths: Vec<usize>,
    /// Heads of each stage.
    pub num_heads: Vec<usize>,
    /// The side of the windows of the first stage.
    pub window_size: usize,
    /// Number of classes; none without a head.
    pub num_classes: Option<usize>,
}

/// The table of relative positions of a stage's first block.
pub(super) fn table(stage: usize) -> String {
    format!("layers.{stage}.blocks.0.attn.relative_position_bias_table")
}

pub(super) fn sizes(checkpoint: &Checkpoint) -> Result<SwinSizes, Fault> {
    let [embed_dim, ..]: [usize; 4] =
        shape(checkpoint, "patch_embed.proj.weight", "[C, channels, patch, patch]")?;
    let norm = |stage: usize, block: usize| format!("layers.{stage}.blocks.{block}.norm1.weight");
    let count = |name: &dyn Fn(usize) -> String| {
        (0..checkpoint.len()).take_while(|at| checkpoint.get(&name(*at)).is_some()).count()
    };
    let (mut depths, mut num_heads) = (Vec::new(), Vec::new());
    for stage in 0..count(&table) {
        let [_, heads]: [usize; 2] = shape(checkpoint, &table(stage), "[positions, heads]")?;
        let [width]: [usize; 1] = shape(checkpoint, &norm(stage, 0), "[C]")?;
        let doubled = u32::try_from(stage).ok().and_then(|stage| 2_usize.checked_pow(stage));
        let expected = doubled.and_then(|times| embed_dim.checked_mul(times)).unwrap_or(usize::MAX);
        expect(&norm(stage, 0), "width", expected, width)?;
        depths.push(count(&|block| norm(stage, block)));
        num_heads.push(heads);
    }
    let [positions, _]: [usize; 2] = shape(checkpoint, &table(0), "[positions, heads]")?;
    let side = positions.isqrt();
    if side * side != positions || side.is_multiple_of(2) {
        let expected = "the square of an odd number, for windows as high as wide";
        return Err(Fault::invalid("relative positions", expected, positions).in_array(&table(0)));
    }
    let head = checkpoint.get("head.fc.weight").is_some();
    let classes = || shape(checkpoint, "head.fc.weight", "[classes, C]");
    let num_classes = head.then(classes).transpose()?.map(|[classes, _]: [usize; 2]| classes);
    Ok(SwinSizes { embed_dim, depths, num_heads, window_size: side.div_ceil(2), num_classes })
}
