//! Convolutions of each channel by itself, over images whose channels come last.

use crate::backend::{Depthwise, Storage};
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// Each channel of `[B, H, W, C]` with its own kernel, `weight [k, k, C]` with odd `k`, padded by half a kernel:
    /// `y[b, i, j, c] = Σ x[b, i + u - k/2, j + v - k/2, c] weight[u, v, c]`. Shape kept.
    pub fn depthwise(&self, weight: &Self) -> Result<Self> {
        let [batch, height, width, channels] = self.dims4("depthwise input")?;
        let [side, other, outputs] = weight.dims3("depthwise weight")?;
        if side != other || side % 2 == 0 || outputs != channels {
            let expected = format!("[k, k, {channels}] with odd k");
            return Err(weight.shape_error("depthwise weight", expected));
        }
        if self.elem_count() == 0 {
            return Err(self.shape_error("depthwise input", "no empty axis"));
        }
        self.device().check_same(weight.device(), "depthwise")?;
        let problem = Depthwise { batch, size: [height, width], channels, side, turned: false };
        let out = self.device().backend().depthwise(&problem, self.storage(), weight.storage())?;
        let links = [self.link(), weight.link()];
        Ok(self.derived(self.shape().to_vec(), out, &links, || DepthwiseRule {
            problem,
            links: links.map(Clone::clone),
            saved_input: weight.requires_grad().then(|| self.storage().clone()),
            saved_weight: self.requires_grad().then(|| weight.storage().clone()),
        }))
    }
}

struct DepthwiseRule {
    problem: Depthwise,
    links: [Link; 2],
    /// Read by the weight's gradient alone.
    saved_input: Option<Storage>,
    /// Read by the input's gradient alone.
    saved_weight: Option<Storage>,
}

impl Rule for DepthwiseRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let Depthwise { channels, side, .. } = self.problem;
        let (device, backend) = (grad.device().clone(), grad.device().backend());
        if let Some(weight) = &self.saved_weight {
            sink.add_to(&self.links[0], || {
                let problem = Depthwise { turned: true, ..self.problem };
                let dx = backend.depthwise(&problem, grad.storage(), weight)?;
                Ok(Tensor::frozen(grad.shape().to_vec(), dx, device.clone()))
            })?;
        }
        if let Some(x) = &self.saved_input {
            sink.add_to(&self.links[1], || {
                let dw = backend.depthwise_backward_weight(&self.problem, x, grad.storage())?;
                Ok(Tensor::frozen(vec![side, side, channels], dw, device.clone()))
            })?;
        }
        Ok(())
    }
}
