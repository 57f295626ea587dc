//! Convolutions over images.

use crate::backend::Conv;
use crate::shape::checked_count;
use crate::tape::{Link, Rule, Sink};
use crate::{Error, Result, Tensor};

/// How a kernel moves over an image; the same along both axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2d {
    /// Pixels from one output to the next.
    pub stride: usize,
    /// Zeros on each side.
    pub padding: usize,
    /// Input and output channels are divided into this many groups, each convolved on its own.
    pub groups: usize,
}

impl Default for Conv2d {
    fn default() -> Self {
        Self { stride: 1, padding: 0, groups: 1 }
    }
}

impl Tensor {
    /// `[B, I, H, W]` with `weight [O, I / groups, kh, kw]` → `[B, O, (H + 2 padding - kh) / stride + 1, ..]`.
    pub fn conv2d(&self, weight: &Self, how: Conv2d) -> Result<Self> {
        let [batch, inputs, h, w] = self.dims4("conv2d input")?;
        let [outputs, depth, kh, kw] = weight.dims4("conv2d weight")?;
        let Conv2d { stride, padding, groups } = how;
        if groups == 0 || inputs != depth * groups || outputs % groups.max(1) != 0 {
            let expected = format!("[O, I, kh, kw] with {groups} groups and {inputs} inputs");
            return Err(weight.shape_error("conv2d weight", expected));
        }
        let padded = |side: usize| side.checked_add(padding.checked_mul(2)?);
        let (Some(height), Some(width)) = (padded(h), padded(w)) else {
            return Err(Error::TooLarge { what: "conv2d padding", shape: self.shape().to_vec() });
        };
        let size = [height, width];
        if stride == 0 || kh == 0 || kw == 0 || size[0] < kh || size[1] < kw {
            let expected =
                format!("at least {kh}x{kw} pixels with padding {padding} for stride {stride}");
            return Err(self.shape_error("conv2d input", expected));
        }
        self.device().check_same(weight.device(), "conv2d")?;
        let output = [(size[0] - kh) / stride + 1, (size[1] - kw) / stride + 1];
        let (input, kernel) = ([h, w], [kh, kw]);
        let conv = Conv { batch, inputs, outputs, groups, input, kernel, stride, padding, output };
        let shape = vec![batch, outputs, output[0], output[1]];
        if shape.contains(&0) || depth == 0 {
            return Err(self.shape_error("conv2d input", "no empty axis"));
        }
        checked_count(&shape, "conv2d")?;
        let out = self.device().backend().conv2d(&conv, self.storage(), weight.storage())?;
        let links = [self.link(), weight.link()];
        Ok(self.derived(shape, out, &links, || ConvRule {
            conv,
            links: links.map(Clone::clone),
            saved_input: weight.requires_grad().then(|| self.detach()),
            saved_weight: self.requires_grad().then(|| weight.detach()),
        }))
    }
}

struct ConvRule {
    conv: Conv,
    links: [Link; 2],
    /// Read by the weight's gradient alone.
    saved_input: Option<Tensor>,
    /// Read by the input's gradient alone.
    saved_weight: Option<Tensor>,
}

impl Rule for ConvRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let Conv { batch, inputs, outputs, groups, input, kernel, .. } = self.conv;
        let device = grad.device();
        if let Some(weight) = &self.saved_weight {
            sink.add_to(&self.links[0], || {
                let (weight, grad) = (weight.storage(), grad.storage());
                let dx = device.backend().conv2d_backward_input(&self.conv, weight, grad)?;
                let shape = vec![batch, inputs, input[0], input[1]];
                Ok(Tensor::frozen(shape, dx, device.clone()))
            })?;
        }
        if let Some(x) = &self.saved_input {
            sink.add_to(&self.links[1], || {
                let (x, grad) = (x.storage(), grad.storage());
                let dw = device.backend().conv2d_backward_weight(&self.conv, x, grad)?;
                let shape = vec![outputs, inputs / groups, kernel[0], kernel[1]];
                Ok(Tensor::frozen(shape, dw, device.clone()))
            })?;
        }
        Ok(())
    }
}
