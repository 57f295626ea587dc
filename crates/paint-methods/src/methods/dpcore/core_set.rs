//! The core set: prompts, and what the batches were like that they belong to.

use paint_nn::loss;
use paint_nn::state::State;
use paint_tensor::Tensor;

use crate::{Error, Result};

/// Mean and deviation of features over a batch, `[D]` each; one image has no deviation.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    mean: Tensor,
    std: Option<Tensor>,
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

    /// The same, with the deviation of `other` where it has none.
    pub(super) fn or_deviation_of(self, other: &Self) -> Self {
        Self { mean: self.mean, std: self.std.or_else(|| other.std.clone()) }
    }
}

/// A prompt and its batches.
#[derive(Debug, Clone)]
pub(super) struct Core {
    pub(super) moments: Moments,
    /// `[L, D]`.
    pub(super) prompt: Tensor,
}

/// All of them, in the order of their making.
#[derive(Debug, Clone, Default)]
pub(super) struct CoreSet {
    cores: Vec<Core>,
}

impl CoreSet {
    pub(super) fn len(&self) -> usize {
        self.cores.len()
    }

    pub(super) fn push(&mut self, core: Core) {
        self.cores.push(core);
    }

    /// How much each prompt has to say for a batch, and their mix (Eq. 2); none of an empty set.
    pub(super) fn mix(
        &self,
        batch: &Moments,
        temperature: f64,
    ) -> Result<Option<(Vec<f32>, Tensor)>> {
        let [first, rest @ ..] = self.cores.as_slice() else { return Ok(None) };
        let far = |core: &Core| Ok(f64::from(batch.distance(&core.moments)?.item()?));
        let far: Vec<f64> = self.cores.iter().map(far).collect::<Result<_>>()?;
        let nearest = far.iter().copied().fold(f64::INFINITY, f64::min);
        let shares: Vec<f64> = far.iter().map(|d| (-(d - nearest) / temperature).exp()).collect();
        let total: f64 = shares.iter().sum();
        let weights: Vec<f32> = shares.iter().map(|share| (share / total) as f32).collect();
        let mut prompt = first.prompt.scale(weights[0])?;
        for (core, weight) in rest.iter().zip(&weights[1..]) {
            prompt = prompt.add(&core.prompt.scale(*weight)?)?;
        }
        Ok(Some((weights, prompt)))
    }

    /// Moves every core towards a batch and its prompt (Eq. 3).
    pub(super) fn follow(
        &mut self,
        weights: &[f32],
        alpha: f64,
        batch: &Moments,
        prompt: &Tensor,
    ) -> Result<()> {
        for (core, w) in self.cores.iter_mut().zip(weights) {
            let share = (alpha * f64::from(*w)) as f32;
            core.moments.mean = core.moments.mean.lerp(&batch.mean, share)?.detach();
            if let (Some(std), Some(of_batch)) = (&core.moments.std, &batch.std) {
                let upwards = of_batch.sub(std)?.relu()?.scale(share)?;
                core.moments.std = Some(std.add(&upwards)?.detach());
            }
            core.prompt = core.prompt.lerp(&prompt.detach(), share)?;
        }
        Ok(())
    }

    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        state.counters.insert("count".into(), self.cores.len() as u64);
        for (at, core) in self.cores.iter().enumerate() {
            let std = core.moments.std.as_ref().map(|std| ("std", std));
            let always = [("mean", &core.moments.mean), ("prompt", &core.prompt)];
            for (name, tensor) in always.into_iter().chain(std) {
                state.tensors.insert(format!("{at}/{name}"), tensor.clone());
            }
        }
        state
    }

    /// A state of [`CoreSet::save`] for prompts of this shape, `[L, D]`; other shapes and numbers that are not finite
    /// are refused.
    pub(super) fn load(state: &State, shape: &[usize]) -> Result<Self> {
        let width = &shape[1..];
        let fits = |name: &str, tensor: &Tensor, shape: &[usize]| {
            if tensor.shape() != shape {
                let (expected, found) =
                    (format!("{name} {shape:?}"), format!("{:?}", tensor.shape()));
                return Err(Error::State { expected, found });
            }
            match tensor.to_vec()?.iter().find(|x| !x.is_finite()) {
                Some(x) => Err(Error::State {
                    expected: format!("finite numbers in {name}"),
                    found: x.to_string(),
                }),
                None => Ok(tensor.clone()),
            }
        };
        let count = state.counter("count")?;
        let held = state.tensors.keys().filter(|name| name.ends_with("/prompt")).count() as u64;
        if held != count {
            let expected = format!("{count} prompts");
            return Err(Error::State { expected, found: held.to_string() });
        }
        let core = |at: u64| {
            let [mean, std, prompt] = ["mean", "std", "prompt"].map(|what| format!("{at}/{what}"));
            let std =
                state.tensors.get(&std).map(|tensor| fits(&std, tensor, width)).transpose()?;
            let mean = fits(&mean, state.tensor(&mean)?, width)?;
            let prompt = fits(&prompt, state.tensor(&prompt)?, shape)?;
            Ok(Core { moments: Moments { mean, std }, prompt })
        };
        Ok(Self { cores: (0..count).map(core).collect::<Result<_>>()? })
    }
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
        let prompt = |value| Tensor::full([1, 2], value, &Device::cpu()).unwrap();
        let core = |mean, std, value| Core { moments: moments(mean, std), prompt: prompt(value) };
        CoreSet {
            cores: vec![core([0.0, 0.0], [1.0, 1.0], 1.0), core([3.0, 4.0], [1.0, 1.0], 5.0)],
        }
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
        let Core { moments, prompt } = &set.cores[0];
        assert_eq!(moments.mean.to_vec().unwrap(), [1.0, 1.0]);
        assert_eq!(moments.std.as_ref().unwrap().to_vec().unwrap(), [2.0, 1.0]);
        assert_eq!(prompt.to_vec().unwrap(), [2.0, 2.0]);
        assert_eq!(set.cores[1].moments.mean.to_vec().unwrap(), [3.0, 4.0]);
    }

    #[test]
    fn one_image_is_compared_by_its_mean() {
        let one = Moments::of(&Tensor::from_vec(vec![3.0, 4.0], [1, 2], &Device::cpu()).unwrap());
        let (one, other) = (one.unwrap(), moments([0.0, 0.0], [9.0, 9.0]));
        assert_eq!(one.distance(&other).unwrap().item().unwrap(), 5.0);
        assert_eq!(one.or_deviation_of(&other).std.unwrap().to_vec().unwrap(), [9.0, 9.0]);
    }

    #[test]
    fn a_state_that_does_not_fit_is_refused() {
        let shape = [1, 2];
        assert_eq!(CoreSet::load(&set().save(), &shape).unwrap().len(), 2);
        let refused = |spoil: fn(&mut State)| {
            let mut state = set().save();
            spoil(&mut state);
            CoreSet::load(&state, &shape).unwrap_err().to_string()
        };
        assert!(refused(|s| *s.counters.get_mut("count").unwrap() = u64::MAX).contains("prompts"));
        assert!(refused(|s| drop(s.tensors.remove("1/mean"))).contains("1/mean"));
        assert!(
            refused(|s| drop(s.tensors.insert("0/std".into(), row([f32::NAN, 1.0]))))
                .contains("finite")
        );
        assert!(
            refused(|s| drop(s.tensors.insert("0/prompt".into(), row([1.0, 1.0]))))
                .contains("[1, 2]")
        );
    }
}
