//! Accuracy on images that are not trained on.

use paint_nn::backbone::{Backbone, Request};

use crate::error::Result;
use crate::images::LabelledImages;

/// The most images that go through the network together.
const MOST: usize = 500;

/// The share of images, in percent, that `model` (frozen) classifies rightly; at most `batch` go through it together.
pub fn accuracy(model: &dyn Backbone, data: &LabelledImages, batch: usize) -> Result<f64> {
    let together = batch.clamp(1, MOST);
    let mut right = 0;
    for (batch, labels) in data.labels.chunks(together).enumerate() {
        let places: Vec<usize> = (0..labels.len()).map(|i| batch * together + i).collect();
        let images = data.stretched(&places, model.spec().image_size)?;
        let predicted = model.forward(&images, &Request::default())?.logits.argmax()?;
        right += predicted.iter().zip(labels).filter(|(a, b)| a == b).count();
    }
    Ok(100.0 * right as f64 / data.labels.len().max(1) as f64)
}
