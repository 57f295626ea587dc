//! Which samples are sure enough to teach, and how they are mixed (Eq. 7 and 8).

use paint_nn::loss::MixedLabels;
use paint_tensor::Tensor;

use super::choice::{Bound, MixInput};
use super::{Config, Paint};
use crate::Result;
use crate::draws::Draws;
use crate::views::{self, Padding};

/// Pseudo labels (Eq. 7).
pub(super) struct PseudoLabels {
    /// The predicted class of every sample.
    pub(super) labels: Vec<usize>,
    /// `S`: the samples whose prediction is confident, ascending.
    pub(super) confident: Vec<usize>,
}

impl PseudoLabels {
    /// Reads `[B, C]` logits.
    pub(super) fn read(logits: &Tensor, config: &Config) -> Result<Self> {
        let labels = logits.argmax()?;
        let [_, c] = logits.dims2("logits")?;
        let p = logits.softmax()?.to_vec()?;
        let confident = |i: &usize| {
            let row = &p[i * c..(i + 1) * c];
            let first = f64::from(row[labels[*i]]);
            let others = row.iter().enumerate().filter(|(k, _)| *k != labels[*i]);
            let second = others.map(|(_, p)| f64::from(*p)).fold(0.0, f64::max);
            let sure = match config.phi_bound {
                Bound::Strict => first > config.phi,
                Bound::Inclusive => first >= config.phi,
            };
            sure && second <= config.phi_second
        };
        let confident = (0..labels.len()).filter(confident).collect();
        Ok(Self { labels, confident })
    }
}

/// How the confident samples are paired (Eq. 8): the `i`-th with the one at `order[i]`.
pub(super) struct Mix {
    order: Vec<usize>,
    lambda: f32,
    first: Vec<usize>,
    second: Vec<usize>,
}

impl Mix {
    pub(super) fn draw(pseudo: &PseudoLabels, draws: &dyn Draws, step: u64, alpha: f64) -> Self {
        let order = draws.permutation(step, pseudo.confident.len());
        let first: Vec<usize> = pseudo.confident.iter().map(|&i| pseudo.labels[i]).collect();
        let second = order.iter().map(|&i| first[i]).collect();
        Self { order, lambda: draws.lambda(step, alpha), first, second }
    }

    /// `λ x_n + (1 − λ) x_π(n)` over the confident samples, `[|S|, ..]` → the same.
    pub(super) fn blend(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.gather(&self.order)?.lerp(x, self.lambda)?)
    }

    pub(super) fn labels(&self) -> MixedLabels<'_> {
        MixedLabels { first: &self.first, second: &self.second, lambda: self.lambda }
    }
}

impl Paint {
    /// The embedding of the mixed samples, `[|S|, N, D]`, from the images and their embedding.
    pub(super) fn mixed_embedding(
        &self,
        confident: &[usize],
        mix: &Mix,
        images: &Tensor,
        embedding: &Tensor,
    ) -> Result<Tensor> {
        match self.config.mix {
            MixInput::Images => mix.blend(&embedding.gather(confident)?),
            MixInput::Views => {
                let images = images.detach().gather(confident)?;
                let [_, c, h, w] = images.dims4("images")?;
                let view = self.draws.view(self.step, [h, w], Padding::None);
                let noise = self.draws.noise(self.step, confident, c * h * w);
                mix.blend(&self.source.embed(&views::apply(&[(view, noise)], &images)?)?)
            }
        }
    }
}
