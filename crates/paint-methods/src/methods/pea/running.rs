//! The statistics of the stream: by block a mean and a covariance that follow it, and the entropy of its predictions.

use std::sync::Arc;

use paint_nn::state::State;
use paint_tensor::{Device, Tensor};

use super::Config;
use crate::statistics::activations::Moments;
use crate::{Error, Result};

/// The share of a new value in the smoothed drift and the smoothed entropy.
const SMOOTHING: f32 = 0.2;
/// A smoothed drift of less is none.
const STILL: f32 = 1e-6;

/// What one block has given so far. Single precision, so that a saved state is all there is.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// `μ_t`, `[C]`.
    pub(super) mean: Arc<[f32]>,
    /// `Σ_t`, `[C, C]`.
    pub(super) covariance: Arc<[f32]>,
    drift: f32,
}

/// One entry a block; none before its first batch.
#[derive(Debug, Clone, Default)]
pub(super) struct Running {
    blocks: Vec<Option<Block>>,
    entropy: Option<f32>,
}

impl Running {
    pub(super) fn new(blocks: usize) -> Self {
        Self { blocks: vec![None; blocks], entropy: None }
    }

    pub(super) fn block(&self, index: usize) -> Option<&Block> {
        self.blocks.get(index)?.as_ref()
    }

    /// Follows what block `index` gave for a batch (Eq. 2).
    pub(super) fn observe(&mut self, index: usize, batch: &Moments, config: &Config) {
        let c = batch.mean.len();
        let narrow = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<_>>();
        let mean = narrow(&batch.mean);
        let mut covariance = narrow(&batch.covariance);
        let ridge = config.ridge as f32;
        covariance.iter_mut().step_by(c + 1).for_each(|variance| *variance += ridge);
        let Some(place) = self.blocks.get_mut(index) else { return };
        *place = Some(match place.take() {
            None => Block { mean: mean.into(), covariance: covariance.into(), drift: 0.0 },
            Some(before) => {
                let apart = mean.iter().zip(before.mean.iter()).map(|(a, b)| (a - b).abs());
                let drift = apart.sum::<f32>() / c as f32;
                let smoothed = SMOOTHING * drift + (1.0 - SMOOTHING) * before.drift;
                let jumped = smoothed > STILL && drift > config.jump as f32 * smoothed;
                let share = if jumped { 1.0 } else { config.momentum as f32 };
                let follow = |old: &[f32], new: &[f32]| {
                    old.iter()
                        .zip(new)
                        .map(|(old, new)| share * new + (1.0 - share) * old)
                        .collect()
                };
                Block {
                    mean: follow(&before.mean, &mean),
                    covariance: follow(&before.covariance, &covariance),
                    drift: smoothed,
                }
            }
        });
    }

    /// Takes the mean entropy of a batch's predictions. Where it jumps, everything is forgotten first (Eq. 5); true
    /// then.
    pub(super) fn judge(&mut self, entropy: f32, threshold: f64) -> bool {
        let jumped =
            self.entropy.is_some_and(|usual| f64::from(entropy) > f64::from(usual) + threshold);
        if jumped {
            *self = Self::new(self.blocks.len());
        }
        let next = |usual: f32| SMOOTHING * entropy + (1.0 - SMOOTHING) * usual;
        self.entropy = Some(self.entropy.map_or(entropy, next));
        jumped
    }

    pub(super) fn save(&self) -> Result<State> {
        let cpu = Device::cpu();
        let mut state = State::default();
        let mut insert = |name: String, data: &[f32], shape: &[usize]| -> Result<()> {
            state.tensors.insert(name, Tensor::from_vec(data.to_vec(), shape, &cpu)?);
            Ok(())
        };
        for (at, block) in self.blocks.iter().enumerate() {
            let Some(block) = block else { continue };
            let c = block.mean.len();
            insert(format!("{at}/mean"), &block.mean, &[c])?;
            insert(format!("{at}/covariance"), &block.covariance, &[c, c])?;
            insert(format!("{at}/drift"), &[block.drift], &[1])?;
        }
        if let Some(entropy) = self.entropy {
            insert("entropy".into(), &[entropy], &[1])?;
        }
        Ok(state)
    }

    /// A state of [`Running::save`] for blocks of these widths; other shapes and numbers that are not finite are
    /// refused.
    pub(super) fn load(state: &State, widths: &[usize]) -> Result<Self> {
        let take = |name: String, shape: &[usize]| {
            let Some(tensor) = state.tensors.get(&name) else { return Ok(None) };
            if tensor.shape() != shape {
                let expected = format!("{name} of shape {shape:?}");
                return Err(Error::State { expected, found: format!("{:?}", tensor.shape()) });
            }
            let values = tensor.to_vec()?;
            match values.iter().find(|x| !x.is_finite()) {
                Some(x) => Err(Error::State {
                    expected: format!("finite numbers in {name}"),
                    found: x.to_string(),
                }),
                None => Ok(Some(values)),
            }
        };
        let block = |(at, &c): (usize, &usize)| {
            let mean = take(format!("{at}/mean"), &[c])?;
            let covariance = take(format!("{at}/covariance"), &[c, c])?;
            let drift = take(format!("{at}/drift"), &[1])?;
            match (mean, covariance, drift) {
                (None, None, None) => Ok(None),
                (Some(mean), Some(covariance), Some(drift)) => Ok(Some(Block {
                    mean: mean.into(),
                    covariance: covariance.into(),
                    drift: drift[0],
                })),
                _ => Err(Error::State {
                    expected: format!("mean, covariance and drift of block {at}"),
                    found: "some of them".into(),
                }),
            }
        };
        let blocks = widths.iter().enumerate().map(block).collect::<Result<_>>()?;
        Ok(Self { blocks, entropy: take("entropy".into(), &[1])?.map(|values| values[0]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(mean: f64) -> Moments {
        Moments { rows: 9.0, mean: vec![mean; 2], covariance: vec![1.0, 0.0, 0.0, 1.0] }
    }

    #[test]
    fn statistics_follow_slowly_and_jump_with_the_domain() {
        let config = Config { momentum: 0.25, ridge: 0.0, ..Config::default() };
        let mut running = Running::new(1);
        running.observe(0, &batch(0.0), &config);
        assert_eq!(running.block(0).unwrap().mean[..], [0.0, 0.0]);
        // The first drift is five times its smoothed value, so the batch takes over.
        running.observe(0, &batch(1.0), &config);
        assert_eq!(running.block(0).unwrap().mean[..], [1.0, 1.0]);
        // Drift 0.2 against a smoothed 0.2: the mean follows by its momentum.
        running.observe(0, &batch(1.2), &config);
        assert!((running.block(0).unwrap().mean[0] - 1.05).abs() < 1e-6);
    }

    #[test]
    fn a_jump_of_the_entropy_forgets_everything() {
        let config = Config::default();
        let mut running = Running::new(1);
        running.observe(0, &batch(0.0), &config);
        assert!(!running.judge(1.0, 0.5) && !running.judge(1.4, 0.5));
        assert!(running.block(0).is_some());
        // Smoothed to 1.08; 1.6 is more than 0.5 above.
        assert!(running.judge(1.6, 0.5) && running.block(0).is_none());
        assert_eq!(running.entropy, Some(1.6));
    }

    #[test]
    fn a_state_that_does_not_fit_is_refused() {
        let mut running = Running::new(2);
        running.observe(1, &batch(0.5), &Config::default());
        let state = running.save().unwrap();
        let again = Running::load(&state, &[2, 2]).unwrap();
        assert_eq!(again.block(1).unwrap().mean, running.block(1).unwrap().mean);
        assert!(Running::load(&state, &[2, 3]).unwrap_err().to_string().contains("[3]"));
        let mut half = state.clone();
        half.tensors.remove("1/drift");
        assert!(Running::load(&half, &[2, 2]).unwrap_err().to_string().contains("block 1"));
        let mut poisoned = state;
        let nan = Tensor::full([2], f32::NAN, &Device::cpu()).unwrap();
        poisoned.tensors.insert("1/mean".into(), nan);
        assert!(Running::load(&poisoned, &[2, 2]).unwrap_err().to_string().contains("finite"));
    }
}
