//! Where the released code departs from Algorithm 1, in one place, so that the step itself reads as the paper prints
//! it. The numbers are those of the table under [*Fidelity*](super#fidelity).
//!
//! D11 and D13 belong to the memory ([`Config::memory`]). The other rows of the table are values, or select what
//! trains.

use paint_nn::loss::{self, MixedLabels};
use paint_tensor::Tensor;

use super::choice::{Bound, Denominator, LossForm, MixInput, Retrieval};
use super::config::Config;
use crate::Result;

/// The departures of one set of settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quirks {
    loss: LossForm,
    phi_bound: Bound,
    phi_second: f64,
    mix: MixInput,
    consistency_denominator: Denominator,
    retrieval: Retrieval,
    redundant_forward: bool,
}

impl Quirks {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            loss: config.loss,
            phi_bound: config.phi_bound,
            phi_second: config.phi_second,
            mix: config.mix,
            consistency_denominator: config.consistency_denominator,
            retrieval: config.retrieval,
            redundant_forward: config.redundant_forward,
        }
    }

    /// The terms of `L_mi` (Eq. 6), the mean entropy of the predictions and the entropy of their mean; D4: of
    /// probabilities to which softmax is applied once more.  `[B, C]` logits → `[]`, `[]`
    pub(super) fn entropies(self, z: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok(match self.loss {
            LossForm::Shannon => (loss::mean_entropy(z)?, loss::marginal_entropy(z)?),
            LossForm::DoubleSoftmax => {
                (loss::double_softmax_entropy(z)?, loss::double_softmax_diversity(z)?)
            }
        })
    }

    /// `L_ic` (Eq. 9) of the mixed samples of a batch of `b`; D4 as above, D10: the mean over the mixed samples.
    /// `[|S|, C]` logits → `[]`
    pub(crate) fn consistency(
        self,
        z: &Tensor,
        labels: MixedLabels<'_>,
        b: usize,
    ) -> Result<Tensor> {
        let n = match self.consistency_denominator {
            Denominator::Batch => b,
            Denominator::Present => z.shape()[0],
        };
        Ok(match self.loss {
            LossForm::Shannon => loss::interpolation_consistency(z, labels, n)?,
            LossForm::DoubleSoftmax => loss::double_softmax_consistency(z, labels, n)?,
        })
    }

    /// Whether the largest probability of a sample is above `phi` (Eq. 7); D7: or equal, and the second not too large.
    pub(super) fn is_confident(self, phi: f64, first: f64, second: f64) -> bool {
        let above = match self.phi_bound {
            Bound::Strict => first > phi,
            Bound::Inclusive => first >= phi,
        };
        above && second <= self.phi_second
    }

    /// D8: whether augmented views are mixed in place of the images.
    pub(super) fn mixes_views(self) -> bool {
        self.mix == MixInput::Views
    }

    /// D12: whether each forward pass of a batch asks the memory and moves the key.
    pub(super) fn retrieves_at_every_forward(self) -> bool {
        self.retrieval == Retrieval::EveryForward
    }

    /// D22: whether the first forward pass is made twice, which moves the key once more.
    pub(super) fn repeats_first_forward(self) -> bool {
        self.redundant_forward
    }
}
