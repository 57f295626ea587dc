//! Mean and covariance of what the blocks of a network give, over all positions: tokens of a transformer, pixels of a
//! convolutional network.

use std::cell::RefCell;

use paint_nn::backbone::{AfterBlock, Backbone, LastBlock, Request};
use paint_tensor::Tensor;

use crate::{Result, images};

/// Images that go through the network together.
const CHUNK: usize = 50;

/// Mean `[C]` and covariance `[C, C]` (over `n - 1`) of `n` rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moments {
    pub(crate) rows: f64,
    pub(crate) mean: Vec<f64>,
    pub(crate) covariance: Vec<f64>,
}

impl Moments {
    /// Of rows `[n, C]`. One row has no covariance: zeros.
    pub(crate) fn of(rows: &Tensor) -> paint_nn::Result<Self> {
        let [n, c] = rows.dims2("rows")?;
        let mean = rows.mean(0)?;
        // Centred first: a product of rows with a large mean would lose the small differences.
        let centred = rows.sub(&mean.reshape([1, c])?)?;
        let product = centred.transpose(0, 1)?.matmul(&centred)?;
        let over = n.saturating_sub(1).max(1) as f64;
        let covariance = product.to_vec()?.into_iter().map(|x| f64::from(x) / over).collect();
        let mean = mean.to_vec()?.into_iter().map(f64::from).collect();
        Ok(Self { rows: n as f64, mean, covariance })
    }

    /// The moments of the rows of both.
    fn join(&mut self, other: &Self) {
        let c = self.mean.len();
        let (n, m) = (self.rows, other.rows);
        let shift: Vec<f64> = other.mean.iter().zip(&self.mean).map(|(a, b)| a - b).collect();
        let all = n + m;
        for (at, x) in self.covariance.iter_mut().enumerate() {
            let between = shift[at / c] * shift[at % c] * n * m / all;
            *x = ((n - 1.0) * *x + (m - 1.0) * other.covariance[at] + between) / (all - 1.0);
        }
        self.mean.iter_mut().zip(&shift).for_each(|(mean, shift)| *mean += shift * m / all);
        self.rows = all;
    }

    /// The variance of each channel.
    pub(crate) fn variances(&self) -> impl Iterator<Item = f64> {
        self.covariance.iter().step_by(self.mean.len() + 1).copied()
    }
}

/// What a block gave, one row a position: `[B, T, D]` → `[B T, D]`, `[B, C, H, W]` → `[B H W, C]`.
pub(crate) fn rows(given: &Tensor) -> paint_nn::Result<Tensor> {
    if let [b, c, h, w] = *given.shape() {
        return Ok(given.permute(&[0, 2, 3, 1])?.reshape([b * h * w, c])?);
    }
    let [b, t, d] = given.dims3("tokens")?;
    Ok(given.reshape([b * t, d])?)
}

/// The way back from [`rows`], to what `like` is shaped as.
pub(crate) fn unrowed(rows: &Tensor, like: &Tensor) -> paint_nn::Result<Tensor> {
    Ok(match *like.shape() {
        [b, c, h, w] => rows.reshape([b, h, w, c])?.permute(&[0, 3, 1, 2])?,
        _ => rows.reshape(like.shape())?,
    })
}

/// The moments after every block on `images`, `[n, 3, H, W]`.
pub(crate) fn collect(model: &dyn Backbone, images: &Tensor) -> Result<Vec<Moments>> {
    let n = images::check(images, model.spec())?;
    let found = Collector(RefCell::default());
    for first in (0..n).step_by(CHUNK) {
        let chunk = images.slice(0, first, CHUNK.min(n - first))?.detach();
        let (after_block, last_block) = (Some(&found as _), LastBlock::Whole);
        model.forward(&chunk, &Request { after_block, last_block, ..Request::default() })?;
    }
    Ok(found.0.into_inner())
}

/// One entry a block.
#[derive(Debug)]
struct Collector(RefCell<Vec<Moments>>);

impl AfterBlock for Collector {
    fn after_block(
        &self,
        index: usize,
        _prefix: usize,
        tokens: Tensor,
    ) -> paint_nn::Result<Tensor> {
        let moments = Moments::of(&rows(&tokens)?)?;
        let mut all = self.0.borrow_mut();
        match all.get_mut(index) {
            Some(before) => before.join(&moments),
            None => all.push(moments),
        }
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn tensor<const N: usize>(data: Vec<f32>, shape: [usize; N]) -> Tensor {
        Tensor::from_vec(data, shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn moments_of_parts_join_to_those_of_the_whole() {
        let data = vec![1.0, 2.0, 4.0, 3.0, -1.0, 0.5, 2.0, 2.5, 7.0, -3.0];
        let whole = Moments::of(&tensor(data.clone(), [5, 2])).unwrap();
        let mut joined = Moments::of(&tensor(data[..4].to_vec(), [2, 2])).unwrap();
        joined.join(&Moments::of(&tensor(data[4..].to_vec(), [3, 2])).unwrap());
        assert_eq!(joined.rows, 5.0);
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(near(&whole.mean, &[2.6, 1.0]), "{whole:?}");
        assert!(near(&joined.mean, &whole.mean), "{joined:?}");
        assert!(near(&joined.covariance, &whole.covariance), "{joined:?} {whole:?}");
        // Σ (x - 2.6)² / 4 of 1, 4, -1, 2, 7.
        assert!((whole.variances().next().unwrap() - 9.3).abs() < 1e-5);
    }

    #[test]
    fn rows_of_images_are_pixels_and_go_back() {
        let images = tensor((0..12).map(|x| x as f32).collect(), [1, 3, 2, 2]);
        let flat = rows(&images).unwrap();
        assert_eq!(flat.shape(), [4, 3]);
        assert_eq!(flat.to_vec().unwrap()[..3], [0.0, 4.0, 8.0]);
        let back = unrowed(&flat, &images).unwrap();
        assert_eq!(
            (back.shape(), back.to_vec().unwrap()),
            (images.shape(), images.to_vec().unwrap())
        );
    }
}
