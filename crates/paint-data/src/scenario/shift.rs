//! Label shift, as in SAR: at any time one class is far more frequent than the others.
//!
//! A visit has one period for each class, in random order. In its period a class is `ratio` times as likely as any
//! other. Images are drawn without replacement; a class that has run out leaves the draw.

use paint_rng::Rng;

use super::{SampleRef, Stream, correlate, plan::Plan};
use crate::Result;

const DEFAULT_RATIO: f64 = 100.0;

impl Plan<'_> {
    /// One domain after the other; in each of them every class has its period.
    pub(super) fn label_shift(&self) -> Result<Stream> {
        let ratio = self.config.ratio.unwrap_or(DEFAULT_RATIO);
        self.reordered(self.sequence()?, |samples, segment| {
            let mut rng = self.seed.derive("scenario/shift", &[segment as u64]);
            Ok(shifted(correlate::by_class(self.dataset, samples)?, ratio, &mut rng))
        })
    }
}

/// All images of the classes, those of one class mostly in one period.
fn shifted(mut classes: Vec<Vec<SampleRef>>, ratio: f64, rng: &mut Rng) -> Vec<SampleRef> {
    classes.iter_mut().for_each(|class| class.reverse());
    let total = classes.iter().map(Vec::len).sum::<usize>();
    let periods = rng.permutation(classes.len());
    let mut out = Vec::with_capacity(total);
    for (i, frequent) in periods.iter().copied().enumerate() {
        let end = total * (i + 1) / periods.len();
        while out.len() < end {
            let weight = |(class, left): (usize, &Vec<SampleRef>)| {
                let wanted = if class == frequent { ratio } else { 1.0 };
                if left.is_empty() { 0.0 } else { wanted }
            };
            let weights: Vec<f64> = classes.iter().enumerate().map(weight).collect();
            out.extend(classes[pick(&weights, rng)].pop());
        }
    }
    out
}

/// A place, drawn by its weight; a place without weight is never drawn.
fn pick(weights: &[f64], rng: &mut Rng) -> usize {
    let mut at = rng.uniform() * weights.iter().sum::<f64>();
    let mut last = 0;
    for (place, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        last = place;
        at -= weight;
        if at < 0.0 {
            break;
        }
    }
    last
}
