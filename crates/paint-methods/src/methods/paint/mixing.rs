//! Which samples are confident enough to get a pseudo label, and how they are mixed (Eq. 7 and 8).

use paint_nn::loss::MixedLabels;
use paint_tensor::{Tensor, largest};

use super::quirks::Quirks;
use crate::Result;
use crate::draws::MixDraws;

/// Pseudo labels (Eq. 7).
pub(crate) struct PseudoLabels {
    /// The predicted class of every sample.
    pub(crate) labels: Vec<usize>,
    /// `S`: the samples whose prediction is confident, ascending.
    pub(crate) confident: Vec<usize>,
}

impl PseudoLabels {
    /// What they are taken from, for `[B, C]` logits: the probabilities above the logits, `[2 B, C]`, so that the host
    /// reads both at once.
    pub(crate) fn evidence(logits: &Tensor) -> Result<Tensor> {
        Ok(Tensor::concat(&[&logits.softmax()?, logits], 0)?)
    }

    /// Those of [`Self::evidence`] as the host has it, of `b` images; `phi` is `φ`.
    pub(crate) fn of(evidence: &[f32], b: usize, phi: f64, quirks: Quirks) -> Self {
        let c = evidence.len() / (2 * b);
        let (p, logits) = evidence.split_at(b * c);
        let labels: Vec<usize> =
            logits.chunks_exact(c.max(1)).map(|row| largest(row.iter().copied())).collect();
        let confident = |i: &usize| {
            let (before, [own, after @ ..]) = p[i * c..(i + 1) * c].split_at(labels[*i]) else {
                return false;
            };
            let second = before.iter().chain(after).copied().fold(0.0, f32::max);
            quirks.is_confident(phi, f64::from(*own), f64::from(second))
        };
        let confident = (0..labels.len()).filter(confident).collect();
        Self { labels, confident }
    }
}

/// How the confident samples are paired (Eq. 8): the `i`-th with the one at `partners[i]`.
pub(crate) struct Mix {
    partners: Vec<usize>,
    lambda: f32,
    first: Vec<usize>,
    second: Vec<usize>,
}

impl Mix {
    pub(crate) fn draw(pseudo: &PseudoLabels, draws: &dyn MixDraws, step: u64, alpha: f64) -> Self {
        let partners = draws.partners(step, pseudo.confident.len());
        let first: Vec<usize> = pseudo.confident.iter().map(|&i| pseudo.labels[i]).collect();
        let second = partners.iter().map(|&i| first[i]).collect();
        Self { partners, lambda: draws.lambda(step, alpha), first, second }
    }

    /// `λ x_n + (1 − λ) x_π(n)` over the confident samples, `[|S|, ..]` → the same.
    pub(crate) fn blend(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.gather(&self.partners)?.lerp(x, self.lambda)?)
    }

    pub(crate) fn labels(&self) -> MixedLabels<'_> {
        MixedLabels { first: &self.first, second: &self.second, lambda: self.lambda }
    }
}
