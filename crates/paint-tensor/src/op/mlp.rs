//! Two linear layers with a GELU between them, as one operation: the gradient of the GELU is fused into the store of
//! the product it follows, and costs no pass of its own.

use super::linear::{bias_gradient, input_gradient, product, store, weight_gradient};
use crate::backend::{Epilogue, Storage};
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

/// The parameters of an MLP.
#[derive(Debug, Clone, Copy)]
pub struct Mlp<'a> {
    /// `[H, I]` and `[H]`.
    pub fc1: (&'a Tensor, &'a Tensor),
    /// `[O, H]` and `[O]`.
    pub fc2: (&'a Tensor, &'a Tensor),
}

impl Tensor {
    /// `gelu(x W₁ᵀ + b₁) W₂ᵀ + b₂`, plus `residual` if there is one, with the exact (erf) GELU: `[.., I]` → `[.., O]`.
    pub fn mlp(&self, mlp: Mlp, residual: Option<&Self>) -> Result<Self> {
        let Mlp { fc1: (w1, b1), fc2: (w2, b2) } = mlp;
        let slope = [self, w1, b1].iter().any(|x| x.requires_grad());
        let gelu = Epilogue::Gelu { bias: Some(b1.storage()), slope };
        let (shape, hidden, saved) = product(self, w1, Some(b1), None, gelu)?;
        let hidden = Self::frozen(shape, hidden, self.device().clone());
        let (shape, out, _) = product(&hidden, w2, Some(b2), residual, store(Some(b2), residual))?;
        let residual_link = residual.map_or(&None, Self::link);
        let links = [self.link(), w1.link(), b1.link(), w2.link(), b2.link(), residual_link];
        Ok(self.derived(shape, out, &links, || MlpRule {
            links: links.map(Clone::clone),
            weights: [w1.detach(), w2.detach()],
            input_shape: self.shape().to_vec(),
            hidden_shape: hidden.shape().to_vec(),
            saved_input: w1.requires_grad().then(|| self.detach()),
            saved_hidden: w2.requires_grad().then_some(hidden),
            saved_gelu: saved,
        }))
    }
}

struct MlpRule {
    /// Input, first weight and bias, second weight and bias, residual.
    links: [Link; 6],
    weights: [Tensor; 2],
    input_shape: Vec<usize>,
    hidden_shape: Vec<usize>,
    /// Read by the gradient of the first weight alone.
    saved_input: Option<Tensor>,
    /// Read by the gradient of the second weight alone.
    saved_hidden: Option<Tensor>,
    /// Read by all gradients below the GELU.
    saved_gelu: Option<Storage>,
}

impl Rule for MlpRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let [input, fc1_weight, fc1_bias, fc2_weight, fc2_bias, residual] = &self.links;
        let kept = "saved whenever the weight is tracked";
        sink.add_to(fc2_weight, || {
            weight_gradient(&grad, self.saved_hidden.as_ref().expect(kept))
        })?;
        sink.add_to(fc2_bias, || bias_gradient(&grad))?;
        if let Some(saved) = &self.saved_gelu {
            let epilogue = Epilogue::GeluGradient(saved);
            let below = input_gradient(&grad, &self.weights[1], &self.hidden_shape, epilogue)?;
            sink.add_to(fc1_weight, || {
                weight_gradient(&below, self.saved_input.as_ref().expect(kept))
            })?;
            sink.add_to(fc1_bias, || bias_gradient(&below))?;
            sink.add_to(input, || {
                input_gradient(&below, &self.weights[0], &self.input_shape, Epilogue::None)
            })?;
        }
        sink.add_to(residual, || Ok(grad))
    }
}
