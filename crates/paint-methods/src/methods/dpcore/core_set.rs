//! The core set: prompts, and what the batches were like that they belong to.

use paint_nn::loss;
use paint_nn::state::State;
use paint_tensor::Tensor;

use crate::{Error, Result};

/// Mean and deviation of features over a batch, `[D]` each; one image has no deviation.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(super) mean: Tensor,
    pub(super) std: Option<Tensor>,
}

impl Moments {
    /// Of features `[B, D]`.
    pub(super) fn of(features: &Tensor) -> Result<Self> {
        let (mean, std) = loss::row_moments(features)?;
        Ok(Self { mean, std })
    }

    /// `‖μ - μ'‖ + ‖σ - σ'‖`, the second term where both have a deviation.  → `[]`
    pub(super) fn distance(&self, other: &Self) -> Result<Tensor> {
        let mean = loss::distance(&self.mean, &other.mean)?;
        let (Some(std), Some(of_other)) = (&self.std, &other.std) else { return Ok(mean) };
        Ok(mean.add(&loss::distance(std, of_other)?)?)
    }

    /// The same without gradients.
    pub(super) fn detached(self) -> Self {
        Self { mean: self.mean.detach(), std: self.std.map(|std| std.detach()) }
    }
}

/// Prompts and their batches, a row each in the order of their making, so that a batch is compared with all at once.
#[derive(Debug, Clone, Default)]
pub(super) struct CoreSet(Option<Rows>);

#[derive(Debug, Clone)]
struct Rows {
    /// `μ_j`, `[K, D]`.
    mean: Tensor,
    /// `σ_j`, `[K, D]`.
    std: Tensor,
    /// `P_j`, `[K, L, D]`.
    prompt: Tensor,
}

impl CoreSet {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |rows| rows.prompt.shape()[0])
    }

    /// Takes a prompt `[L, D]`, and mean and deviation of its batch, `[D]` each.
    pub(super) fn push(&mut self, [mean, std]: [&Tensor; 2], prompt: &Tensor) -> Result<()> {
        let after = |rows: Option<&Tensor>, new: &Tensor| {
            let row = new.reshape([&[1], new.shape()].concat())?;
            rows.map_or(Ok(row.clone()), |rows| Tensor::concat(&[rows, &row], 0))
        };
        let rows = self.0.as_ref();
        self.0 = Some(Rows {
            mean: after(rows.map(|rows| &rows.mean), mean)?,
            std: after(rows.map(|rows| &rows.std), std)?,
            prompt: after(rows.map(|rows| &rows.prompt), prompt)?,
        });
        Ok(())
    }

    /// How much each prompt has to say for a batch, and their mix (Eq. 2); none of an empty set.
    pub(super) fn mix(
        &self,
        batch: &Moments,
        temperature: f64,
    ) -> Result<Option<(Vec<f32>, Tensor)>> {
        let Some(rows) = &self.0 else { return Ok(None) };
        let mut far = distances(&rows.mean, &batch.mean)?;
        if let Some(std) = &batch.std {
            far = far.add(&distances(&rows.std, std)?)?;
        }
        let far: Vec<f64> = far.to_vec()?.into_iter().map(f64::from).collect();
        let nearest = far.iter().copied().fold(f64::INFINITY, f64::min);
        let shares: Vec<f64> = far.iter().map(|d| (-(d - nearest) / temperature).exp()).collect();
        let total: f64 = shares.iter().sum();
        let weights: Vec<f32> = shares.iter().map(|share| (share / total) as f32).collect();
        let by_row = Tensor::from_vec(weights.clone(), [far.len(), 1, 1], rows.prompt.device())?;
        Ok(Some((weights, rows.prompt.mul(&by_row)?.sum(0)?)))
    }

    /// Moves every core towards a batch and its prompt (Eq. 3).
    pub(super) fn follow(
        &mut self,
        weights: &[f32],
        alpha: f64,
        batch: &Moments,
        prompt: &Tensor,
    ) -> Result<()> {
        let Some(Rows { mean, std, prompt: prompts }) = &mut self.0 else { return Ok(()) };
        let shares = weights.iter().map(|w| (alpha * f64::from(*w)) as f32).collect();
        let shares = Tensor::from_vec(shares, [weights.len(), 1], mean.device())?;
        let [_, l, d] = prompts.dims3("prompts")?;
        let of_batch = batch.mean.detach().reshape([1, d])?;
        *mean = mean.sub(&mean.sub(&of_batch)?.mul(&shares)?)?;
        if let Some(of_batch) = &batch.std {
            let below = std.sub(&of_batch.detach().reshape([1, d])?)?.neg()?.relu()?;
            *std = std.add(&below.mul(&shares)?)?;
        }
        let apart = prompts.sub(&prompt.detach().reshape([1, l, d])?)?;
        *prompts = prompts.sub(&apart.mul(&shares.reshape([weights.len(), 1, 1])?)?)?;
        Ok(())
    }

    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        state.counters.insert("count".into(), self.len() as u64);
        if let Some(Rows { mean, std, prompt }) = &self.0 {
            for (name, rows) in [("mean", mean), ("std", std), ("prompt", prompt)] {
                state.tensors.insert(name.into(), rows.clone());
            }
        }
        state
    }

    /// A state of [`CoreSet::save`] for prompts of this shape, `[L, D]`; other shapes and numbers that are not finite
    /// are refused.
    pub(super) fn load(state: &State, shape: &[usize]) -> Result<Self> {
        let told = state.counter("count")?;
        if told == 0 && state.tensors.is_empty() {
            return Ok(Self::default());
        }
        let count = state.tensor("prompt")?.shape().first().copied().unwrap_or(0);
        if told == 0 || count as u64 != told {
            let (expected, found) = (format!("{told} prompts"), count.to_string());
            return Err(Error::State { expected, found });
        }
        let rows = |name: &str, of_one: &[usize]| {
            let (rows, expected) = (state.tensor(name)?, [&[count], of_one].concat());
            if rows.shape() != expected {
                let expected = format!("{name} {expected:?}");
                return Err(Error::State { expected, found: format!("{:?}", rows.shape()) });
            }
            match rows.to_vec()?.iter().find(|x| !x.is_finite()) {
                Some(x) => Err(Error::State {
                    expected: format!("finite numbers in {name}"),
                    found: x.to_string(),
                }),
                None => Ok(rows.clone()),
            }
        };
        let (mean, std) = (rows("mean", &shape[1..])?, rows("std", &shape[1..])?);
        Ok(Self(Some(Rows { mean, std, prompt: rows("prompt", shape)? })))
    }
}

/// `‖a_j − b‖` for each row of `[K, D]`, and `b` `[D]`.  → `[K]`
fn distances(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let apart = a.sub(&b.reshape([1, b.elem_count()])?)?;
    Ok(apart.mul(&apart)?.sum(1)?.sqrt()?)
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    fn row(data: [f32; 2]) -> Tensor {
        Tensor::from_vec(data.to_vec(), [2], &Device::cpu()).unwrap()
    }

    fn moments(mean: [f32; 2], std: [f32; 2]) -> Moments {
        Moments { mean: row(mean), std: Some(row(std)) }
    }

    fn set() -> CoreSet {
        let mut set = CoreSet::default();
        for (mean, value) in [([0.0, 0.0], 1.0), ([3.0, 4.0], 5.0)] {
            let prompt = Tensor::full([1, 2], value, &Device::cpu()).unwrap();
            set.push([&row(mean), &row([1.0, 1.0])], &prompt).unwrap();
        }
        set
    }

    #[test]
    fn weights_and_mix_by_hand() {
        // Distances 0 and 5, temperature 5 / ln 3: shares 1 and 1/3.
        let (weights, prompt) =
            set().mix(&moments([0.0, 0.0], [1.0, 1.0]), 5.0 / 3_f64.ln()).unwrap().unwrap();
        weights.iter().zip([0.75, 0.25]).for_each(|(w, e)| assert!((w - e).abs() < 1e-6));
        assert!(prompt.to_vec().unwrap().iter().all(|x| (x - 2.0).abs() < 1e-5));
        let none = CoreSet::default().mix(&moments([0.0, 0.0], [1.0, 1.0]), 1.0).unwrap();
        assert!(none.is_none());
    }

    #[test]
    fn a_core_follows_by_its_weight_and_its_deviation_only_grows() {
        let mut set = set();
        let prompt = Tensor::full([1, 2], 3.0, &Device::cpu()).unwrap();
        let batch = moments([2.0, 2.0], [3.0, 0.5]);
        set.follow(&[0.5, 0.0], 1.0, &batch, &prompt).unwrap();
        let Rows { mean, std, prompt } = set.0.unwrap();
        assert_eq!(mean.to_vec().unwrap(), [1.0, 1.0, 3.0, 4.0]);
        assert_eq!(std.to_vec().unwrap(), [2.0, 1.0, 1.0, 1.0]);
        assert_eq!(prompt.to_vec().unwrap(), [2.0, 2.0, 5.0, 5.0]);
    }

    #[test]
    fn one_image_is_compared_by_its_mean() {
        let one = Moments::of(&Tensor::from_vec(vec![3.0, 4.0], [1, 2], &Device::cpu()).unwrap());
        let (one, other) = (one.unwrap(), moments([0.0, 0.0], [9.0, 9.0]));
        assert_eq!(one.distance(&other).unwrap().item().unwrap(), 5.0);
        let (weights, _) = set().mix(&one, 1e-3).unwrap().unwrap();
        assert_eq!(weights, [0.0, 1.0], "(3, 4) is the second core's mean");
    }

    #[test]
    fn a_state_that_does_not_fit_is_refused() {
        let shape = [1, 2];
        assert_eq!(CoreSet::load(&set().save(), &shape).unwrap().len(), 2);
        assert_eq!(CoreSet::load(&CoreSet::default().save(), &shape).unwrap().len(), 0);
        let refused = |spoil: &dyn Fn(&mut State)| {
            let mut state = set().save();
            spoil(&mut state);
            CoreSet::load(&state, &shape).unwrap_err().to_string()
        };
        let replaced = |name: &str, numbers: [f32; 4], shape: &[usize]| {
            let rows = Tensor::from_vec(numbers.to_vec(), shape, &Device::cpu()).unwrap();
            refused(&|state| _ = state.tensors.insert(name.into(), rows.clone()))
        };
        let counted = |count| refused(&|state| _ = state.counters.insert("count".into(), count));
        for count in [0, 3, u64::MAX] {
            assert!(counted(count).contains(&format!("{count} prompts, found 2")));
        }
        assert!(refused(&|state| _ = state.tensors.remove("mean")).contains("mean"));
        assert!(replaced("std", [f32::NAN, 1.0, 1.0, 1.0], &[2, 2]).contains("finite"));
        assert!(replaced("prompt", [1.0; 4], &[2, 2]).contains("[2, 1, 2]"));
    }
}
