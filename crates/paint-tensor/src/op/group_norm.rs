//! Group norm over `[B, C, ..]`.
//!
//! Letters: `g` groups, `m` elements of a group of one image, `μ, r` its mean and reciprocal standard deviation. With
//! `S₁ = Σ dy` and `S₂ = Σ dy (x - μ)` over one channel of one image,
//!
//! `dγ = Σ_b r S₂`, `dβ = Σ_b S₁`, `dx = r (γ dy - Σ_group γ S₁ / m - r² (x - μ) Σ_group γ S₂ / m)`.

use crate::backend::After;
use crate::shape::split_at;
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// `γ (x - mean) / sqrt(var + eps) + β` with mean and variance of `groups` groups of channels of each image;
    /// `scale` and `shift` are `[C]`.
    pub fn group_norm(&self, groups: usize, scale: &Self, shift: &Self, eps: f32) -> Result<Self> {
        let [b, c, inner] = split_at(self.shape(), 1, "group_norm")?;
        for affine in [scale, shift] {
            if affine.shape() != [c] {
                return Err(affine.shape_error("group_norm scale or shift", format!("[{c}]")));
            }
            self.device().check_same(affine.device(), "group_norm")?;
        }
        if groups == 0 || c % groups != 0 || self.elem_count() == 0 {
            let expected = format!("[B, C, ..] with C a multiple of {groups}");
            return Err(self.shape_error("group_norm input", expected));
        }
        let (backend, device) = (self.device().backend(), self.device());
        let size = c / groups * inner;
        let (mean, variance) = backend.channel_moments(self.storage(), [1, b * groups, size])?;
        let by_group = |storage| Self::frozen(vec![b, groups, 1], storage, device.clone());
        let (mean, variance) = (by_group(mean), by_group(variance));
        let ones = Self::full([b, groups, 1], 1.0, device)?;
        let rstd = ones.div(&variance.add_scalar(eps)?.sqrt()?)?;
        let of_group = [1, groups, c / groups];
        let factor = scale.detach().reshape(of_group)?.mul(&rstd)?; // [B, g, C/g]
        let offset = shift.detach().reshape(of_group)?.sub(&mean.mul(&factor)?)?;
        let split = [1, b * c, inner];
        let coefficients = [factor.storage(), offset.storage()];
        let out = backend.channel_affine(self.storage(), coefficients, After::Nothing, split)?;
        let links = [self.link(), scale.link(), shift.link()];
        Ok(self.derived(self.shape().to_vec(), out, &links, || GroupNormRule {
            links: links.map(Clone::clone),
            x: self.detach(),
            scale: scale.detach(),
            mean,
            rstd,
        }))
    }
}

struct GroupNormRule {
    links: [Link; 3],
    x: Tensor,
    /// `γ`, `[C]`.
    scale: Tensor,
    /// `[B, g, 1]`.
    mean: Tensor,
    /// `[B, g, 1]`.
    rstd: Tensor,
}

impl Rule for GroupNormRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let (backend, device) = (grad.device().backend(), grad.device());
        let [b, c, inner] = split_at(self.x.shape(), 1, "group_norm")?;
        let [_, groups, _] = self.mean.dims3("group_norm mean")?;
        let (split, by_group) = ([1, b * c, inner], [b, groups, c / groups]);
        let centre = self.mean.broadcast_to(by_group)?;
        let (x, dy) = (self.x.storage(), grad.storage());
        let (s1, s2) = backend.channel_gradient_sums([x, dy], centre.storage(), None, split)?;
        let each = |storage| Tensor::frozen(by_group.to_vec(), storage, device.clone());
        let (s1, s2) = (each(s1), each(s2)); // [B, g, C/g]
        sink.add_to(&self.links[0], || {
            let scale = self.scale.reshape([1, groups, c / groups])?;
            let part = self.rstd.scale(-1.0 / (c / groups * inner) as f32)?;
            let group_sum = |s: &Tensor| scale.mul(s)?.sum(2)?.reshape([b, groups, 1]);
            let x_factor = part.mul(&self.rstd)?.mul(&self.rstd)?.mul(&group_sum(&s2)?)?;
            let offset = part.mul(&group_sum(&s1)?)?.sub(&x_factor.mul(&self.mean)?)?;
            let (x_factor, offset) =
                (x_factor.broadcast_to(by_group)?, offset.broadcast_to(by_group)?);
            let factor = scale.mul(&self.rstd)?;
            let coefficients = [factor.storage(), x_factor.storage(), offset.storage()];
            let dx = backend.channel_combine([x, dy], coefficients, None, split)?;
            Ok(Tensor::frozen(grad.shape().to_vec(), dx, device.clone()))
        })?;
        sink.add_to(&self.links[1], || s2.mul(&self.rstd)?.sum(0)?.reshape([c]))?;
        sink.add_to(&self.links[2], || s1.sum(0)?.reshape([c]))
    }
}
