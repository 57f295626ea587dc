//! Normalisation over the last axis.

use crate::shape::rows;
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// `(x - mean) / sqrt(var + eps) γ + β` over the last axis; `gamma` and `beta` are `[D]`.
    pub fn layer_norm(&self, gamma: &Self, beta: &Self, eps: f32) -> Result<Self> {
        let (n, d) = rows(self.shape(), "layer_norm")?;
        for affine in [gamma, beta] {
            if affine.shape() != [d] {
                return Err(affine.shape_error("layer_norm scale or shift", format!("[{d}]")));
            }
            self.device().check_same(affine.device(), "layer_norm")?;
        }
        let backend = self.device().backend();
        let (out, stats) =
            backend.layer_norm(self.storage(), gamma.storage(), beta.storage(), eps)?;
        let links = [self.link(), gamma.link(), beta.link()];
        Ok(self.derived(self.shape().to_vec(), out, &links, || LayerNormRule {
            links: links.map(Clone::clone),
            x: self.detach(),
            gamma: gamma.detach(),
            stats: Self::frozen(vec![n, 2], stats, self.device().clone()),
        }))
    }

    /// `x / sqrt(max(Σ x², 1e-12))` over the last axis.
    pub fn l2_normalize(&self) -> Result<Self> {
        let (n, d) = rows(self.shape(), "l2_normalize")?;
        let (out, factor) = self.device().backend().l2_normalize(self.storage(), d)?;
        let y = Self::frozen(self.shape().to_vec(), out, self.device().clone());
        let storage = y.storage().clone();
        Ok(self.derived(self.shape().to_vec(), storage, &[self.link()], || L2NormalizeRule {
            input: self.link().clone(),
            y,
            factor: Self::frozen(vec![n], factor, self.device().clone()),
        }))
    }
}

struct LayerNormRule {
    links: [Link; 3],
    x: Tensor,
    gamma: Tensor,
    stats: Tensor,
}

impl Rule for LayerNormRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let (x, stats, gamma) = (self.x.storage(), self.stats.storage(), self.gamma.storage());
        let backend = grad.device().backend();
        let earlier = sink.earlier(&self.links[0]).map(Tensor::into_storage);
        sink.add_to(&self.links[0], || {
            let dx = backend.layer_norm_backward(x, stats, gamma, grad.storage(), earlier)?;
            Ok(Tensor::frozen(self.x.shape().to_vec(), dx, grad.device().clone()))
        })?;
        if self.links[1].is_none() && self.links[2].is_none() {
            return Ok(());
        }
        let d = self.gamma.elem_count();
        let (dgamma, dbeta) = backend.layer_norm_affine_backward(x, stats, grad.storage(), d)?;
        for (link, gradient) in self.links[1..].iter().zip([dgamma, dbeta]) {
            sink.add_to(link, || Ok(Tensor::frozen(vec![d], gradient, grad.device().clone())))?;
        }
        Ok(())
    }
}

struct L2NormalizeRule {
    input: Link,
    y: Tensor,
    factor: Tensor,
}

impl Rule for L2NormalizeRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || {
            let (_, d) = rows(self.y.shape(), "l2_normalize")?;
            let (y, factor) = (self.y.storage(), self.factor.storage());
            let dx = grad.device().backend().l2_normalize_backward(y, factor, grad.storage(), d)?;
            Ok(Tensor::frozen(self.y.shape().to_vec(), dx, grad.device().clone()))
        })
    }
}
