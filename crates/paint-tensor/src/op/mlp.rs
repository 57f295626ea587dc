//! Two linear layers with a GELU between them, as one operation: the gradient of the GELU is fused into the store of
//! the product it follows, and costs no pass of its own.

use super::linear::{
    bias_gradient, check, input_gradient, layer, store, turned_layer, weight_gradient,
};
use crate::backend::{Chain, Epilogue, Gemm, Matrix, Next, Storage};
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
        let device = self.device();
        let (hidden_shape, sizes) = check((self.shape(), device), w1, Some(b1), None)?;
        let (shape, [_, n, k]) = check((&hidden_shape, device), w2, Some(b2), residual)?;
        let b = Matrix::row_major(w2.storage(), k).transposed();
        let next = Next { n, b, epilogue: store(Some(b2), residual) };
        let residual_link = residual.map_or(&None, Self::link);
        let links = [self.link(), w1.link(), b1.link(), w2.link(), b2.link(), residual_link];
        let frozen = links.iter().all(|link| link.is_none());
        let first = Gemm { frozen, ..layer(self, w1, sizes, gelu) };
        let Chain { hidden, saved, out } =
            device.backend().gemm_chain(&first, &next, w2.requires_grad())?;
        Ok(self.derived(shape, out, &links, || MlpRule {
            links: links.map(Clone::clone),
            weights: [w1.detach(), w2.detach()],
            input_shape: self.shape().to_vec(),
            saved_input: w1.requires_grad().then(|| self.detach()),
            saved_hidden: hidden.map(|x| Self::frozen(hidden_shape.clone(), x, device.clone())),
            hidden_shape,
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

impl MlpRule {
    /// The gradient below the GELU, if it is kept, and that of the input.
    fn both_gradients(
        &self,
        grad: &Tensor,
        epilogue: Epilogue,
        keep: bool,
    ) -> Result<(Option<Tensor>, Tensor)> {
        let [w1, w2] = &self.weights;
        let [_, n] = w1.dims2("linear weight")?;
        let b = Matrix::row_major(w1.storage(), n);
        let next = Next { n, b, epilogue: Epilogue::None };
        let first = turned_layer(grad, w2, epilogue)?;
        let Chain { hidden, out, .. } = grad.device().backend().gemm_chain(&first, &next, keep)?;
        let tensor = |shape: &[usize], x| Tensor::frozen(shape.to_vec(), x, grad.device().clone());
        let below = hidden.map(|x| tensor(&self.hidden_shape, x));
        Ok((below, tensor(&self.input_shape, out)))
    }
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
            let trains = fc1_weight.is_some() || fc1_bias.is_some();
            let (below, dx) = if input.is_some() {
                let (below, dx) = self.both_gradients(&grad, epilogue, trains)?;
                (below, Some(dx))
            } else {
                let [_, w2] = &self.weights;
                (Some(input_gradient(&grad, w2, &self.hidden_shape, epilogue)?), None)
            };
            let below = || below.as_ref().expect("kept where the first layer trains");
            sink.add_to(fc1_weight, || {
                weight_gradient(below(), self.saved_input.as_ref().expect(kept))
            })?;
            sink.add_to(fc1_bias, || bias_gradient(below()))?;
            sink.add_to(input, || Ok(dx.expect("computed for an input that is tracked")))?;
        }
        sink.add_to(residual, || Ok(grad))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn values(shape: &[usize], seed: usize) -> Tensor {
        let value = |i: usize| ((i * 37 + seed * 11) % 101) as f32 / 101.0 - 0.5;
        let data = (0..shape.iter().product()).map(value).collect();
        Tensor::from_vec(data, shape, &Device::cpu()).unwrap()
    }

    /// More rows than share columns, so that both products share their tasks.
    const ROWS: usize = 700;

    #[test]
    fn many_rows_have_the_values_and_gradients_of_the_layers_one_after_the_other() {
        let shapes: [&[usize]; 6] = [&[ROWS, 9], &[33, 9], &[33], &[7, 33], &[7], &[ROWS, 7]];
        for tracked in [
            [true; 6],
            [true, false, false, false, false, true],
            [false, true, true, true, false, false],
        ] {
            let inputs: Vec<Tensor> = (0..6)
                .map(|i| values(shapes[i], i))
                .zip(tracked)
                .map(|(x, tracked)| if tracked { x.variable() } else { x })
                .collect();
            let [x, w1, b1, w2, b2, residual] = &inputs[..] else { unreachable!("six inputs") };
            let fused = x.mlp(Mlp { fc1: (w1, b1), fc2: (w2, b2) }, Some(residual)).unwrap();
            let hidden = x.linear(w1, Some(b1)).unwrap().gelu().unwrap();
            let apart = hidden.linear_residual(w2, Some(b2), residual).unwrap();
            let close = |a: &Tensor, b: &Tensor, what: &str| {
                let (a, b) = (a.to_vec().unwrap(), b.to_vec().unwrap());
                let far = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                // Sums of 700 products below one.
                assert!(a.len() == b.len() && far < 1e-3, "{what}: {far}");
            };
            close(&fused, &apart, "values");
            let [one, two] =
                [fused, apart].map(|y| y.mul(&y).unwrap().sum_all().unwrap().backward().unwrap());
            for (i, input) in inputs.iter().enumerate() {
                match (one.get(input), two.get(input)) {
                    (Some(a), Some(b)) => close(a, b, &format!("gradient {i}")),
                    (a, b) => assert!(a.is_none() && b.is_none() && !tracked[i], "gradient {i}"),
                }
            }
        }
    }

    #[test]
    fn a_layer_without_outputs_gives_none() {
        let [x, w1, b1] = [&[ROWS, 9][..], &[33, 9], &[33]].map(|shape| values(shape, 1));
        let [w2, b2] = [&[0, 33][..], &[0]].map(|shape| values(shape, 2));
        let y = x.mlp(Mlp { fc1: (&w1, &b1), fc2: (&w2, &b2) }, None).unwrap();
        assert_eq!(y.shape(), [ROWS, 0]);
    }
}
