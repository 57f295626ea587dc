//! Linear layers `y = x Wᵀ + b` over the last axis, with GELU or a residual fused into the store.

use crate::backend::{Binary, Epilogue, Gemm, Matrix, Storage};
use crate::shape::rows;
use crate::tape::{Link, Rule, Sink};
use crate::{Result, Tensor};

impl Tensor {
    /// `x Wᵀ + b`: `[.., I]` with `weight [O, I]`, `bias [O]` → `[.., O]`.
    pub fn linear(&self, weight: &Self, bias: Option<&Self>) -> Result<Self> {
        let epilogue = bias.map_or(Epilogue::None, |bias| Epilogue::Bias(bias.storage()));
        self.linear_with(weight, bias, None, epilogue)
    }

    /// `gelu(x Wᵀ + b)` with the exact (erf) GELU.
    pub fn linear_gelu(&self, weight: &Self, bias: Option<&Self>) -> Result<Self> {
        let slope = [Some(self), Some(weight), bias].into_iter().flatten().any(Self::requires_grad);
        let epilogue = Epilogue::Gelu { bias: bias.map(Self::storage), slope };
        self.linear_with(weight, bias, None, epilogue)
    }

    /// `residual + x Wᵀ + b`.
    pub fn linear_residual(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        residual: &Self,
    ) -> Result<Self> {
        let epilogue =
            Epilogue::Residual { bias: bias.map(Self::storage), residual: residual.storage() };
        self.linear_with(weight, bias, Some(residual), epilogue)
    }

    fn linear_with(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        residual: Option<&Self>,
        epilogue: Epilogue,
    ) -> Result<Self> {
        let (m, i) = rows(self.shape(), "linear input")?;
        let [o, inner] = weight.dims2("linear weight")?;
        if inner != i {
            return Err(weight.shape_error("linear weight", format!("[O, {i}]")));
        }
        if let Some(bias) = bias.filter(|bias| bias.shape() != [o]) {
            return Err(bias.shape_error("linear bias", format!("[{o}]")));
        }
        let mut shape = self.shape().to_vec();
        *shape.last_mut().expect("rows() found a last axis") = o;
        if let Some(residual) = residual.filter(|residual| residual.shape() != shape) {
            return Err(residual.shape_error("linear residual", format!("{shape:?}")));
        }
        for other in [Some(weight), bias, residual].into_iter().flatten() {
            self.device().check_same(other.device(), "linear")?;
        }
        let (out, slope) = self.device().backend().gemm(&Gemm {
            batches: 1,
            m,
            n: o,
            k: i,
            a: Matrix::row_major(self.storage(), i),
            b: Matrix::row_major(weight.storage(), i).transposed(),
            epilogue,
            full: false,
        })?;
        let bias_link = bias.map_or(&None, Self::link);
        let residual_link = residual.map_or(&None, Self::link);
        let links = [self.link(), weight.link(), bias_link, residual_link];
        Ok(self.derived(shape, out, &links, || LinearRule {
            input: self.link().clone(),
            weight_link: weight.link().clone(),
            bias: bias_link.clone(),
            residual: residual_link.clone(),
            saved_input: weight.requires_grad().then(|| self.detach()),
            weight: weight.detach(),
            slope,
            input_shape: self.shape().to_vec(),
        }))
    }
}

struct LinearRule {
    input: Link,
    weight_link: Link,
    bias: Link,
    residual: Link,
    /// Read by the weight gradient alone.
    saved_input: Option<Tensor>,
    weight: Tensor,
    /// What a fused activation saved.
    slope: Option<Storage>,
    input_shape: Vec<usize>,
}

impl Rule for LinearRule {
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
        let device = grad.device().clone();
        let [o, i] = self.weight.dims2("linear weight")?;
        let m = grad.elem_count() / o;
        let backend = device.backend();
        let product = match &self.slope {
            Some(slope) => backend.gelu_backward(grad.storage(), slope)?,
            None => None,
        };
        let dy = match &product {
            Some(dy) => Matrix::row_major(dy, o),
            None => Matrix { times: self.slope.as_ref(), ..Matrix::row_major(grad.storage(), o) },
        };
        sink.add_to(&self.input, || {
            let b = Matrix::row_major(self.weight.storage(), i);
            let (epilogue, full) = (Epilogue::None, false);
            let product = Gemm { batches: 1, m, n: i, k: o, a: dy, b, epilogue, full };
            let (dx, _) = backend.gemm(&product)?;
            Ok(Tensor::frozen(self.input_shape.clone(), dx, device.clone()))
        })?;
        sink.add_to(&self.weight_link, || {
            let input = self.saved_input.as_ref().expect("saved whenever the weight is tracked");
            let b = Matrix::row_major(input.storage(), i);
            let product = Gemm {
                batches: 1,
                m: o,
                n: i,
                k: m,
                a: dy.transposed(),
                b,
                epilogue: Epilogue::None,
                full: true,
            };
            let (dw, _) = backend.gemm(&product)?;
            Ok(Tensor::frozen(vec![o, i], dw, device.clone()))
        })?;
        sink.add_to(&self.bias, || {
            let rows = match (&product, &self.slope) {
                (Some(dy), _) => dy.clone(),
                (None, Some(slope)) => backend.binary(Binary::Mul, grad.storage(), slope)?,
                (None, None) => grad.storage().clone(),
            };
            Ok(Tensor::frozen(vec![o], backend.sum(&rows, [1, m, o])?, device.clone()))
        })?;
        sink.add_to(&self.residual, || Ok(grad))
    }
}
