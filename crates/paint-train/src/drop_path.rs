//! Stochastic depth (Huang et al. 2016): in training a residual branch is left out for some samples.
//!
//! The rate grows from 0 at the first block to `rate` at the last; a branch that stays is scaled by one over its
//! chance to stay, so that its mean is what it is without. One small upload a step brings the factors of all blocks.

use paint_rng::Rng;
use paint_tensor::{Device, Tensor};

use crate::error::Result;

/// Factors of the branches of a batch, `[2 · depth]` lists of `B`; a branch whose rate is 0 has none.
pub(crate) fn draw(rate: f64, depth: usize, batch: usize, rng: &mut Rng) -> Vec<Option<Vec<f32>>> {
    if rate == 0.0 {
        return Vec::new();
    }
    let mut branch = |block: usize| {
        let keep = 1.0 - rate * block as f64 / (depth.max(2) - 1) as f64;
        let mut factor = || if rng.uniform() < keep { (1.0 / keep) as f32 } else { 0.0 };
        (keep < 1.0).then(|| (0..batch).map(|_| factor()).collect())
    };
    (0..2 * depth).map(|i| branch(i / 2)).collect()
}

/// The same on a device.
pub(crate) fn upload(factors: &[Option<Vec<f32>>], device: &Device) -> Result<Vec<Option<Tensor>>> {
    let all: Vec<f32> = factors.iter().flatten().flatten().copied().collect();
    let all = Tensor::from_vec(all.clone(), [all.len()], device)?;
    let mut start = 0;
    let mut slice = |len: usize| {
        start += len;
        all.slice(0, start - len, len)
    };
    let branch = |factors: &Option<Vec<f32>>| {
        factors.as_ref().map(|factors| slice(factors.len())).transpose()
    };
    Ok(factors.iter().map(branch).collect::<paint_tensor::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;

    #[test]
    fn rates_grow_with_depth_and_means_stay_one() {
        let factors = draw(0.4, 5, 4000, &mut Seed(3).derive("drop/test", &[]));
        assert_eq!(factors.len(), 10);
        assert!(factors[0].is_none() && factors[1].is_none());
        for (i, branch) in factors.iter().enumerate().skip(2) {
            let branch = branch.as_ref().unwrap();
            let dropped = branch.iter().filter(|f| **f == 0.0).count() as f64 / 4000.0;
            let mean = branch.iter().sum::<f32>() / 4000.0;
            let rate = 0.1 * (i / 2) as f64;
            assert!((dropped - rate).abs() < 0.03, "branch {i}: {dropped}");
            assert!((mean - 1.0).abs() < 0.05, "branch {i}: {mean}");
        }
        assert!(draw(0.0, 5, 8, &mut Seed(3).derive("drop/test", &[])).is_empty());
    }

    #[test]
    fn the_upload_keeps_every_factor_in_its_branch() {
        let factors = draw(0.5, 3, 7, &mut Seed(4).derive("drop/test", &[]));
        let tensors = upload(&factors, &Device::cpu()).unwrap();
        for (factors, tensor) in factors.iter().zip(&tensors) {
            assert_eq!(factors.clone(), tensor.as_ref().map(|t| t.to_vec().unwrap()));
        }
    }
}
