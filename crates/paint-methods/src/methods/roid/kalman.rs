//! CMF's filter: the weights as noisy observations of hidden ones that drift towards the source.

use paint_nn::params::{Params, Trainable};
use paint_nn::state::State;
use paint_tensor::Tensor;

use crate::Result;
use crate::learner::{Learner, load_params, save_params};

/// `a`, how much of itself the hidden state keeps from step to step.
const KEEP: f64 = 0.99;
/// The share of `θ` that stays when it is drawn to `h`.
const ENSEMBLE: f32 = 0.99;
/// As many weights have the noise of the settings: those of the layer norms of ViT-B/16.
const USUAL: f64 = 38_400.0;
/// The least `β`.
const LEAST: f64 = 0.89;
/// From here on `β` counts as 1.
const CERTAIN: f64 = 0.9999;

/// The hidden weights, and how uncertain they are.
#[derive(Clone)]
pub(super) struct Kalman {
    /// `h`, in a copy of the network's parameters.
    hidden: Params,
    trained: Trainable,
    /// `P`.
    variance: f64,
    /// `q`.
    noise: f64,
}

impl Kalman {
    /// With the noise `q` of a network of [`USUAL`] trained weights.
    pub(super) fn new(learner: &Learner, noise: f64) -> Self {
        let hidden = learner.source().params().clone();
        let trained = learner.trained().clone();
        let noise = noise * hidden.elem_count(&trained) as f64 / USUAL;
        Self { hidden, trained, variance: 0.0, noise }
    }

    /// One prediction and one update of the hidden state, after which `θ` is drawn to it.
    pub(super) fn filter(&mut self, learner: &mut Learner) -> Result<()> {
        let beta = self.gain();
        let ids = self.hidden.select(&self.trained);
        let hidden = &mut self.hidden;
        learner.replace(|number, value, source| {
            let id = ids[number];
            let drifted = hidden[id].lerp(&source.detach(), (1.0 - KEEP) as f32)?;
            let updated: Tensor = drifted.lerp(value, (1.0 - beta) as f32)?;
            hidden.set(id, &updated)?;
            Ok(value.lerp(&updated, 1.0 - ENSEMBLE)?)
        })
    }

    /// `β`, and the variance after the step.
    fn gain(&mut self) -> f64 {
        let predicted = KEEP * KEEP * self.variance + self.noise;
        let observed = (1.0 - self.noise).max(0.0);
        let beta = (observed / (predicted + observed)).max(LEAST);
        let beta = if beta < CERTAIN { beta } else { 1.0 };
        self.variance = beta * predicted;
        beta
    }

    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        state.nest("hidden", save_params(&self.hidden, &self.trained));
        state.counters.insert("variance".into(), self.variance.to_bits());
        state
    }

    pub(super) fn load(&mut self, state: &State) -> Result<()> {
        load_params(&mut self.hidden, &self.trained, &state.part("hidden"))?;
        self.variance = f64::from_bits(state.counter("variance")?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(noise: f64) -> Kalman {
        let trained = Trainable::NormAffine;
        Kalman { hidden: Params::default(), trained, variance: 0.0, noise }
    }

    /// By hand with q = 0.005: P = 0.005, β = 0.995 / 1; then P = 0.99² · 0.995 · 0.005 + 0.005.
    #[test]
    fn the_gain_follows_the_equations_of_the_filter() {
        let mut kalman = filter(0.005);
        assert!((kalman.gain() - 0.995).abs() < 1e-12);
        assert!((kalman.variance - 0.004_975).abs() < 1e-12);
        let predicted = 0.99 * 0.99 * 0.004_975 + 0.005;
        assert!((kalman.gain() - 0.995 / (predicted + 0.995)).abs() < 1e-12);
    }

    #[test]
    fn the_gain_is_bounded_below_and_exact_above() {
        assert_eq!(filter(0.5).gain(), LEAST);
        assert_eq!(filter(3.0).gain(), LEAST, "more noise than the observation leaves");
        assert_eq!(filter(1e-5).gain(), 1.0);
    }
}
