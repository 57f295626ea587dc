//! Which samples are confident enough to learn from: those with an entropy below a margin, as in ETA, EATA, SAR and
//! `DeYO`.

use paint_nn::loss;
use paint_settings::choice;
use paint_tensor::Tensor;

use crate::Result;

choice! {
    /// The entropy that TENT, ETA, EATA and SAR minimise.
    #[derive(Default)]
    pub enum EntropyLoss {
        /// Of the predicted probabilities.
        #[default]
        Entropy = "entropy",
        /// Of the opinion that logits are evidence for (COME).
        Come = "come",
    }
}

impl EntropyLoss {
    /// `[B, C]` logits → `[B]`.
    pub(crate) fn of(self, logits: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Entropy => loss::entropy(logits)?,
            Self::Come => loss::opinion_entropy(logits)?,
        })
    }
}

/// The entropies of a batch.
pub(crate) struct Entropies {
    /// `[B]`, with gradients.
    pub(crate) tensor: Tensor,
    /// The same numbers.
    pub(crate) values: Vec<f32>,
    /// `E₀`, the margin in nats.
    pub(crate) margin: f32,
}

impl Entropies {
    /// Of `[B, C]` logits, with the margin `e0 ln C`.
    pub(crate) fn new(logits: &Tensor, e0: f64) -> Result<Self> {
        Self::of(EntropyLoss::Entropy, logits, e0)
    }

    /// The same of another entropy.
    pub(crate) fn of(loss: EntropyLoss, logits: &Tensor, e0: f64) -> Result<Self> {
        let [_, c] = logits.dims2("logits")?;
        let tensor = loss.of(logits)?;
        let values = tensor.to_vec()?;
        Ok(Self { tensor, values, margin: (e0 * (c as f64).ln()) as f32 })
    }

    /// The samples of `among` with `E_i < E₀`.
    pub(crate) fn reliable(&self, among: impl IntoIterator<Item = usize>) -> Vec<usize> {
        among.into_iter().filter(|&i| self.values[i] < self.margin).collect()
    }

    /// The mean over some samples; over none, it and its gradients are 0.  → `[]`
    pub(crate) fn mean_of(&self, samples: &[usize]) -> Result<Tensor> {
        mean_of(&self.tensor, samples)
    }
}

/// The mean over some rows of `[B]`; over none, it and its gradients are 0.  → `[]`
pub(crate) fn mean_of(values: &Tensor, rows: &[usize]) -> Result<Tensor> {
    Ok(values.gather(rows)?.sum_all()?.scale(1.0 / rows.len().max(1) as f32)?)
}

#[cfg(test)]
mod tests {
    use paint_tensor::Device;

    use super::*;

    #[test]
    fn confident_samples_pass_and_unsure_ones_do_not() {
        let z =
            Tensor::from_vec(vec![0.0, 0.0, 9.0, 0.0, 0.0, 1.0], [3, 2], &Device::cpu()).unwrap();
        // Entropies ln 2 = 0.693, 0.001 and 0.582 against 0.9 ln 2 = 0.624.
        let entropies = Entropies::new(&z, 0.9).unwrap();
        assert_eq!(entropies.reliable(0..3), [1, 2]);
        assert_eq!(entropies.reliable([0, 2]), [2]);
    }

    #[test]
    fn the_mean_over_no_sample_is_zero_and_so_is_its_gradient() {
        let z = Tensor::from_vec(vec![0.0, 1.0], [1, 2], &Device::cpu()).unwrap().variable();
        let mean = Entropies::of(EntropyLoss::Come, &z, 0.5).unwrap().mean_of(&[]).unwrap();
        assert_eq!(mean.item().unwrap(), 0.0);
        let gradients = mean.backward().unwrap();
        assert_eq!(gradients.get(&z).unwrap().to_vec().unwrap(), [0.0, 0.0]);
    }
}
