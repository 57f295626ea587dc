//! The queries of PAINT's `keys = "standardised"`, and what they are like on clean images.
//!
//! The class token alone, which is all that the paper's queries are, hardly tells two noises or two blurs apart. The
//! `Q = 3 D` numbers of an image are therefore what the classifier reads and, for each channel, mean and log variance
//! over the patches after block 0. They are taken in clean deviations and cut at [`CLIP`]. Classes still move them
//! along few directions, far more than a domain does: with `λ_i` the variances of clean images along their `r` leading
//! directions `U` and `λ̄` the mean of the others,
//!
//! `y = x + Uᵀ ((g − 1) ∘ U x)`, `g_i = ((1 + λ̄) / (1 + λ_i))^½`,
//!
//! which whitens by the covariance shrunk halfway to the identity, scaled so that the other directions keep their
//! length.

use std::cell::RefCell;

use paint_nn::backbone::{AfterBlock, Backbone, Features, Request};
use paint_tensor::{Device, Tensor};

use super::collect::moments;
use super::{CLIP, RANK, standardised, style_of};
use crate::{Result, eigen};

/// The most images that the directions come from: their products are a matrix of that size.
const IMAGES: usize = 512;

/// What queries are like on clean images.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryStatistics {
    /// `[Q]`.
    pub(crate) mean: Vec<f32>,
    /// `[Q]`, above 0.
    pub(crate) std: Vec<f32>,
    /// `U`, `[r, Q]`.
    pub(crate) basis: Vec<f32>,
    /// `g`, `[r]`, above 0.
    pub(crate) gain: Vec<f32>,
}

impl QueryStatistics {
    /// Of at least two rows of `Q` numbers.
    pub(super) fn collect(rows: &[Vec<f32>]) -> Self {
        let (mean, var) = moments(rows);
        let std: Vec<f32> = var.iter().map(|v| v.sqrt()).collect();
        let standard = |row: &Vec<f32>| -> Vec<f64> {
            let clean = mean.iter().zip(&std);
            row.iter()
                .zip(clean)
                .map(|(x, (m, s))| f64::from(((x - m) / s).clamp(-CLIP, CLIP)))
                .collect()
        };
        let every = rows.len().div_ceil(IMAGES);
        let mut rows: Vec<Vec<f64>> = rows.iter().step_by(every).map(standard).collect();
        let (n, q) = (rows.len(), mean.len());
        let centre: Vec<f64> =
            (0..q).map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / n as f64).collect();
        rows.iter_mut().for_each(|row| row.iter_mut().zip(&centre).for_each(|(x, m)| *x -= m));
        // The products of images have the variances of the covariance, and its directions are sums of images.
        let product = |at: usize| -> f64 {
            let pair = rows[at / n].iter().zip(&rows[at % n]);
            pair.map(|(a, b)| a * b).sum::<f64>() / (n - 1) as f64
        };
        let eigen = eigen::symmetric((0..n * n).map(product).collect(), n);
        let r = RANK.min(n - 1).min(q - 1);
        let rest = eigen.values[r..].iter().sum::<f64>().max(0.0) / (q - r) as f64;
        let gain = |value: &f64| ((1.0 + rest) / (1.0 + value.max(0.0))).sqrt() as f32;
        let direction = |weights: &[f64]| -> Vec<f32> {
            let mut sum = vec![0.0; q];
            for (weight, row) in weights.iter().zip(&rows) {
                sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight * x);
            }
            let length = sum.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
            sum.iter().map(|x| (x / length) as f32).collect()
        };
        Self {
            mean,
            std,
            basis: eigen.vectors[..r * n].chunks_exact(n).flat_map(direction).collect(),
            gain: eigen.values[..r].iter().map(gain).collect(),
        }
    }
}

/// Takes the queries of images, on the device of a model.
#[derive(Debug, Clone)]
pub(crate) struct Standard {
    /// Mean and deviation of clean images, `[1, Q]`.
    clean: [Tensor; 2],
    /// `U`, `[r, Q]`.
    basis: Tensor,
    /// `g − 1`, `[1, r]`.
    excess: Tensor,
}

impl Standard {
    pub(crate) fn new(statistics: &QueryStatistics, device: &Device) -> Result<Self> {
        let QueryStatistics { mean, std, basis, gain } = statistics;
        let (q, r) = (mean.len(), gain.len());
        let row = |data: &[f32]| Tensor::from_vec(data.to_vec(), [1, data.len()], device);
        let excess: Vec<f32> = gain.iter().map(|g| g - 1.0).collect();
        Ok(Self {
            clean: [row(mean)?, row(std)?],
            basis: Tensor::from_vec(basis.clone(), [r, q], device)?,
            excess: row(&excess)?,
        })
    }

    /// `Q`.
    pub(crate) fn width(&self) -> usize {
        self.clean[0].elem_count()
    }

    /// `y`, `[B, Q]`, of images whose embedding is given.
    pub(crate) fn queries(&self, model: &dyn Backbone, embedding: &Tensor) -> Result<Tensor> {
        let style = Style::default();
        let request = Request { after_block: Some(&style), ..Request::default() };
        let features = model.forward_embedded(embedding, &request)?;
        let x = standardised(&style.queries(&features)?, &self.clean)?;
        let along = x.linear(&self.basis, None)?.mul(&self.excess)?; // [B, r]
        Ok(x.add(&along.matmul(&self.basis)?)?)
    }
}

/// Mean and log variance of the patches after block 0, `[B, 2 D]`.
#[derive(Debug, Default)]
struct Style(RefCell<Option<Tensor>>);

impl Style {
    /// What the classifier reads and the style, `[B, Q]`.
    fn queries(&self, features: &Features) -> Result<Tensor> {
        let style = self.0.borrow();
        let parts: Vec<&Tensor> = [&features.pooled].into_iter().chain(style.as_ref()).collect();
        Ok(Tensor::concat(&parts, 1)?)
    }
}

impl AfterBlock for Style {
    fn after_block(&self, index: usize, prefix: usize, tokens: Tensor) -> paint_nn::Result<Tensor> {
        let [_, t, _] = tokens.dims3("tokens")?;
        if index == 0 && t > prefix {
            *self.0.borrow_mut() = Some(style_of(&[(&tokens, prefix)])?);
        }
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;

    #[test]
    fn the_direction_that_clean_images_share_is_found_and_counts_for_less() {
        let (n, q) = (200, 6);
        let mut rng = Seed(0).derive("query", &[]);
        // Two channels move together, the others alone.
        let mut row = || -> Vec<f32> {
            let both = rng.normal() as f32;
            let own = |at: usize| if at < 2 { both } else { 0.0 };
            (0..q)
                .map(|at| 3.0 + own(at) + if at < 2 { 0.1 } else { 1.0 } * rng.normal() as f32)
                .collect()
        };
        let rows: Vec<Vec<f32>> = (0..n).map(|_| row()).collect();
        let found = QueryStatistics::collect(&rows);
        assert_eq!((found.basis.len(), found.gain.len()), (5 * q, 5));
        let first = &found.basis[..q];
        let half = std::f32::consts::FRAC_1_SQRT_2;
        assert!(first[..2].iter().all(|u| (u.abs() - half).abs() < 0.05), "{first:?}");
        assert!(first[2..].iter().all(|u| u.abs() < 0.2), "{first:?}");
        // λ = 2 along it, 0 across it, and about 1 elsewhere.
        let g = found.gain[0];
        assert!((g - (1.0_f32 / 3.0).sqrt()).abs() < 0.05, "{g}");
        assert!(found.gain.windows(2).all(|pair| pair[0] <= pair[1]));
        let length: f32 = first.iter().map(|u| u * u).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }

    #[test]
    fn equal_images_leave_everything_as_it_is() {
        let found = QueryStatistics::collect(&vec![vec![1.0, 2.0, 3.0]; 3]);
        assert!(found.basis.iter().chain(&found.gain).all(|x| x.is_finite()), "{found:?}");
        assert!(found.gain.iter().all(|g| (g - 1.0).abs() < 1e-6), "{found:?}");
    }
}
