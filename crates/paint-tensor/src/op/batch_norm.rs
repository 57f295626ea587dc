//! Batch norm over `[B, C, ..]`, with the statistics of training, of the batch, or a mix of both.
//!
//! Letters: `μ_r, v_r` running mean and variance, `μ_b, v_b` those of the batch, `a` the share of the batch, `n` the
//! elements of a channel. With `μ = (1 - a) μ_r + a μ_b`, `v` alike and `r = 1 / sqrt(v + ε)`,
//!
//! `y = γ r (x - μ) + β`, and backward, with `S₁ = Σ dy` and `S₂ = Σ dy (x - μ)` over a channel,
//! `dγ = r S₂`, `dβ = S₁`, `dx = γ r (dy - a S₁ / n - a r² S₂ (x - μ_b) / n)`.

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

impl Tensor {
    /// Batch norm over all axes but the second.
    pub fn batch_norm(&self, norm: &BatchNorm<'_>) -> Result<Self> {
        Ok(self.batch_norm_with_moments(norm)?.0)
    }

    /// [`Tensor::batch_norm`], and the moments of the batch if they are used.
    pub fn batch_norm_with_moments(&self, norm: &BatchNorm<'_>) -> Result<(Self, Option<Moments>)> {
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
        let out =
            backend.channel_affine(self.storage(), scale.storage(), shift.storage(), split)?;
        let links = [self.link(), norm.scale.link(), norm.shift.link()];
        let out = self.derived(self.shape().to_vec(), out, &links, || {
            let reads_x =
                norm.scale.requires_grad() || (self.requires_grad() && batch_mean.is_some());
            BatchNormRule {
                links: links.map(Clone::clone),
                split,
                share,
                x: reads_x.then(|| self.detach()),
                scale,
                mean,
                batch_mean,
                rstd,
            }
        });
        Ok((out, moments))
    }
}

struct BatchNormRule {
    links: [Link; 3],
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
}

impl Rule for BatchNormRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let (backend, device) = (grad.device().backend(), grad.device());
        let [outer, c, inner] = self.split;
        let vector = |storage| Tensor::frozen(vec![c], storage, device.clone());
        let Some(x) = &self.x else {
            sink.add_to(&self.links[0], || {
                let zeros = Tensor::zeros([c], device)?;
                let scale = self.scale.storage();
                let dx =
                    backend.channel_affine(grad.storage(), scale, zeros.storage(), self.split)?;
                Ok(Tensor::frozen(grad.shape().to_vec(), dx, device.clone()))
            })?;
            return sink.add_to(&self.links[2], || grad.reshape(self.split)?.sum(2)?.sum(0));
        };
        let (s1, s2) = backend.channel_gradient_sums(
            x.storage(),
            grad.storage(),
            self.mean.storage(),
            self.split,
        )?;
        let (s1, s2) = (vector(s1), vector(s2));
        sink.add_to(&self.links[0], || {
            let (mut b, mut c) = (Tensor::zeros([c], device)?, Tensor::zeros([c], device)?);
            if let Some(batch_mean) = &self.batch_mean {
                let part = self.scale.scale(-self.share / (outer * inner) as f32)?;
                b = part.mul(&self.rstd)?.mul(&self.rstd)?.mul(&s2)?;
                c = part.mul(&s1)?.sub(&b.mul(batch_mean)?)?;
            }
            let coefficients = [self.scale.storage(), b.storage(), c.storage()];
            let dx =
                backend.channel_combine(x.storage(), grad.storage(), coefficients, self.split)?;
            Ok(Tensor::frozen(grad.shape().to_vec(), dx, device.clone()))
        })?;
        sink.add_to(&self.links[1], || self.rstd.mul(&s2))?;
        sink.add_to(&self.links[2], || Ok(s1))
    }
}
