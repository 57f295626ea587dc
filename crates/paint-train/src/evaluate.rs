//! Accuracy on images that are not trained on.

use paint_nn::backbone::{Backbone, Request};
use paint_tensor::{Draw, Edge, View};

use crate::error::Result;
use crate::images::LabelledImages;

/// The most images that go through the network together.
const MOST: usize = 500;

/// The share of images, in percent, that `model` (frozen) classifies rightly; at most `batch` go through it together.
pub fn accuracy(model: &dyn Backbone, data: &LabelledImages, batch: usize) -> Result<f64> {
    let (stored, size) = (data.images.size(), model.spec().image_size);
    let together = batch.clamp(1, MOST);
    let mut right = 0;
    for (batch, labels) in data.labels.chunks(together).enumerate() {
        let draw = |i: usize| Draw::plain(View::stretched(batch * together + i, stored, size));
        let draws: Vec<Draw> = (0..labels.len()).map(draw).collect();
        let images = data.images.compose(&draws, size, Edge::Zeros)?;
        let predicted = model.forward(&images, &Request::default())?.logits.argmax()?;
        right += predicted.iter().zip(labels).filter(|(a, b)| a == b).count();
    }
    Ok(100.0 * right as f64 / data.labels.len().max(1) as f64)
}
