//! How much each parameter matters to the source: the diagonal Fisher information, as EATA estimates it (its Eq. 9).
//!
//! `F_j = (1/N) Σ_n (∂L_n/∂θ_j)²` over `N` batches of source images, where `L_n` is the mean cross-entropy of batch
//! `n` with the model's own predictions as labels. Like the authors' code, this squares the mean gradient of a batch.

use paint_nn::loss;
use paint_nn::params::ParamId;
use paint_tensor::Tensor;

use crate::Result;
use crate::learner::Learner;

/// The estimate, and the parameter values it was made at.
#[derive(Debug, Clone)]
pub(crate) struct Fisher(Vec<Weight>);

/// `F_j` and `θ_j` of the source, for all elements of one parameter.
#[derive(Debug, Clone)]
struct Weight {
    id: ParamId,
    information: Tensor,
    source: Tensor,
}

impl Fisher {
    /// From `[M, 3, H, W]` source images in batches of `batch`, for what the learner trains. It is frozen afterwards.
    pub(crate) fn estimate(learner: &mut Learner, images: &Tensor, batch: usize) -> Result<Self> {
        let m = images.shape()[0];
        let mut sums: Vec<(ParamId, Tensor)> = Vec::new();
        learner.track();
        for start in (0..m).step_by(batch) {
            let z = learner.logits(&images.slice(0, start, batch.min(m - start))?)?;
            let gradients = loss::cross_entropy(&z, &z.argmax()?)?.mean_all()?.backward()?;
            for (place, (id, g)) in
                learner.model().params().gradients(&gradients).into_iter().enumerate()
            {
                let square = g.mul(&g)?;
                match sums.get_mut(place) {
                    Some((_, sum)) => *sum = sum.add(&square)?,
                    None => sums.push((id, square)),
                }
            }
        }
        learner.freeze();
        let share = 1.0 / m.div_ceil(batch) as f32;
        let weight = |(id, sum): (ParamId, Tensor)| {
            Ok(Weight {
                id,
                information: sum.scale(share)?,
                source: learner.source().params()[id].clone(),
            })
        };
        Ok(Self(sums.into_iter().map(weight).collect::<Result<_>>()?))
    }

    /// `Σ_j F_j (θ_j − θ_j^src)²`, with gradients where the learner is tracked.  → `[]`
    pub(crate) fn penalty(&self, learner: &Learner) -> Result<Tensor> {
        let mut total = Tensor::zeros([], &learner.device())?;
        for Weight { id, information, source } in &self.0 {
            let moved = learner.model().params()[*id].sub(source)?;
            total = total.add(&moved.mul(&moved)?.mul(information)?.sum_all()?)?;
        }
        Ok(total)
    }
}
