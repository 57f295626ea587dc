//! A residual branch with a factor of its own for each sample, as stochastic depth needs it.

use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// `residual + f_b x`, with one factor per sample: `[B, ..]` twice and `factors [B]`, which get no gradient.
    pub fn add_scaled(&self, x: &Self, factors: &Self) -> Result<Self> {
        let [b] = factors.dims1("factors")?;
        if self.shape() != x.shape() || self.shape().first() != Some(&b) {
            return Err(x.shape_error("add_scaled", format!("{:?} with {b} samples", self.shape())));
        }
        factors.refuse_gradient("add_scaled of its factors")?;
        self.device().check_same(x.device(), "add_scaled")?;
        self.device().check_same(factors.device(), "add_scaled")?;
        let backend = self.device().backend();
        let out = backend.add_scaled(Some(self.storage()), x.storage(), factors.storage())?;
        let links = [self.link(), x.link()];
        Ok(self.derived(self.shape().to_vec(), out, &links, || BranchRule {
            residual: self.link().clone(),
            x: x.link().clone(),
            factors: factors.clone(),
        }))
    }
}

struct BranchRule {
    residual: Link,
    x: Link,
    factors: Tensor,
}

impl Rule for BranchRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.x, || {
            let backend = grad.device().backend();
            let dx = backend.add_scaled(None, grad.storage(), self.factors.storage())?;
            Ok(Tensor::frozen(grad.shape().to_vec(), dx, grad.device().clone()))
        })?;
        sink.add_to(&self.residual, || Ok(grad))
    }
}
