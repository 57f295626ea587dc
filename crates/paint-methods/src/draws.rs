//! Every random draw a method makes.
//!
//! A draw is a function of what it is for and of the step, never of the draws before it: a run continues from its step
//! counter alone, and a recorded run can be replayed by another implementation of the trait.

use paint_rng::Seed;
use rand_distr::Beta;

use crate::views::{NOISE_STD, Padding, View};

/// Where random numbers come from. `step` counts batches from 0.
pub trait Draws: Send + Sync {
    /// `count` numbers from N(0, 1) for the prompt of number `id`.
    fn prompt(&self, id: u64, count: usize) -> Vec<f32>;
    /// `λ ~ Beta(α, α)`; `alpha` is positive.
    fn lambda(&self, step: u64, alpha: f64) -> f32;
    /// A random order of `0..n`.
    fn permutation(&self, step: u64, n: usize) -> Vec<usize>;
    /// The parameters of a view of images of `[H, W]` pixels.
    fn view(&self, step: u64, size: [usize; 2], padding: Padding) -> View;
    /// `count` numbers of pixel noise, already scaled, for image `index` of the batch.
    fn noise(&self, step: u64, index: usize, count: usize) -> Vec<f32>;
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

    fn permutation(&self, step: u64, n: usize) -> Vec<usize> {
        self.0.derive("paint/mixup", &[step]).permutation(n)
    }

    fn view(&self, step: u64, size: [usize; 2], padding: Padding) -> View {
        View::draw(&mut self.0.derive("views", &[step]), size, padding)
    }

    fn noise(&self, step: u64, index: usize, count: usize) -> Vec<f32> {
        let mut rng = self.0.derive("views/noise", &[step, index as u64]);
        (0..count).map(|_| (NOISE_STD * rng.normal()) as f32).collect()
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
    fn draws_depend_on_the_step_and_on_nothing_drawn_before() {
        let draws = Seeded(Seed(2));
        let first = draws.permutation(3, 20);
        draws.lambda(3, 1.0);
        assert_eq!(first, draws.permutation(3, 20));
        assert_ne!(first, draws.permutation(4, 20));
        assert_ne!(draws.prompt(0, 8), draws.prompt(1, 8));
    }
}
