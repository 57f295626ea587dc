//! Activations: GELU in three forms, SiLU, ReLU, softmax and its logarithm.

use crate::backend::{Storage, Unary};
use crate::shape::rows;
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// `x Φ(x)`: the exact GELU.
    pub fn gelu(&self) -> Result<Self> {
        self.sloped(Unary::Gelu, Unary::GeluSlope)
    }

    /// The tanh form of GELU, as PyTorch's `approximate="tanh"`.
    pub fn gelu_tanh(&self) -> Result<Self> {
        self.sloped(Unary::GeluTanh, Unary::GeluTanhSlope)
    }

    /// `x σ(1.702 x)`: the GELU of CLIP.
    pub fn quick_gelu(&self) -> Result<Self> {
        const RATE: f32 = 1.702;
        self.sloped(Unary::Swish(RATE), Unary::SwishSlope(RATE))
    }

    /// `x σ(x)`.
    pub fn silu(&self) -> Result<Self> {
        self.sloped(Unary::Swish(1.0), Unary::SwishSlope(1.0))
    }

    /// `max(x, 0)`.
    pub fn relu(&self) -> Result<Self> {
        let out = self.device().backend().unary(Unary::Relu, self.storage())?;
        Ok(self
            .with_backward(out, |y, grad| grad.device().backend().relu_backward(y, grad.storage())))
    }

    fn sloped(&self, op: Unary, slope: Unary) -> Result<Self> {
        let out = self.device().backend().unary(op, self.storage())?;
        Ok(self.derived(self.shape().to_vec(), out, &[self.link()], || SlopeRule {
            input: self.link().clone(),
            x: self.detach(),
            slope,
        }))
    }

    /// Softmax over the last axis.
    pub fn softmax(&self) -> Result<Self> {
        let (_, d) = rows(self.shape(), "softmax")?;
        let out = self.device().backend().softmax(self.storage(), d)?;
        Ok(self.with_backward(out, |y, grad| {
            grad.device().backend().softmax_backward(y, grad.storage(), grad.width())
        }))
    }

    /// The logarithm of [`Tensor::softmax`], without overflow.
    pub fn log_softmax(&self) -> Result<Self> {
        let (_, d) = rows(self.shape(), "log_softmax")?;
        let out = self.device().backend().log_softmax(self.storage(), d)?;
        Ok(self.with_backward(out, |y, grad| {
            grad.device().backend().log_softmax_backward(y, grad.storage(), grad.width())
        }))
    }

    fn width(&self) -> usize {
        self.shape().last().copied().unwrap_or(1)
    }

    /// A function whose gradient is computed from its own result.
    fn with_backward(&self, y: Storage, backward: Backward) -> Self {
        let input = self.link();
        self.derived(self.shape().to_vec(), y.clone(), &[input], || ResultRule {
            input: input.clone(),
            y,
            backward,
        })
    }
}

type Backward = fn(&Storage, &Tensor) -> Result<Storage>;

struct ResultRule {
    input: Link,
    y: Storage,
    backward: Backward,
}

impl Rule for ResultRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || {
            let dx = (self.backward)(&self.y, &grad)?;
            Ok(Tensor::frozen(grad.shape().to_vec(), dx, grad.device().clone()))
        })
    }
}

struct SlopeRule {
    input: Link,
    x: Tensor,
    slope: Unary,
}

impl Rule for SlopeRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || {
            let slope = grad.device().backend().unary(self.slope, self.x.storage())?;
            grad.mul(&Tensor::frozen(grad.shape().to_vec(), slope, grad.device().clone()))
        })
    }
}
