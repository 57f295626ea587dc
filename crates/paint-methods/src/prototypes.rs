//! Class prototypes: the mean feature of the source's images per class, as in RMT and SANTA.
//!
//! Letters: `D` width of a feature, `K` classes with at least one image.

use paint_tensor::Tensor;

use crate::Result;
use crate::learner::Learner;
use crate::source_data::Labelled;

/// The mean features of the classes.
#[derive(Debug, Clone)]
pub(crate) struct Prototypes {
    /// `[K, D]`.
    means: Tensor,
    /// The same at length 1, `[D, K]`.
    directions: Tensor,
}

impl Prototypes {
    /// From at most `most` source images in batches of `batch`. A class without an image has no prototype.
    pub(crate) fn estimate(
        learner: &Learner,
        source: &Labelled,
        most: usize,
        batch: usize,
    ) -> Result<Self> {
        let mut counts: Vec<usize> = Vec::new();
        let mut sums: Option<Tensor> = None; // [C, D]
        let rows: Vec<usize> = (0..source.len().min(most)).collect();
        for rows in rows.chunks(batch) {
            let (images, labels) = source.rows(rows)?;
            let features = learner.forward(learner.source(), &images)?;
            let ([b, c], device) = (features.logits.dims2("logits")?, images.device());
            counts.resize(c, 0);
            let mut member = vec![0.0; c * b];
            for (i, &label) in labels.iter().enumerate() {
                counts[label] += 1;
                member[label * b + i] = 1.0;
            }
            let sum = Tensor::from_vec(member, [c, b], device)?.matmul(&features.pooled)?;
            sums = Some(match sums {
                Some(sums) => sums.add(&sum)?,
                None => sum,
            });
        }
        let sums = sums.expect("source data have at least one image: they are checked");
        let seen: Vec<usize> = (0..counts.len()).filter(|&class| counts[class] > 0).collect();
        let shares = seen.iter().map(|&class| 1.0 / counts[class] as f32).collect();
        let shares = Tensor::from_vec(shares, [seen.len(), 1], sums.device())?;
        Self::new(sums.gather(&seen)?.mul(&shares)?)
    }

    fn new(means: Tensor) -> Result<Self> {
        let directions = means.l2_normalize()?.transpose(0, 1)?;
        Ok(Self { means, directions })
    }

    /// The prototype with the largest cosine for each feature, without gradients.  `[B, D]` → `[B, D]`
    pub(crate) fn nearest(&self, features: &Tensor) -> Result<Tensor> {
        let cosines = features.detach().l2_normalize()?.matmul(&self.directions)?;
        Ok(self.means.gather(&cosines.argmax()?)?)
    }
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    #[test]
    fn the_nearest_prototype_is_that_of_the_smallest_angle_not_of_the_smallest_distance() {
        let tensor =
            |values: &[f32], shape| Tensor::from_vec(values.to_vec(), shape, &Device::cpu());
        let prototypes = Prototypes::new(tensor(&[100.0, 0.0, 1.0, 1.0], [2, 2]).unwrap()).unwrap();
        let features = tensor(&[0.9, 0.1, 0.2, 0.9], [2, 2]).unwrap();
        let nearest = prototypes.nearest(&features).unwrap().to_vec().unwrap();
        assert_eq!(nearest, [100.0, 0.0, 1.0, 1.0]);
    }
}
