//! Statistics from images.

use std::cell::RefCell;

use paint_nn::backbone::{AfterBlock, Backbone, Request};
use paint_nn::params::Trainable;
use paint_tensor::Tensor;

use super::query::QueryStatistics;
use super::{BlockStatistics, PatchStatistics, RANK, SourceStatistics, rows_of, style_of};
use crate::{Error, Result, eigen, images};

/// Images that go through the network together.
const CHUNK: usize = 50;
/// What a variance is at least, so that nothing is divided by zero.
const FLOOR: f64 = 1e-8;

impl SourceStatistics {
    /// Statistics of `images`, `[n_s, 3, H, W]` in [0, 1], clean and unlabelled: a few hundred, 32 at the least.
    pub fn collect(model: &dyn Backbone, images: &Tensor) -> Result<Self> {
        let n = images::check(images, model.spec())?;
        if model.vit_config().is_none() || n < 2 {
            let expected = "a vision transformer and at least two images".to_owned();
            return Err(Error::Statistics {
                expected,
                found: format!("{} and {n}", model.spec().name),
            });
        }
        let (d, depth) = (model.spec().feature_dim, model.spec().depth);
        let sums = RefCell::new(Sums {
            d,
            keys: Vec::new(),
            pooled: Vec::new(),
            blocks: vec![Block::default(); depth],
        });
        for first in (0..n).step_by(CHUNK) {
            let embedding = model.embed(&images.slice(0, first, CHUNK.min(n - first))?.detach())?;
            sums.borrow_mut().keys.extend(rows_of(&style_of(&[(&embedding, 0)])?)?);
            let hook = Collector { first, sums: &sums };
            let request = Request { after_block: Some(&hook), ..Request::default() };
            let pooled = model.forward_embedded(&embedding, &request)?.pooled.to_vec()?;
            sums.borrow_mut().pooled.extend(pooled.chunks(d).map(<[f32]>::to_vec));
        }
        let sums = sums.into_inner();
        let (key_mean, key_var) = moments(&sums.keys);
        // What the classifier reads, then the part of the key that is of block 0.
        let query = |(pooled, key): (&Vec<f32>, &Vec<f32>)| [pooled, &key[2 * d..]].concat();
        let queries: Vec<Vec<f32>> = sums.pooled.iter().zip(&sums.keys).map(query).collect();
        let roots = |var: &[f32]| var.iter().map(|v| v.sqrt()).collect();
        Ok(Self {
            images: n,
            width: d,
            weights: model.params().fingerprint(&Trainable::All)?,
            key_mean,
            key_std: roots(&key_var),
            query: QueryStatistics::collect(&queries),
            blocks: sums.blocks.iter().map(|block| block.finish(d)).collect(),
        })
    }
}

#[derive(Debug)]
struct Sums {
    d: usize,
    /// One row an image: of the embedding, then of block 0.
    keys: Vec<Vec<f32>>,
    /// One row an image.
    pooled: Vec<Vec<f32>>,
    blocks: Vec<Block>,
}

#[derive(Debug, Clone, Default)]
struct Block {
    /// One row an image.
    cls: Vec<Vec<f32>>,
    /// The mean of an image's patches, one row an image.
    patches: Vec<Vec<f32>>,
    /// Sum over images of the mean over patches of `x xᵀ`, `[D, D]`.
    square: Vec<f64>,
}

#[derive(Debug)]
struct Collector<'a> {
    /// The first image of the chunk.
    first: usize,
    sums: &'a RefCell<Sums>,
}

impl AfterBlock for Collector<'_> {
    fn after_block(&self, index: usize, prefix: usize, tokens: Tensor) -> paint_nn::Result<Tensor> {
        let [b, t, d] = tokens.dims3("tokens")?;
        let sums = &mut *self.sums.borrow_mut();
        let rows = |tensor: Tensor| {
            Ok::<_, paint_nn::Error>(
                tensor.to_vec()?.chunks(d).map(<[f32]>::to_vec).collect::<Vec<_>>(),
            )
        };
        // Where there is no class token, the mean of the patches stands in for it.
        let cls = if prefix > 0 { tokens.slice(1, 0, 1)? } else { tokens.mean(1)? };
        sums.blocks[index].cls.extend(rows(cls)?);
        if t > prefix {
            let count = t - prefix;
            let patches = tokens.slice(1, prefix, count)?;
            if index == 0 {
                let keys = rows_of(&style_of(&[(&tokens, prefix)])?)?;
                sums.keys[self.first..]
                    .iter_mut()
                    .zip(keys)
                    .for_each(|(key, more)| key.extend(more));
            }
            sums.blocks[index].patches.extend(rows(patches.mean(1)?)?);
            let flat = patches.reshape([b * count, d])?;
            let square = flat.detach().gram()?.to_vec()?;
            let sum = &mut sums.blocks[index].square;
            sum.resize(sums.d * sums.d, 0.0);
            sum.iter_mut().zip(square).for_each(|(sum, x)| *sum += f64::from(x) / count as f64);
        }
        Ok(tokens)
    }
}

impl Block {
    fn finish(&self, d: usize) -> BlockStatistics {
        let (cls_mean, cls_var) = moments(&self.cls);
        let patch = (!self.patches.is_empty()).then(|| {
            let (mean, between) = moments(&self.patches);
            let n = self.patches.len() as f64;
            let product = |at: usize| f64::from(mean[at / d]) * f64::from(mean[at % d]);
            let covariance: Vec<f64> =
                self.square.iter().enumerate().map(|(at, x)| x / n - product(at)).collect();
            let var = covariance.iter().step_by(d + 1).map(|v| v.max(FLOOR) as f32).collect();
            let eigen = eigen::symmetric(covariance, d);
            let r = RANK.min(d);
            PatchStatistics {
                mean,
                between,
                var,
                basis: eigen.vectors[..r * d].iter().map(|&x| x as f32).collect(),
                scale: eigen.values[..r].iter().map(|v| v.max(FLOOR).sqrt() as f32).collect(),
            }
        });
        BlockStatistics { cls_mean, cls_var, patch }
    }
}

/// Mean and unbiased variance of rows.
pub(super) fn moments(rows: &[Vec<f32>]) -> (Vec<f32>, Vec<f32>) {
    let n = rows.len() as f64;
    let column = |at: usize| rows.iter().map(move |row| f64::from(row[at]));
    let width = rows.first().map_or(0, Vec::len);
    let mean: Vec<f64> = (0..width).map(|at| column(at).sum::<f64>() / n).collect();
    let var = |at: usize| column(at).map(|x| (x - mean[at]).powi(2)).sum::<f64>() / (n - 1.0);
    let var = (0..width).map(|at| var(at).max(FLOOR) as f32).collect();
    (mean.iter().map(|&x| x as f32).collect(), var)
}
