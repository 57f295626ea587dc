//! Linear layers `y = x Wᵀ + b` over the last axis, with a residual fused into the store.

use crate::backend::{Epilogue, Gemm, Matrix};
use crate::shape::{checked_count, rows};
use crate::tape::{Link, Rule, Sink};
use crate::{Device, Result, Tensor};

impl Tensor {
    /// `x Wᵀ + b`: `[.., I]` with `weight [O, I]`, `bias [O]` → `[.., O]`.
    pub fn linear(&self, weight: &Self, bias: Option<&Self>) -> Result<Self> {
        self.linear_with(weight, bias, None, false)
    }

    /// `residual + x Wᵀ + b`.
    pub fn linear_residual(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        residual: &Self,
    ) -> Result<Self> {
        self.linear_with(weight, bias, Some(residual), false)
    }

    /// `x Wᵀ + b`, plus `residual` if there is one, as a layer inside a network: a device that computes in `int8` or `fp8`
    /// rounds input and weight where no gradient passes through the layer.
    pub fn layer(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        residual: Option<&Self>,
    ) -> Result<Self> {
        self.linear_with(weight, bias, residual, true)
    }

    fn linear_with(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        residual: Option<&Self>,
        inside: bool,
    ) -> Result<Self> {
        let (shape, sizes) = check((self.shape(), self.device()), weight, bias, residual)?;
        let bias_link = bias.map_or(&None, Self::link);
        let residual_link = residual.map_or(&None, Self::link);
        let links = [self.link(), weight.link(), bias_link, residual_link];
        let frozen = inside && links.iter().all(|link| link.is_none());
        let layer = layer(self, weight, sizes, store(bias, residual));
        let (out, _) = self.device().backend().gemm(&Gemm { frozen, ..layer })?;
        Ok(self.derived(shape, out, &links, || LinearRule {
            input: self.link().clone(),
            weight_link: weight.link().clone(),
            bias: bias_link.clone(),
            residual: residual_link.clone(),
            saved_input: weight.requires_grad().then(|| self.detach()),
            weight: weight.detach(),
            input_shape: self.shape().to_vec(),
        }))
    }
}

/// What a layer without an activation does to its product.
pub(super) fn store<'a>(bias: Option<&'a Tensor>, residual: Option<&'a Tensor>) -> Epilogue<'a> {
    let bias = bias.map(Tensor::storage);
    match (bias, residual.map(Tensor::storage)) {
        (bias, Some(residual)) => Epilogue::Residual { bias, residual },
        (Some(bias), None) => Epilogue::Bias(bias),
        (None, None) => Epilogue::None,
    }
}

/// The shape of `x Wᵀ` for an input of shape `x`, and its rows, columns and depth; `bias` and `residual` are checked too.
pub(super) fn check(
    (x, device): (&[usize], &Device),
    weight: &Tensor,
    bias: Option<&Tensor>,
    residual: Option<&Tensor>,
) -> Result<(Vec<usize>, [usize; 3])> {
    let (m, i) = rows(x, "linear input")?;
    let [o, inner] = weight.dims2("linear weight")?;
    if inner != i {
        return Err(weight.shape_error("linear weight", format!("[O, {i}]")));
    }
    if let Some(bias) = bias.filter(|bias| bias.shape() != [o]) {
        return Err(bias.shape_error("linear bias", format!("[{o}]")));
    }
    let mut shape = x.to_vec();
    *shape.last_mut().expect("rows() found a last axis") = o;
    checked_count(&shape, "linear")?;
    if let Some(residual) = residual.filter(|residual| residual.shape() != shape) {
        return Err(residual.shape_error("linear residual", format!("{shape:?}")));
    }
    for other in [Some(weight), bias, residual].into_iter().flatten() {
        device.check_same(other.device(), "linear")?;
    }
    Ok((shape, [m, o, i]))
}

/// `epilogue(x Wᵀ)` of checked sizes.
pub(super) fn layer<'a>(
    x: &'a Tensor,
    weight: &'a Tensor,
    [m, n, k]: [usize; 3],
    epilogue: Epilogue<'a>,
) -> Gemm<'a> {
    let (a, b) = (Matrix::row_major(x.storage(), k), Matrix::row_major(weight.storage(), k));
    Gemm { batches: 1, m, n, k, a, b: b.transposed(), epilogue, full: false, frozen: false }
}

/// `epilogue(dY W)`.
pub(super) fn turned_layer<'a>(
    dy: &'a Tensor,
    weight: &'a Tensor,
    epilogue: Epilogue<'a>,
) -> Result<Gemm<'a>> {
    let [o, i] = weight.dims2("linear weight")?;
    let (a, b) = (Matrix::row_major(dy.storage(), o), Matrix::row_major(weight.storage(), i));
    let m = dy.elem_count() / o;
    Ok(Gemm { batches: 1, m, n: i, k: o, a, b, epilogue, full: false, frozen: false })
}

/// `epilogue(dY W)`: the gradient of the input, of the given shape.
pub(super) fn input_gradient(
    dy: &Tensor,
    weight: &Tensor,
    shape: &[usize],
    epilogue: Epilogue,
) -> Result<Tensor> {
    let (dx, _) = dy.device().backend().gemm(&turned_layer(dy, weight, epilogue)?)?;
    Ok(Tensor::frozen(shape.to_vec(), dx, dy.device().clone()))
}

/// `dYᵀ X`: the gradient of the weight.
pub(super) fn weight_gradient(dy: &Tensor, input: &Tensor) -> Result<Tensor> {
    let ((m, o), (_, i)) = (rows(dy.shape(), "gradient")?, rows(input.shape(), "linear input")?);
    let a = Matrix::row_major(dy.storage(), o).transposed();
    let b = Matrix::row_major(input.storage(), i);
    let epilogue = Epilogue::None;
    let product = Gemm { batches: 1, m: o, n: i, k: m, a, b, epilogue, full: true, frozen: false };
    let (dw, _) = dy.device().backend().gemm(&product)?;
    Ok(Tensor::frozen(vec![o, i], dw, dy.device().clone()))
}

/// The gradient of the bias.
pub(super) fn bias_gradient(dy: &Tensor) -> Result<Tensor> {
    let (m, o) = rows(dy.shape(), "gradient")?;
    let sum = dy.device().backend().sum(dy.storage(), [1, m, o])?;
    Ok(Tensor::frozen(vec![o], sum, dy.device().clone()))
}

struct LinearRule {
    input: Link,
    weight_link: Link,
    bias: Link,
    residual: Link,
    /// Read by the weight gradient alone.
    saved_input: Option<Tensor>,
    weight: Tensor,
    input_shape: Vec<usize>,
}

impl Rule for LinearRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        sink.add_to(&self.input, || {
            input_gradient(&grad, &self.weight, &self.input_shape, Epilogue::None)
        })?;
        sink.add_to(&self.weight_link, || {
            let input = self.saved_input.as_ref().expect("saved whenever the weight is tracked");
            weight_gradient(&grad, input)
        })?;
        sink.add_to(&self.bias, || bias_gradient(&grad))?;
        sink.add_to(&self.residual, || Ok(grad))
    }
}
