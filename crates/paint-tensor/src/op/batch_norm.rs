//! Batch norm over `[B, C, ..]`, with the statistics of training, of the batch, or a mix of both.
//!
//! Letters: `μ_r, v_r` running mean and variance, `μ_b, v_b` those of the batch, `a` the share of the batch, `n` the
//! elements of a channel. With `μ = (1 - a) μ_r + a μ_b`, `v` alike and `r = 1 / sqrt(v + ε)`,
//!
//! `y = γ r (x - μ) + β`, and backward, with `S₁ = Σ dy` and `S₂ = Σ dy (x - μ)` over a channel,
//! `dγ = r S₂`, `dβ = S₁`, `dx = γ r (dy - a S₁ / n - a r² S₂ (x - μ_b) / n)`.
//!
//! A ReLU behind the norm, and a residual between the two, are part of the same passes over memory.

mod several;

use crate::backend::{After, Gate, Storage};
use crate::shape::split_at;
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

/// Which statistics a batch norm uses. It never updates the running ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum BnMode {
    /// The running statistics, from training.
    #[default]
    Running,
    /// Mean and biased variance of the batch; gradients pass through them.
    Batch,
    /// A mix of both.
    Mixed {
        /// The weight of the batch's statistics: 0 is [`BnMode::Running`], 1 is [`BnMode::Batch`].
        batch: f32,
    },
}

impl BnMode {
    fn share(self) -> f32 {
        match self {
            Self::Running => 0.0,
            Self::Batch => 1.0,
            Self::Mixed { batch } => batch,
        }
    }
}

/// What a batch norm reads besides its input, each `[C]`.
#[derive(Debug, Clone, Copy)]
pub struct BatchNorm<'a> {
    /// `γ`.
    pub scale: &'a Tensor,
    /// `β`.
    pub shift: &'a Tensor,
    /// `μ_r`; no gradient reaches it.
    pub running_mean: &'a Tensor,
    /// `v_r`; no gradient reaches it.
    pub running_var: &'a Tensor,
    /// `ε`.
    pub eps: f32,
    /// Which statistics are used.
    pub mode: BnMode,
    /// How many rows make up a batch, where the input is several batches, one after another. Each then has its own
    /// statistics, through which no gradient passes.
    pub batch_size: Option<usize>,
}

/// Mean and variance of the channels of a batch, each `[C]`.
#[derive(Debug, Clone)]
pub struct Moments {
    /// `μ_b`.
    pub mean: Tensor,
    /// `v_b`, divided by the count.
    pub variance: Tensor,
    /// `n`, the elements of a channel.
    pub count: usize,
}

/// What follows a norm.
#[derive(Clone, Copy)]
enum Then<'a> {
    Nothing,
    /// ReLU, of the sum with a residual if there is one.
    Relu(Option<&'a Tensor>),
}

impl Tensor {
    /// Batch norm over all axes but the second.
    pub fn batch_norm(&self, norm: &BatchNorm<'_>) -> Result<Self> {
        Ok(self.batch_norm_with_moments(norm)?.0)
    }

    /// [`Tensor::batch_norm`], and the moments of the batch, if they were used and there was only one.
    pub fn batch_norm_with_moments(&self, norm: &BatchNorm<'_>) -> Result<(Self, Option<Moments>)> {
        self.normalised(norm, Then::Nothing)
    }

    /// `relu(residual + batch_norm(x))`, and the moments of the batch, if they were used and there was only one.
    pub fn batch_norm_relu(
        &self,
        norm: &BatchNorm<'_>,
        residual: Option<&Self>,
    ) -> Result<(Self, Option<Moments>)> {
        if let Some(residual) = residual {
            if residual.shape() != self.shape() {
                let expected = format!("{:?}", self.shape());
                return Err(residual.shape_error("batch_norm residual", expected));
            }
            self.device().check_same(residual.device(), "batch_norm")?;
        }
        self.normalised(norm, Then::Relu(residual))
    }

    fn normalised(&self, norm: &BatchNorm<'_>, then: Then<'_>) -> Result<(Self, Option<Moments>)> {
        let split = split_at(self.shape(), 1, "batch_norm")?;
        let c = split[1];
        for vector in [norm.scale, norm.shift, norm.running_mean, norm.running_var] {
            if vector.shape() != [c] {
                return Err(vector.shape_error("batch_norm vector", format!("[{c}]")));
            }
            self.device().check_same(vector.device(), "batch_norm")?;
        }
        norm.running_mean.refuse_gradient("batch_norm of running statistics")?;
        norm.running_var.refuse_gradient("batch_norm of running statistics")?;
        let share = norm.mode.share();
        if !(0.0..=1.0).contains(&share) || self.elem_count() == 0 {
            return Err(self.shape_error("batch_norm input", "elements, and a share in [0, 1]"));
        }
        if let Some(rows) = norm.batch_size
            && (rows == 0 || split[0] % rows != 0)
        {
            let expected = format!("a multiple of {rows} rows, which make up a batch");
            return Err(self.shape_error("batch_norm of several batches", expected));
        }
        if let Some(rows) = norm.batch_size.filter(|&rows| share > 0.0 && rows != split[0]) {
            return Ok((self.normalised_by_batch(norm, rows, then, split)?, None));
        }
        let (backend, device) = (self.device().backend(), self.device());
        let (mut mean, mut variance) = (norm.running_mean.clone(), norm.running_var.clone());
        let (mut batch_mean, mut moments) = (None, None);
        if share > 0.0 {
            let (of_batch, spread) = backend.channel_moments(self.storage(), split)?;
            let of_batch = Self::frozen(vec![c], of_batch, device.clone());
            let spread = Self::frozen(vec![c], spread, device.clone());
            let count = self.elem_count() / c;
            moments = Some(Moments { mean: of_batch.clone(), variance: spread.clone(), count });
            if share < 1.0 {
                mean = mean.lerp(&of_batch, share)?;
                variance = variance.lerp(&spread, share)?;
            } else {
                (mean, variance) = (of_batch.clone(), spread);
            }
            batch_mean = Some(of_batch);
        }
        let rstd = variance.add_scalar(norm.eps)?.sqrt()?;
        let rstd = Self::full([c], 1.0, device)?.div(&rstd)?;
        let scale = norm.scale.detach().mul(&rstd)?;
        let shift = norm.shift.detach().sub(&mean.mul(&scale)?)?;
        let (after, residual) = match then {
            Then::Nothing => (After::Nothing, None),
            Then::Relu(residual) => (After::Relu(residual.map(Self::storage)), residual),
        };
        let coefficients = [scale.storage(), shift.storage()];
        let out = backend.channel_affine(self.storage(), coefficients, after, split)?;
        let untracked = None;
        let of_residual = residual.map_or(&untracked, |residual| residual.link());
        let links = [self.link(), norm.scale.link(), norm.shift.link(), of_residual];
        let y = out.clone();
        let out = self.derived(self.shape().to_vec(), out, &links, || {
            let reads_x =
                norm.scale.requires_grad() || (self.requires_grad() && batch_mean.is_some());
            let relu = match then {
                Then::Nothing => Relu::None,
                // The input, which is read anyway, says where the ReLU was open.
                Then::Relu(None) if reads_x => Relu::ByInput(shift),
                Then::Relu(_) => Relu::ByResult(y),
            };
            BatchNormRule {
                links: links.map(Clone::clone),
                split,
                share,
                x: reads_x.then(|| self.detach()),
                scale,
                mean,
                batch_mean,
                rstd,
                relu,
            }
        });
        Ok((out, moments))
    }
}

/// Where the backward pass finds out whether a ReLU was open.
enum Relu {
    None,
    /// `γ r x + shift` was above zero.
    ByInput(Tensor),
    /// The result is above zero.
    ByResult(Storage),
}

struct BatchNormRule {
    /// Those of the input, `γ`, `β` and the residual.
    links: [Link; 4],
    split: [usize; 3],
    share: f32,
    /// Read by the gradient of `γ`, and by that of the input where the batch has a share.
    x: Option<Tensor>,
    /// `γ r`.
    scale: Tensor,
    /// `μ`.
    mean: Tensor,
    /// `μ_b`, where the batch has a share.
    batch_mean: Option<Tensor>,
    rstd: Tensor,
    relu: Relu,
}

impl Rule for BatchNormRule {
    fn backward(&self, mut grad: Tensor, sink: &mut Sink) -> Result<()> {
        let device = grad.device().clone();
        let backend = device.backend();
        let [outer, c, inner] = self.split;
        let vector = |storage| Tensor::frozen(vec![c], storage, device.clone());
        let images =
            |storage, shape: &[usize]| Tensor::frozen(shape.to_vec(), storage, device.clone());
        if let Relu::ByResult(y) = &self.relu {
            grad = images(backend.relu_backward(y, grad.storage())?, grad.shape());
            sink.add_to(&self.links[3], || Ok(grad.clone()))?;
        }
        let Some(x) = &self.x else {
            sink.add_to(&self.links[0], || {
                let zeros = Tensor::zeros([c], &device)?;
                let coefficients = [self.scale.storage(), zeros.storage()];
                let (dy, split) = (grad.storage(), self.split);
                let dx = backend.channel_affine(dy, coefficients, After::Nothing, split)?;
                Ok(images(dx, grad.shape()))
            })?;
            return sink.add_to(&self.links[2], || grad.reshape(self.split)?.sum(2)?.sum(0));
        };
        let gate = match &self.relu {
            Relu::ByInput(shift) => {
                Some(Gate { scale: self.scale.storage(), shift: shift.storage() })
            }
            Relu::None | Relu::ByResult(_) => None,
        };
        let operands = [x.storage(), grad.storage()];
        let (s1, s2) =
            backend.channel_gradient_sums(operands, self.mean.storage(), gate, self.split)?;
        let (s1, s2) = (vector(s1), vector(s2));
        sink.add_to(&self.links[0], || {
            let (mut b, mut c) = (Tensor::zeros([c], &device)?, Tensor::zeros([c], &device)?);
            if let Some(batch_mean) = &self.batch_mean {
                let part = self.scale.scale(-self.share / (outer * inner) as f32)?;
                b = part.mul(&self.rstd)?.mul(&self.rstd)?.mul(&s2)?;
                c = part.mul(&s1)?.sub(&b.mul(batch_mean)?)?;
            }
            let coefficients = [self.scale.storage(), b.storage(), c.storage()];
            let dx = backend.channel_combine(operands, coefficients, gate, self.split)?;
            Ok(images(dx, grad.shape()))
        })?;
        sink.add_to(&self.links[1], || self.rstd.mul(&s2))?;
        sink.add_to(&self.links[2], || Ok(s1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    /// The result, and the gradients of a sum weighted by position, with the ReLU inside or behind.
    fn run(mode: BnMode, with_residual: bool, fused: bool) -> Vec<Vec<f32>> {
        let device = Device::cpu();
        let wave =
            |len: usize, phase: f32| (0..len).map(|i| (i as f32 * 1.7 + phase).sin()).collect();
        let tensor = |phase, shape: &[usize]| {
            Tensor::from_vec(wave(shape.iter().product(), phase), shape, &device).unwrap()
        };
        let shape = [3, 4, 5, 7];
        let variables = [
            tensor(0.1, &shape).variable(),
            tensor(0.2, &[4]).variable(),
            tensor(0.3, &[4]).variable(),
            tensor(0.4, &shape).variable(),
        ];
        let [x, scale, shift, residual] = &variables;
        let (running_mean, running_var) =
            (&tensor(0.5, &[4]), &tensor(0.6, &[4]).add_scalar(2.0).unwrap());
        let batch_size = None;
        let norm =
            BatchNorm { scale, shift, running_mean, running_var, eps: 1e-5, mode, batch_size };
        let residual = with_residual.then_some(residual);
        let y = if fused {
            x.batch_norm_relu(&norm, residual).unwrap().0
        } else {
            let y = x.batch_norm(&norm).unwrap();
            residual.map_or(Ok(y.clone()), |residual| residual.add(&y)).unwrap().relu().unwrap()
        };
        let loss = y.mul(&tensor(0.7, &shape)).unwrap().sum_all().unwrap();
        let gradients = loss.backward().unwrap();
        let found = variables.iter().filter_map(|variable| gradients.get(variable));
        std::iter::once(&y).chain(found).map(|tensor| tensor.to_vec().unwrap()).collect()
    }

    #[test]
    fn a_relu_inside_gives_the_bits_of_one_behind() {
        for mode in [BnMode::Running, BnMode::Batch, BnMode::Mixed { batch: 0.3 }] {
            for with_residual in [false, true] {
                let found = run(mode, with_residual, true);
                assert_eq!(found.len(), if with_residual { 5 } else { 4 });
                assert!(found[0].contains(&0.0) && found[0].iter().any(|&y| y > 0.0));
                assert_eq!(found, run(mode, with_residual, false), "{mode:?} {with_residual}");
            }
        }
    }
}
