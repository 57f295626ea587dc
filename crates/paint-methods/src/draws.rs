//! Every random draw a method makes, with one trait per purpose.
//!
//! A draw depends on its purpose and on the step, never on the draws before it. A run therefore continues from its step
//! counter alone, and a recorded run is replayed by replacing the fields of [`Draws`] that it recorded.

use std::ops::Range;
use std::sync::Arc;

use paint_rng::Seed;
use paint_tensor::Tensor;
use rand_distr::Beta;

use crate::Result;
use crate::views::{self, Noise, Padding, View};

/// The first values of prompts: PAINT.
pub trait PromptDraws: Send + Sync {
    /// `count` numbers from N(0, 1) for the prompt of number `id`.
    fn prompt(&self, id: u64, count: usize) -> Vec<f32>;
}

/// How samples are mixed: PAINT. `step` counts batches from 0.
pub trait MixDraws: Send + Sync {
    /// `λ ~ Beta(α, α)`; `alpha` is positive.
    fn lambda(&self, step: u64, alpha: f64) -> f32;
    /// A random order of `0..n`: sample `i` is mixed with the one at place `i`.
    fn partners(&self, step: u64, n: usize) -> Vec<usize>;
}

/// Augmented views: PAINT, CoTTA, RMT, SANTA, `EcoTTA`, ROID and `RoTTA`. `number` counts views, which is the step for
/// a method that makes one per batch.
pub trait ViewDraws: Send + Sync {
    /// The parameters of a view of images of `[H, W]` pixels.
    fn view(&self, number: u64, size: [usize; 2], padding: Padding) -> View;
    /// The pixel noise of a view of the images `rows` of a batch, `count` numbers each.
    fn noise(&self, number: u64, rows: &[usize], count: usize) -> Noise;
}

/// Which parameters go back to the source: CoTTA.
pub trait RestoreDraws: Send + Sync {
    /// The places of `0..count` that go back after batch `step`, ascending, each with probability `share`, for the
    /// parameter of number `param` among the trained.
    fn restored(&self, step: u64, param: usize, count: usize, share: f64) -> Vec<usize>;
}

/// The order of source images: RMT and `EcoTTA`.
pub trait OrderDraws: Send + Sync {
    /// A random order of `0..n` for an epoch.
    fn order(&self, epoch: u64, n: usize) -> Vec<usize>;
}

/// The first values of what begins uniform: the projector of RMT and SANTA, the convolutions of `EcoTTA`, the prompt
/// of DPCore.
pub trait ProjectorDraws: Send + Sync {
    /// `count` numbers from U(0, 1) for the parameter of number `param`.
    fn projector(&self, param: usize, count: usize) -> Vec<f32>;
}

/// The order of an image's patches: `DeYO`.
pub trait PatchDraws: Send + Sync {
    /// A random order of `0..count` for image `image` of batch `step`.
    fn patches(&self, step: u64, image: usize, count: usize) -> Vec<usize>;
}

/// Where the draws of a method come from, by purpose.
#[derive(Clone)]
pub struct Draws {
    /// The first values of prompts.
    pub prompts: Arc<dyn PromptDraws>,
    /// How samples are mixed.
    pub mixing: Arc<dyn MixDraws>,
    /// Augmented views.
    pub views: Arc<dyn ViewDraws>,
    /// Which parameters go back to the source.
    pub restoring: Arc<dyn RestoreDraws>,
    /// The order of source images.
    pub order: Arc<dyn OrderDraws>,
    /// The first values of a projector.
    pub projector: Arc<dyn ProjectorDraws>,
    /// The order of an image's patches.
    pub patches: Arc<dyn PatchDraws>,
}

impl Draws {
    /// All of them derived from the seed of a run.
    pub fn seeded(seed: Seed) -> Self {
        let seeded = Arc::new(Seeded(seed));
        Self {
            prompts: seeded.clone(),
            mixing: seeded.clone(),
            views: seeded.clone(),
            restoring: seeded.clone(),
            order: seeded.clone(),
            projector: seeded.clone(),
            patches: seeded,
        }
    }
}

/// The views of these numbers of a batch, with edge padding, as CoTTA and its followers augment.
pub(crate) fn padded_views(
    draws: &dyn ViewDraws,
    numbers: Range<u64>,
    images: &Tensor,
) -> Result<Tensor> {
    let [b, c, h, w] = images.dims4("images")?;
    let rows: Vec<usize> = (0..b).collect();
    let draw = |number| {
        let view = draws.view(number, [h, w], Padding::Edge);
        (view, draws.noise(number, &rows, c * h * w))
    };
    views::apply(&numbers.map(draw).collect::<Vec<_>>(), images)
}

/// The view of number `number` alone.
pub(crate) fn padded_view(draws: &dyn ViewDraws, number: u64, images: &Tensor) -> Result<Tensor> {
    padded_views(draws, number..number + 1, images)
}

/// The view of number `number` without blur and noise, as ROID augments.
pub(crate) fn clear_view(draws: &dyn ViewDraws, number: u64, images: &Tensor) -> Result<Tensor> {
    let [_, _, h, w] = images.dims4("images")?;
    let view = draws.view(number, [h, w], Padding::Edge).sharp();
    views::apply(&[(view, Noise::None)], images)
}

/// Draws derived from the seed of a run. Changing a label changes every result that depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Seeded(pub Seed);

impl PromptDraws for Seeded {
    fn prompt(&self, id: u64, count: usize) -> Vec<f32> {
        let mut rng = self.0.derive("paint/prompt", &[id]);
        (0..count).map(|_| rng.normal() as f32).collect()
    }
}

/// The label of a random order, of samples to mix and of source images alike: PAINT and RMT never share a run.
const ORDER: &str = "paint/mixup";

impl MixDraws for Seeded {
    fn lambda(&self, step: u64, alpha: f64) -> f32 {
        let beta = Beta::new(alpha, alpha).expect("alpha is positive: the settings are checked");
        self.0.derive("paint/lambda", &[step]).sample(&beta) as f32
    }

    fn partners(&self, step: u64, n: usize) -> Vec<usize> {
        self.0.derive(ORDER, &[step]).permutation(n)
    }
}

impl ViewDraws for Seeded {
    fn view(&self, number: u64, size: [usize; 2], padding: Padding) -> View {
        View::draw(&mut self.0.derive("views", &[number]), size, padding)
    }

    fn noise(&self, number: u64, _rows: &[usize], _count: usize) -> Noise {
        Noise::Seed(self.0.derive("views/noise", &[number]).next_u64())
    }
}

impl RestoreDraws for Seeded {
    fn restored(&self, step: u64, param: usize, count: usize, share: f64) -> Vec<usize> {
        if share <= 0.0 {
            return Vec::new();
        }
        let mut rng = self.0.derive("restored", &[step, param as u64]);
        // The gap to the next place has a geometric distribution: one draw per place chosen, not per place there is.
        let mut gap = || ((1.0 - rng.uniform()).ln() / (1.0 - share).ln()).floor();
        let mut places = Vec::new();
        let mut place = gap();
        while place < count as f64 {
            places.push(place as usize);
            place += 1.0 + gap();
        }
        places
    }
}

impl OrderDraws for Seeded {
    fn order(&self, epoch: u64, n: usize) -> Vec<usize> {
        self.0.derive(ORDER, &[epoch]).permutation(n)
    }
}

impl ProjectorDraws for Seeded {
    fn projector(&self, param: usize, count: usize) -> Vec<f32> {
        let mut rng = self.0.derive("start", &[param as u64]);
        (0..count).map(|_| rng.uniform() as f32).collect()
    }
}

impl PatchDraws for Seeded {
    fn patches(&self, step: u64, image: usize, count: usize) -> Vec<usize> {
        self.0.derive("patches", &[step, image as u64]).permutation(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lambda_is_uniform_for_alpha_one_and_extreme_for_a_small_alpha() {
        let share = |alpha| {
            let inner = |step: &u64| (0.25..0.75).contains(&Seeded(Seed(1)).lambda(*step, alpha));
            (0..4000).filter(inner).count() as f64 / 4000.0
        };
        // 0.03: four standard errors of a share over 4000 draws.
        assert!((share(1.0) - 0.5).abs() < 0.03, "{}", share(1.0));
        assert!(share(0.1) < 0.15, "{}", share(0.1));
    }

    #[test]
    fn restored_places_are_ascending_and_as_many_as_their_share() {
        let draws = Seeded(Seed(3));
        let places = draws.restored(5, 2, 100_000, 0.01);
        assert!(
            places.windows(2).all(|pair| pair[0] < pair[1]) && places[places.len() - 1] < 100_000
        );
        // 130: four standard deviations of a count with mean 1000.
        assert!(places.len().abs_diff(1000) < 130, "{}", places.len());
        // As many in the first half as in the second, again within four standard deviations.
        let half = places.iter().filter(|&&place| place < 50_000).count();
        assert!(half.abs_diff(places.len() / 2) < 64, "{half}");
        assert_eq!(draws.restored(5, 2, 4, 1.0), [0, 1, 2, 3]);
        assert!(draws.restored(5, 2, 4, 0.0).is_empty());
        assert_ne!(draws.restored(6, 2, 1000, 0.1), draws.restored(5, 2, 1000, 0.1));
    }

    #[test]
    fn draws_depend_on_the_step_and_on_nothing_drawn_before() {
        let draws = Seeded(Seed(2));
        let first = draws.partners(3, 20);
        draws.lambda(3, 1.0);
        assert_eq!(first, draws.partners(3, 20));
        assert_ne!(first, draws.partners(4, 20));
        assert_ne!(draws.prompt(0, 8), draws.prompt(1, 8));
    }

    #[test]
    fn every_purpose_takes_the_seed_of_the_run() {
        let (first, second) = (Draws::seeded(Seed(1)), Draws::seeded(Seed(2)));
        assert_ne!(first.prompts.prompt(0, 4), second.prompts.prompt(0, 4));
        assert_ne!(first.mixing.partners(0, 20), second.mixing.partners(0, 20));
        assert_ne!(first.order.order(0, 20), second.order.order(0, 20));
        assert_ne!(first.projector.projector(0, 4), second.projector.projector(0, 4));
        assert_ne!(first.patches.patches(0, 0, 20), second.patches.patches(0, 0, 20));
        assert_ne!(first.views.noise(0, &[0], 4), second.views.noise(0, &[0], 4));
        let restored = |draws: &Draws| draws.restoring.restored(0, 0, 1000, 0.1);
        assert_ne!(restored(&first), restored(&second));
    }
}
