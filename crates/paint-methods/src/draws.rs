//! Every random draw a method makes.
//!
//! A draw is a function of what it is for and of the step, never of the draws before it: a run continues from its step
//! counter alone, and a recorded run can be replayed by another implementation of the trait.

use std::ops::Range;

use paint_rng::Seed;
use paint_tensor::Tensor;
use rand_distr::Beta;

use crate::Result;
use crate::views::{self, Noise, Padding, View};

/// Where random numbers come from. `step` counts batches from 0; `number` counts whatever is drawn, which is the step
/// for a method that draws one a batch.
pub trait Draws: Send + Sync {
    /// `count` numbers from N(0, 1) for the prompt of number `id`.
    fn prompt(&self, id: u64, count: usize) -> Vec<f32>;
    /// `λ ~ Beta(α, α)`; `alpha` is positive.
    fn lambda(&self, step: u64, alpha: f64) -> f32;
    /// A random order of `0..n`.
    fn permutation(&self, number: u64, n: usize) -> Vec<usize>;
    /// The parameters of a view of images of `[H, W]` pixels.
    fn view(&self, number: u64, size: [usize; 2], padding: Padding) -> View;
    /// The pixel noise of a view of the images `rows` of a batch, `count` numbers each.
    fn noise(&self, number: u64, rows: &[usize], count: usize) -> Noise;
    /// The places of `0..count` that go back to the source, ascending, each with probability `share`, for the
    /// parameter of number `param` among the trained.
    fn restored(&self, step: u64, param: usize, count: usize, share: f64) -> Vec<usize>;
    /// `count` numbers from U(0, 1) for the start of a network's parameter of number `param`.
    fn start(&self, param: usize, count: usize) -> Vec<f32>;
}

/// The views of these numbers of a batch, with edge padding, as CoTTA and its followers augment.
pub(crate) fn padded_views(
    draws: &dyn Draws,
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
pub(crate) fn padded_view(draws: &dyn Draws, number: u64, images: &Tensor) -> Result<Tensor> {
    padded_views(draws, number..number + 1, images)
}

/// Draws derived from the seed of a run.
#[derive(Debug, Clone, Copy)]
pub struct Seeded(pub Seed);

impl Draws for Seeded {
    fn prompt(&self, id: u64, count: usize) -> Vec<f32> {
        let mut rng = self.0.derive("paint/prompt", &[id]);
        (0..count).map(|_| rng.normal() as f32).collect()
    }

    fn lambda(&self, step: u64, alpha: f64) -> f32 {
        let beta = Beta::new(alpha, alpha).expect("alpha is positive: the settings are checked");
        self.0.derive("paint/lambda", &[step]).sample(&beta) as f32
    }

    fn permutation(&self, number: u64, n: usize) -> Vec<usize> {
        self.0.derive("paint/mixup", &[number]).permutation(n)
    }

    fn view(&self, number: u64, size: [usize; 2], padding: Padding) -> View {
        View::draw(&mut self.0.derive("views", &[number]), size, padding)
    }

    fn noise(&self, number: u64, _rows: &[usize], _count: usize) -> Noise {
        Noise::Seed(self.0.derive("views/noise", &[number]).next_u64())
    }

    fn restored(&self, step: u64, param: usize, count: usize, share: f64) -> Vec<usize> {
        if share <= 0.0 {
            return Vec::new();
        }
        let mut rng = self.0.derive("restored", &[step, param as u64]);
        // The gap to the next place has a geometric distribution: a draw for each place chosen, not for each there is.
        let mut gap = || ((1.0 - rng.uniform()).ln() / (1.0 - share).ln()).floor();
        let mut places = Vec::new();
        let mut place = gap();
        while place < count as f64 {
            places.push(place as usize);
            place += 1.0 + gap();
        }
        places
    }

    fn start(&self, param: usize, count: usize) -> Vec<f32> {
        let mut rng = self.0.derive("start", &[param as u64]);
        (0..count).map(|_| rng.uniform() as f32).collect()
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
        let first = draws.permutation(3, 20);
        draws.lambda(3, 1.0);
        assert_eq!(first, draws.permutation(3, 20));
        assert_ne!(first, draws.permutation(4, 20));
        assert_ne!(draws.prompt(0, 8), draws.prompt(1, 8));
    }
}
