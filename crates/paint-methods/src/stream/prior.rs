//! Class-correlated streams: a test with memory over batches, and predictions corrected for the classes that come.

use paint_nn::state::State;
use paint_tensor::{Device, Tensor};

use crate::Result;

/// How much of its past the test keeps from batch to batch.
const KEEP: f32 = 0.8;
/// `z` from which a stream counts as correlated.
const SURE: f32 = 3.0;
/// And the share of neighbours of one class beyond chance.
const MARGIN: f32 = 0.1;
/// Neighbours, with a fading past, that can tell.
const ENOUGH: f32 = 16.0;
/// Classes of which half make a mixed stream, however many there are.
const MANY: usize = 8;
/// `T`, the temperature of the logits.
const TEMPERATURE: f64 = 1.5;
/// `a`, images that every class counts for beside those seen.
const SMOOTHING: f64 = 0.3;
/// Rounds of expectation and maximisation.
const ROUNDS: usize = 20;
/// As many images back, a prediction counts for 1/e in the classes' shares.
const FADING: f32 = 500.0;
/// The fewest images whose classes tell those of the stream.
const FEWEST: usize = 8;

/// Whether neighbours share their class more often than independent draws would.
///
/// Chance is the agreement of the batch's classes with those before it, not with all classes alike: a model that takes
/// every other image of a new domain for a frog raises no alarm once that domain has been seen.
#[derive(Debug, Clone)]
pub(crate) struct Correlation {
    /// How often each class was predicted, one added, with a fading past.
    counts: Vec<f32>,
    /// Equal neighbours beyond those expected, their variance, and all neighbours, each with a fading past.
    sums: [f32; 3],
    /// The class of the last image, plus one; 0 before the first.
    last: u64,
}

impl Correlation {
    pub(crate) fn new(classes: usize) -> Self {
        Self { counts: vec![1.0; classes], sums: [0.0; 3], last: 0 }
    }

    /// `K`.
    pub(crate) fn classes(&self) -> usize {
        self.counts.len()
    }

    /// Whether what has been seen is correlated.
    pub(crate) fn holds(&self) -> bool {
        let [excess, variance, pairs] = self.sums;
        pairs > 0.0 && excess > SURE * variance.sqrt() && excess > MARGIN * pairs
    }

    /// Whether enough has been seen to tell.
    pub(crate) fn is_known(&self) -> bool {
        self.sums[2] >= ENOUGH
    }

    /// Whether the last hundreds of predictions are of few classes, in whatever order: a run longer than the test's
    /// memory.
    pub(crate) fn is_concentrated(&self) -> bool {
        self.is_known() && self.effective_classes() < self.classes().min(MANY) as f64 / 2.0
    }

    /// The share of neighbours of one class beyond chance: 0 for independent draws, 1 where nothing else comes.
    pub(crate) fn strength(&self) -> f64 {
        let [excess, _, pairs] = self.sums;
        let chance = self.concentration();
        f64::from((excess / (pairs * (1.0 - chance)).max(1.0)).clamp(0.0, 1.0))
    }

    /// The probability that two predictions of the last hundreds agree.
    fn concentration(&self) -> f32 {
        let total: f32 = self.counts.iter().sum();
        self.counts.iter().map(|count| (count / total).powi(2)).sum()
    }

    /// As many classes, each as frequent as the others, are as concentrated as the last hundreds of predictions.
    pub(crate) fn effective_classes(&self) -> f64 {
        1.0 / f64::from(self.concentration())
    }

    /// Looks at the predicted classes of a batch.
    pub(crate) fn observe(&mut self, predicted: &[usize]) {
        let total: f32 = self.counts.iter().sum();
        let shares = predicted.iter().map(|&class| self.counts[class] / total);
        let chance = shares.sum::<f32>() / predicted.len().max(1) as f32;
        let before = self.last.checked_sub(1).map(|class| class as usize);
        let classes: Vec<usize> = before.into_iter().chain(predicted.iter().copied()).collect();
        let pairs = (classes.len() - 1) as f32;
        let equal = classes.windows(2).filter(|pair| pair[0] == pair[1]).count() as f32;
        let new = [equal - chance * pairs, chance * (1.0 - chance) * pairs, pairs];
        // A single image is a small part of a batch, and fades the past as little.
        let keep = KEEP.powf((predicted.len() as f32 / 50.0).min(1.0));
        self.sums.iter_mut().zip(new).for_each(|(sum, new)| *sum = *sum * keep + new);
        let fade = (-(predicted.len() as f32) / FADING).exp();
        self.counts.iter_mut().for_each(|count| *count *= fade);
        predicted.iter().for_each(|&class| self.counts[class] += 1.0);
        self.last = predicted.last().map_or(self.last, |&class| class as u64 + 1);
    }

    pub(crate) fn save(&self) -> Result<State> {
        let mut state = State::default();
        let tensor = |data: Vec<f32>| Tensor::from_vec(data.clone(), [data.len()], &Device::cpu());
        state.tensors.insert("counts".into(), tensor(self.counts.clone())?);
        state.tensors.insert("sums".into(), tensor(self.sums.to_vec())?);
        state.counters.insert("last".into(), self.last);
        Ok(state)
    }

    pub(crate) fn load(state: &State, classes: usize) -> Result<Self> {
        let (counts, sums) = (state.tensor("counts")?.to_vec()?, state.tensor("sums")?.to_vec()?);
        let last = state.counter("last")?;
        match <[f32; 3]>::try_from(sums) {
            Ok(sums) if counts.len() == classes && last <= classes as u64 => {
                Ok(Self { counts, sums, last })
            }
            _ => Err(crate::Error::State {
                expected: format!("counts of {classes} classes and three sums"),
                found: format!("{} counts", counts.len()),
            }),
        }
    }
}

/// [`shifted`] by the classes' shares in the batch itself, where they explain it better than equal shares would by more
/// than chance: `Σ ln(K Σ_k π_k p_k) > min(K - 1, B)`. A batch of fewer than [`FEWEST`] images stays as it is.
pub(crate) fn corrected(logits: &Tensor) -> Result<Tensor> {
    let [b, k] = logits.dims2("logits")?;
    let p = tempered(&logits.to_vec()?, k);
    let shares = shares_of(&p, k);
    let likelihood = |p: &[f64]| -> f64 { p.iter().zip(&shares).map(|(p, s)| p * s).sum() };
    let gain: f64 = p.chunks_exact(k).map(|p| (k as f64 * likelihood(p)).ln()).sum();
    if b < FEWEST || gain <= (k - 1).min(b) as f64 {
        return Ok(logits.clone());
    }
    shifted(logits, &shares, 1.0)
}

/// Probabilities of rows of `k` logits, at the temperature.
fn tempered(rows: &[f32], k: usize) -> Vec<f64> {
    let z: Vec<f64> = rows.iter().map(|&z| f64::from(z) / TEMPERATURE).collect();
    z.chunks_exact(k).flat_map(softmax).collect()
}

/// `π`, the classes' shares among rows of `k` logits, by expectation and maximisation (Saerens et al. 2002). Equal
/// where there are fewer than [`FEWEST`] rows.
pub(crate) fn shares(rows: &[f32], k: usize) -> Vec<f64> {
    shares_of(&tempered(rows, k), k)
}

/// The same of rows of probabilities.
fn shares_of(p: &[f64], k: usize) -> Vec<f64> {
    let mut shares = vec![1.0 / k as f64; k];
    let count = p.len() / k;
    if count < FEWEST {
        return shares;
    }
    for _ in 0..ROUNDS {
        let mut sums = vec![SMOOTHING; k];
        for row in p.chunks_exact(k) {
            let total: f64 = row.iter().zip(&shares).map(|(p, s)| p * s).sum();
            sums.iter_mut()
                .zip(row.iter().zip(&shares))
                .for_each(|(sum, (p, s))| *sum += p * s / total);
        }
        shares = sums.iter().map(|sum| sum / (count as f64 + SMOOTHING * k as f64)).collect();
    }
    shares
}

/// `z / T + w ln(K π)`.
pub(crate) fn shifted(logits: &Tensor, shares: &[f64], weight: f64) -> Result<Tensor> {
    let [b, k] = logits.dims2("logits")?;
    let shift: Vec<f64> = shares.iter().map(|share| weight * (k as f64 * share).ln()).collect();
    let shifted = |(at, z): (usize, &f32)| (f64::from(*z) / TEMPERATURE + shift[at % k]) as f32;
    let out = logits.to_vec()?.iter().enumerate().map(shifted).collect();
    Ok(Tensor::from_vec(out, [b, k], logits.device())?)
}

fn softmax(z: &[f64]) -> Vec<f64> {
    let largest = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = z.iter().map(|z| (z - largest).exp()).collect();
    let total: f64 = e.iter().sum();
    e.iter().map(|e| e / total).collect()
}

#[cfg(test)]
mod tests {
    use paint_rng::Seed;

    use super::*;

    #[test]
    fn independent_classes_are_not_called_correlated_and_runs_are_and_stay_so() {
        for k in [2, 10, 1000] {
            let mut rng = Seed(k as u64).derive("prior", &[]);
            let mut test = Correlation::new(k);
            for _ in 0..200 {
                test.observe(
                    &(0..50).map(|_| (rng.uniform() * k as f64) as usize).collect::<Vec<_>>(),
                );
                assert!(!test.holds(), "{k} classes");
            }
            for class in 0..k.min(10) {
                test.observe(&[class; 50]);
                test.observe(&[class; 50]);
            }
            assert!(test.holds(), "{k} classes");
        }
    }

    #[test]
    fn a_model_that_falls_for_one_class_in_a_new_domain_is_not_a_run_of_it() {
        let mut rng = Seed(7).derive("prior", &[]);
        let mut test = Correlation::new(10);
        let alarms: Vec<bool> = (0..60)
            .map(|batch| {
                let of_one = if batch < 20 { 0.1 } else { 0.45 };
                let draw = |_| {
                    if rng.uniform() < of_one { 3 } else { (rng.uniform() * 10.0) as usize }
                };
                test.observe(&(0..50).map(draw).collect::<Vec<_>>());
                test.holds()
            })
            .collect();
        assert!(!alarms[..20].contains(&true) && !alarms[35..].contains(&true), "{alarms:?}");
    }

    #[test]
    fn single_images_are_neighbours_of_those_before() {
        let mut test = Correlation::new(10);
        (0..300).for_each(|i| test.observe(&[i / 100]));
        assert!(test.holds());
    }

    #[test]
    fn a_batch_of_mixed_classes_stays_as_it_is() {
        let row = |i: usize| (0..5).map(move |c| if c == i % 5 { 2.0 } else { 0.0 });
        let rows: Vec<f32> = (0..30).flat_map(row).collect();
        let logits = Tensor::from_vec(rows.clone(), [30, 5], &Device::cpu()).unwrap();
        assert_eq!(corrected(&logits).unwrap().to_vec().unwrap(), rows);
    }

    #[test]
    fn a_class_that_never_comes_loses_to_one_that_does() {
        let rows: Vec<f32> =
            (0..20).flat_map(|i| if i == 0 { [1.0, 1.2, 0.0] } else { [4.0, 0.0, 0.0] }).collect();
        let logits = Tensor::from_vec(rows, [20, 3], &Device::cpu()).unwrap();
        assert_eq!(logits.argmax().unwrap()[0], 1);
        assert_eq!(corrected(&logits).unwrap().argmax().unwrap()[0], 0);
    }
}
