//! One batch of a training, as drawn: which images, how they look, how they are mixed, what the network should say.
//!
//! Everything derives from (seed, epoch, place in the epoch): a training that is continued draws what it would have
//! drawn.

use paint_rng::Seed;
use paint_tensor::Draw;

use crate::drop_path;
use crate::images::LabelledImages;
use crate::mixing::{Mix, add_target};
use crate::recipe::Recipe;

/// What a step is made of.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// One for each sample.
    pub draws: Vec<Draw>,
    /// `[B, C]`.
    pub targets: Vec<f32>,
    /// The class with the largest share of each sample, for the training accuracy.
    pub labels: Vec<usize>,
    /// Factors of the residual branches, two lists of `B` a block; empty without stochastic depth.
    pub branches: Vec<Option<Vec<f32>>>,
}

/// Draws the batches of one epoch.
#[derive(Debug)]
pub(crate) struct EpochPlan<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) data: &'a LabelledImages,
    /// `[H, W]` of the network.
    pub(crate) size: [usize; 2],
    /// Blocks of the network.
    pub(crate) depth: usize,
    pub(crate) seed: Seed,
    pub(crate) epoch: usize,
}

impl EpochPlan<'_> {
    /// The order of the images.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut rng = self.seed.derive("train/order", &[self.epoch as u64]);
        rng.permutation(self.data.labels.len())
    }

    /// Batch `place` of an order of images.
    pub(crate) fn batch(&self, order: &[usize], place: usize) -> Batch {
        let Recipe { batch_size, label_smoothing, drop_path, .. } = *self.recipe;
        let start = place * batch_size;
        let indices = &order[start..(start + batch_size).min(order.len())];
        let b = indices.len();
        let path = [self.epoch as u64, place as u64];
        let mut rng = self.seed.derive("train/augment", &path);
        let mut mix_rng = self.seed.derive("train/mix", &path);
        let mut depth_rng = self.seed.derive("train/drop_path", &path);
        let classes = self.data.num_classes;
        let mut batch = Batch { targets: vec![0.0; b * classes], ..Batch::default() };
        let stored = self.data.images.size();
        let augment = &self.recipe.augment;
        for (row, &index) in batch.targets.chunks_exact_mut(classes).zip(indices) {
            let first = augment.view(index, stored, self.size, &mut rng);
            let (label, smoothing) = (self.data.labels[index], label_smoothing as f32);
            let mut draw =
                Draw { erased: augment.erased(self.size, &mut rng), ..Draw::plain(first) };
            let mut dominant = label;
            let mut lambda = 1.0;
            if let Some(mix) = self.recipe.mix.draw(self.size, &mut mix_rng) {
                let partner = indices[mix_rng.below(b)];
                let Mix { weight, cut, .. } = mix;
                let second = Some(augment.view(partner, stored, self.size, &mut rng));
                draw = Draw { second, weight, cut, ..draw };
                lambda = mix.lambda;
                let other = self.data.labels[partner];
                add_target(row, other, 1.0 - lambda, smoothing);
                if lambda < 0.5 {
                    dominant = other;
                }
            }
            add_target(row, label, lambda, smoothing);
            batch.draws.push(draw);
            batch.labels.push(dominant);
        }
        batch.branches = drop_path::draw(drop_path, self.depth, b, &mut depth_rng);
        batch
    }
}
