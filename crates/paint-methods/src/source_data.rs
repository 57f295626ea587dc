//! Source images, for the methods that use them before they are deployed.

use std::sync::Arc;

use paint_nn::backbone::Spec;
use paint_tensor::Tensor;

use crate::draws::OrderDraws;
use crate::{Error, Result, images};

/// Images of the source domain, given once, when a method is built.
#[derive(Debug, Clone, Copy)]
pub struct SourceData<'a> {
    /// `[M, 3, H, W]` in [0, 1], in the order of their use, on the device of the model.
    pub images: &'a Tensor,
    /// `M` labels as columns of the logits, for the methods that need them.
    pub labels: Option<&'a [usize]>,
}

impl<'a> SourceData<'a> {
    /// The images, if their size and range are valid.
    pub(crate) fn images(&self, spec: &Spec) -> Result<&'a Tensor> {
        images::check(self.images, spec)?;
        Ok(self.images)
    }

    /// The images with labels of `c` classes; none if there are no labels.
    pub(crate) fn labelled(&self, spec: &Spec, c: usize) -> Result<Option<Labelled>> {
        let Some(labels) = self.labels else { return Ok(None) };
        let images = self.images(spec)?.detach();
        let refuse = |expected, found| Err(Error::SourceLabels { expected, found });
        if labels.len() != images.shape()[0] {
            let expected = format!("{}, one for each image", images.shape()[0]);
            return refuse(expected, labels.len().to_string());
        }
        if let Some(label) = labels.iter().find(|&&label| label >= c) {
            return refuse(format!("classes 0 to {}", c.saturating_sub(1)), label.to_string());
        }
        Ok(Some(Labelled { images, labels: labels.into() }))
    }
}

/// Source images with their labels.
#[derive(Debug, Clone)]
pub(crate) struct Labelled {
    /// `[M, 3, H, W]`.
    images: Tensor,
    labels: Arc<[usize]>,
}

impl Labelled {
    /// `M`.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Some of the images with their labels.
    pub(crate) fn rows(&self, rows: &[usize]) -> Result<(Tensor, Vec<usize>)> {
        Ok((self.images.gather(rows)?, rows.iter().map(|&row| self.labels[row]).collect()))
    }

    /// Batch `number`, of size `batch`, of an endless stream: epochs over all images, each in an order of its own. The
    /// last batch of an epoch may be shorter.
    pub(crate) fn shuffled(
        &self,
        draws: &dyn OrderDraws,
        number: u64,
        batch: usize,
    ) -> Result<(Tensor, Vec<usize>)> {
        let (m, batches) = (self.len(), self.len().div_ceil(batch) as u64);
        let order = draws.order(number / batches, m);
        let start = (number % batches) as usize * batch;
        self.rows(&order[start..(start + batch).min(m)])
    }
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;
    use paint_tensor::Device;

    use super::*;
    use crate::draws::Seeded;

    #[test]
    fn an_order_gives_every_image_once_with_its_label_and_the_next_is_another() {
        let images =
            Tensor::from_vec((0..21).map(|i| (i / 3) as f32).collect(), [7, 3], &Device::cpu());
        let labels = (0..7).collect::<Vec<_>>().into();
        let source = Labelled { images: images.unwrap(), labels };
        let epoch = |first: u64| {
            let mut all = Vec::new();
            for (number, size) in (first..).zip([3, 3, 1]) {
                let (images, labels) = source.shuffled(&Seeded(Seed(4)), number, 3).unwrap();
                assert_eq!(images.shape(), [size, 3]);
                let firsts = images.slice(1, 0, 1).unwrap().to_vec().unwrap();
                assert!(firsts.iter().zip(&labels).all(|(&pixel, &label)| pixel == label as f32));
                all.extend(labels);
            }
            all
        };
        let (first, second) = (epoch(0), epoch(3));
        let sorted = |mut labels: Vec<usize>| {
            labels.sort_unstable();
            labels
        };
        assert_ne!(first, second);
        assert_eq!(sorted(first), sorted(second.clone()));
        assert_eq!(sorted(second), (0..7).collect::<Vec<_>>());
    }
}
