//! The learning rate over a training.
//!
//! Symbols: `t` the step from 0, `T` all steps, `W` those of the warm-up. During the warm-up the rate is
//! `lr (t + 1) / W`. After it, cosine: `final + ½ (lr − final) (1 + cos π (t − W) / (T − W))`; step: `lr γᵏ`, where `k`
//! counts the milestones (as parts of `T`) that `t` has reached.

use std::f64::consts::PI;

use paint_settings::{above, at_least, between, choice, settings};

settings! {
    /// The settings of a schedule.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Config {
        /// How the learning rate falls
        pub shape: Shape,
        /// Epochs of linear warm-up
        #[within(at_least(0.0))]
        pub warmup_epochs: f64,
        /// Learning rate at the end of the cosine
        #[within(at_least(0.0))]
        pub final_lr: f64,
        /// Where the steps are, as shares of the training
        #[within(between(0.0, 1.0))]
        pub milestones: Vec<f64>,
        /// `γ`, factor at each step
        #[within(above(0.0))]
        pub gamma: f64,
    }
}

choice! {
    /// How a learning rate falls.
    pub enum Shape {
        /// Half a cosine
        Cosine = "cosine",
        /// By a factor at each milestone
        Step = "step",
        /// Not at all
        Constant = "constant",
    }
}

impl Config {
    /// The rate of step `t` of `total`, where an epoch has `per_epoch`.
    pub fn rate(&self, lr: f64, t: usize, total: usize, per_epoch: usize) -> f64 {
        let warmup = (self.warmup_epochs * per_epoch as f64).round();
        let (t, total) = (t as f64, total as f64);
        if t < warmup {
            return lr * (t + 1.0) / warmup;
        }
        match self.shape {
            Shape::Constant => lr,
            Shape::Cosine => {
                let part = ((t - warmup) / (total - warmup).max(1.0)).min(1.0);
                self.final_lr + 0.5 * (lr - self.final_lr) * (1.0 + (PI * part).cos())
            }
            Shape::Step => {
                let passed = self.milestones.iter().filter(|part| t >= **part * total).count();
                lr * self.gamma.powi(passed as i32)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(shape: Shape) -> Config {
        Config { shape, warmup_epochs: 2.0, final_lr: 0.1, milestones: vec![0.5, 0.75], gamma: 0.1 }
    }

    #[test]
    fn a_cosine_warms_up_and_ends_at_its_final_rate() {
        let cosine = config(Shape::Cosine);
        let at = |t| cosine.rate(1.1, t, 100, 5);
        assert!((at(0) - 0.11).abs() < 1e-12 && (at(9) - 1.1).abs() < 1e-12);
        assert!((at(10) - 1.1).abs() < 1e-12);
        assert!((at(55) - 0.6).abs() < 1e-12, "half way down");
        assert!((at(100) - 0.1).abs() < 1e-12 && (at(200) - 0.1).abs() < 1e-12);
        assert!((10..100).all(|t| at(t) > at(t + 1)));
    }

    #[test]
    fn steps_fall_at_their_milestones() {
        let step = Config { warmup_epochs: 0.0, ..config(Shape::Step) };
        let at = |t| step.rate(2.0, t, 100, 5);
        for (t, expected) in [(0, 2.0), (49, 2.0), (50, 0.2), (74, 0.2), (75, 0.02)] {
            assert!((at(t) - expected).abs() < 1e-12, "{t}");
        }
    }
}
