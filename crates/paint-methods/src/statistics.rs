//! What a transformer's tokens are like on clean images: the reference of the methods that align to it.
//!
//! Letters: `D` width, `r` the rank of the kept covariance, `n_s` images. For every block, over clean images: the
//! mean and variance of the class token; of the patches mean `μ_s` and variance, the variance `C` between images of
//! an image's mean, and the `r` leading eigenvectors `U` (rows) and deviations `λ^½` of the covariance. For the key
//! of a domain (see [`style_of`]) mean and deviation between images, and the same for PAINT's queries (`query.rs`).

pub(crate) mod activations;
mod collect;
mod file;
mod query;

use std::path::Path;

use paint_nn::backbone::Backbone;
use paint_nn::params::Trainable;
use paint_tensor::Tensor;

use crate::{Error, Result};
use query::QueryStatistics;
pub(crate) use query::Standard;

/// `r`, where the width is not smaller: what remains of the covariance changed no result on held-out corruptions.
const RANK: usize = 64;

/// The most standard deviations that a channel of a key or of a query counts: a few flat images reach far more.
pub(crate) const CLIP: f32 = 4.0;

/// Statistics of a transformer's tokens on clean images, for one set of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceStatistics {
    /// `n_s`.
    pub(crate) images: usize,
    /// `D`.
    pub(crate) width: usize,
    /// The weights they were made with: [`Params::fingerprint`](paint_nn::params::Params::fingerprint).
    pub(crate) weights: u64,
    /// `[4 D]`.
    pub(crate) key_mean: Vec<f32>,
    /// `[4 D]`, above 0.
    pub(crate) key_std: Vec<f32>,
    /// Of the queries by which PAINT tells domains apart.
    pub(crate) query: QueryStatistics,
    /// One entry a block.
    pub(crate) blocks: Vec<BlockStatistics>,
}

/// Where statistics come from; nothing is read before a method asks for them.
#[derive(Debug, Clone, Copy)]
pub enum StatisticsFrom<'a> {
    /// A file that [`SourceStatistics::save`] wrote.
    File(&'a Path),
    /// The content of such a file.
    Bytes(&'a [u8]),
}

impl StatisticsFrom<'_> {
    pub(crate) fn read(self) -> Result<SourceStatistics> {
        match self {
            Self::File(path) => SourceStatistics::open(path),
            Self::Bytes(bytes) => SourceStatistics::decode(bytes, Path::new("embedded statistics")),
        }
    }
}

/// The statistics after one block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockStatistics {
    /// `[D]`, the class token's mean.
    pub(crate) cls_mean: Vec<f32>,
    /// `[D]`, its variance, above 0.
    pub(crate) cls_var: Vec<f32>,
    /// None after the last block, which gives no patches.
    pub(crate) patch: Option<PatchStatistics>,
}

/// The statistics of the patches after one block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PatchStatistics {
    /// `μ_s`, `[D]`.
    pub(crate) mean: Vec<f32>,
    /// `C`, `[D]`, above 0.
    pub(crate) between: Vec<f32>,
    /// Their variance, `[D]`, above 0.
    pub(crate) var: Vec<f32>,
    /// `U`, `[r, D]`.
    pub(crate) basis: Vec<f32>,
    /// `λ^½`, `[r]`, above 0.
    pub(crate) scale: Vec<f32>,
}

impl PatchStatistics {
    /// `r`.
    pub(crate) fn rank(&self) -> usize {
        self.scale.len()
    }

    /// `U x`, `[D]` → `[r]`.
    pub(crate) fn project(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.basis.chunks_exact(x.len());
        rows.map(|row| row.iter().zip(x).map(|(u, x)| f64::from(*u) * x).sum()).collect()
    }
}

impl SourceStatistics {
    /// How many images they were made from.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Refuses another network, and other weights than those the statistics were made with.
    pub(crate) fn check(&self, model: &dyn Backbone) -> Result<()> {
        let spec = model.spec();
        let refuse = |expected: String, found: String| Err(Error::Statistics { expected, found });
        if [self.blocks.len(), self.width] != [spec.depth, spec.feature_dim] {
            return refuse(
                format!(
                    "{} blocks of width {}, as {} has",
                    spec.depth, spec.feature_dim, spec.name
                ),
                format!("{} of width {}", self.blocks.len(), self.width),
            );
        }
        let weights = model.params().fingerprint(&Trainable::All)?;
        if weights != self.weights {
            return refuse(
                format!("those of the weights in use ({weights:016x}); `paint stats` makes them"),
                format!("those of other weights ({:016x})", self.weights),
            );
        }
        Ok(())
    }
}

/// What tells domains apart: for each image the mean and the log variance of every channel over its tokens, of one
/// `[B, N, D]` after the other: `[B, 2 D]` for each. With each, the number of the first token that counts.
pub(crate) fn style_of(tokens: &[(&Tensor, usize)]) -> paint_nn::Result<Tensor> {
    let mut parts = Vec::with_capacity(2 * tokens.len());
    for (tokens, first) in tokens {
        let [mean, variance] = tokens.token_moments(*first)?;
        parts.extend([mean, variance.add_scalar(1e-8)?.log()?]);
    }
    Ok(Tensor::concat(&parts.iter().collect::<Vec<_>>(), 1)?)
}

/// `[B, W]` in clean deviations, for mean and deviation `[1, W]` of clean images, and cut at ± [`CLIP`].
pub(crate) fn standardised(x: &Tensor, [mean, std]: &[Tensor; 2]) -> paint_nn::Result<Tensor> {
    let x = x.sub(mean)?.div(std)?;
    // CLIP − relu(2 CLIP − relu(x + CLIP)).
    let above = x.add_scalar(CLIP)?.relu()?.neg()?.add_scalar(2.0 * CLIP)?.relu()?;
    Ok(above.neg()?.add_scalar(CLIP)?)
}

/// `[B, W]` on the host, one row an image.
pub(crate) fn rows_of(x: &Tensor) -> paint_nn::Result<Vec<Vec<f32>>> {
    let [_, width] = x.dims2("rows")?;
    Ok(x.to_vec()?.chunks_exact(width).map(<[f32]>::to_vec).collect())
}
