//! keel on a transformer without source statistics: the mean logit is moved to the bias of the head,
//! `z ← z - n/(n + 10) (mean z - b)`, a re-centring of the features as in NEO. On held-out corruptions that was worth
//! between a seventh and two fifths of what the statistics are.

use paint_nn::backbone::Backbone;
use paint_nn::state::State;
use paint_tensor::{Device, Tensor};

use crate::{Error, Result};

/// `n_0`: as many images speak for the logits as they are.
const TRUST: f32 = 10.0;
/// The most images that the mean remembers.
const BOUND: u64 = 100;

/// `z - n/(n + n_0) (mean z - b)`.
#[derive(Debug, Clone)]
pub(super) struct Recentre {
    /// `b`.
    bias: Vec<f32>,
    /// `mean z`.
    mean: Vec<f32>,
    /// `n`.
    images: u64,
}

impl Recentre {
    pub(super) fn new(model: &dyn Backbone, classes: Option<&[usize]>) -> Result<Self> {
        let all = model.params()[model.params().id("head.bias")?].to_vec()?;
        let bias: Vec<f32> =
            classes.map_or(all.clone(), |classes| classes.iter().map(|&c| all[c]).collect());
        Ok(Self { mean: vec![0.0; bias.len()], bias, images: 0 })
    }

    /// Learns from a batch's logits and moves them, or leaves both as they are where classes come in runs.
    pub(super) fn step(&mut self, logits: Tensor, correlated: bool) -> Result<Tensor> {
        if correlated {
            return Ok(logits);
        }
        let b = logits.shape()[0] as u64;
        let mean = logits.mean(0)?.to_vec()?;
        self.images = self.images.min(BOUND) + b;
        let rho = b as f32 / self.images as f32;
        self.mean.iter_mut().zip(mean).for_each(|(old, new)| *old += rho * (new - *old));
        self.apply(&logits)
    }

    pub(super) fn apply(&self, logits: &Tensor) -> Result<Tensor> {
        let w = self.images as f32 / (self.images as f32 + TRUST);
        let shift: Vec<f32> = self.mean.iter().zip(&self.bias).map(|(m, b)| w * (m - b)).collect();
        Ok(logits.sub(&Tensor::from_vec(shift, [1, self.bias.len()], logits.device())?)?)
    }

    pub(super) fn reset(&mut self) {
        self.mean.fill(0.0);
        self.images = 0;
    }

    pub(super) fn save(&self) -> Result<State> {
        let mut state = State::default();
        let mean = Tensor::from_vec(self.mean.clone(), [self.mean.len()], &Device::cpu())?;
        state.tensors.insert("mean".into(), mean);
        state.counters.insert("images".into(), self.images);
        Ok(state)
    }

    pub(super) fn load(&mut self, state: &State) -> Result<()> {
        let mean = state.tensor("mean")?.to_vec()?;
        if mean.len() != self.bias.len() {
            let expected = format!("{} mean logits", self.bias.len());
            return Err(Error::State { expected, found: mean.len().to_string() });
        }
        (self.mean, self.images) = (mean, state.counter("images")?);
        Ok(())
    }
}
