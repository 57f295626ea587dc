//! Matrix products with their epilogues, and elementwise pairs.

use super::axes::Broadcast;
use super::buffer::{Buffer, Kind};
use super::elements::{PACK, Packing, binary_code};
use super::gelu_product::Operands;
use super::matmul::Place;
use super::problem::{Activation, Addresses, Layout, Problem};
use super::{Cuda, on_gpu, record};
use crate::backend::{Binary, Epilogue, Gemm, Matrix, Precision, Storage};
use crate::shape::elem_count;
use crate::{Error, Result};

/// How a matrix lies in memory: with unit stride along its rows, or (transposed) along its columns.
fn layout(matrix: &Matrix) -> Result<Layout> {
    let Matrix { batch, row, col, .. } = *matrix;
    match (row, col) {
        (pitch, 1) => Ok(Layout { transposed: false, pitch, batch }),
        (1, pitch) => Ok(Layout { transposed: true, pitch, batch }),
        _ => Err(Error::Gpu {
            what: "a matrix product".to_owned(),
            why: format!("no unit stride: rows {row} apart, columns {col} apart"),
        }),
    }
}

impl Cuda {
    /// Both operands are read as `A` is stored. So is the result, except that a parameter's gradient is stored in full.
    pub(super) fn product(&self, gemm: &Gemm) -> Result<(Storage, Option<Storage>)> {
        if let Some(out) = self.rounded_product(gemm)? {
            return Ok((out, None));
        }
        let Gemm { batches, m, n, k, .. } = *gemm;
        let a = on_gpu(gemm.a.storage);
        let b = self.cast(on_gpu(gemm.b.storage), a.kind)?;
        let (bias, residual) = gemm.epilogue.added();
        let output = if gemm.full { Kind::F32 } else { a.kind };
        let out = self.take(batches * m * n, output)?;
        // The argument of a GELU: written by its product, read by its gradient.
        let argument = match gemm.epilogue {
            Epilogue::Gelu { slope: true, .. } => Some(self.take(out.len(), output)?),
            Epilogue::GeluGradient(saved) => {
                Some(self.aligned(&self.cast(on_gpu(saved), output)?)?)
            }
            _ => None,
        };
        if out.len() == 0 {
            return Ok((Storage::Cuda(out), argument.map(Storage::Cuda)));
        }
        if k == 0 {
            let (what, why) = ("a matrix product".to_owned(), "no depth".to_owned());
            return Err(Error::Gpu { what, why });
        }
        let bias = bias.map(|bias| self.cast(on_gpu(bias), output)).transpose()?;
        let residual = residual.map(|x| self.cast(on_gpu(x), output)).transpose()?;
        let fused = output == Kind::Bf16 && n.is_multiple_of(8);
        let activation = match gemm.epilogue {
            Epilogue::Gelu { slope: false, .. } if fused => Activation::Gelu,
            Epilogue::Gelu { .. } if fused => Activation::GeluAndArgument,
            Epilogue::GeluGradient(_) if fused => Activation::GeluGradient,
            _ => Activation::None,
        };
        let fused = activation != Activation::None;
        // Without a fused activation the product is its argument.
        let product = match gemm.epilogue {
            Epilogue::Gelu { .. } if !fused => argument.as_ref().unwrap_or(&out),
            _ => &out,
        };
        let at = Addresses {
            a: a.address(),
            b: b.address(),
            out: product.address(),
            bias: bias.as_ref().map(Buffer::address),
            residual: residual.as_ref().map(Buffer::address),
            argument: argument.as_ref().filter(|_| fused).map(Buffer::address),
            unit: None,
        };
        let problem = Problem {
            m,
            n,
            k,
            batches,
            a: layout(&gemm.a)?,
            b: layout(&gemm.b)?,
            operands: a.kind.into(),
            output: output.into(),
            tf32: self.precision != Precision::F32 && a.kind == Kind::F32,
            bias: bias.is_some(),
            activation,
            alignment: at.alignment(),
        };
        self.may_queue(&problem)?;
        if let Some(finish) = self.fused_gelu(&problem, &gemm.epilogue) {
            // The kernel reads the right operand along the depth.
            let b = if problem.b.transposed { b } else { self.turned(&b, [k, n])? };
            let (bias, argument) = (bias.as_ref(), argument.as_ref());
            let operands = Operands { a, b: &b, bias, argument, out: &out };
            self.gelu_product(finish, [m, n, k], &operands)?;
            return Ok((Storage::Cuda(out), argument.cloned().map(Storage::Cuda)));
        }
        self.queue(&problem, at)?;
        let (elementwise, len) = (&self.kernels.elementwise, out.len());
        let (threads, n) = (len.div_ceil(4), len as i64);
        match (gemm.epilogue, &argument) {
            (Epilogue::Gelu { .. }, _) if !fused => {
                let params = (product.read(), out.write(), n);
                self.each(elementwise.gelu.of(output), threads, len, params)?;
            }
            (Epilogue::GeluGradient(_), Some(argument)) if !fused => {
                let params = (out.read(), argument.read(), out.write(), n);
                self.each(elementwise.gelu_backward.of(output), threads, len, params)?;
            }
            _ => (),
        }
        Ok((Storage::Cuda(out), argument.map(Storage::Cuda)))
    }

    /// Fails where a recording cannot take a product.
    fn may_queue(&self, problem: &Problem) -> Result<()> {
        self.gpu.enter()?;
        if record::stream(&self.gpu).is_some()
            && (problem.is_large() || !self.products.knows(problem))
        {
            record::refuse(&self.gpu, "a large product, or one not done before")?;
        }
        Ok(())
    }

    /// Queues a product for cuBLASLt.
    pub(super) fn queue(&self, problem: &Problem, at: Addresses) -> Result<()> {
        self.may_queue(problem)?;
        let place = Place { workspace: self.workspace.address(), stream: self.gpu.stream() };
        self.products.queue(problem, at, place)
    }

    /// `out = a op b`; `out` may be `a`, and begins at a multiple of 16 bytes.
    pub(super) fn zip(&self, op: Binary, a: &Buffer, b: &Buffer, out: &Buffer) -> Result<()> {
        let (a, b, n) = (&self.aligned(a)?, &self.aligned(b)?, a.len());
        let kernel = self.kernels.elementwise.binary.of((a.kind, b.kind));
        let params = (binary_code(op).1 as i32, a.read(), b.read(), out.write(), n as i64);
        self.each(kernel, n.div_ceil(4), n, params)
    }

    /// `a op b` of this shape, read with these strides.
    pub(super) fn broadcast(
        &self,
        op: Binary,
        shape: &[usize],
        (a, a_strides): (&Storage, &[usize]),
        (b, b_strides): (&Storage, &[usize]),
    ) -> Result<Storage> {
        let axes = Broadcast::new(shape, a_strides, b_strides)?;
        let (a, b, code) = (self.widened(a)?, self.widened(b)?, binary_code(op).1 as i32);
        let (packing, each) = Packing::when(axes.is_packed(PACK), PACK);
        let n = elem_count(shape);
        let out = self.take_f32(n)?;
        let params = (code, axes, a.read(), b.read(), out.write(), n as i64);
        let kernel = self.kernels.elementwise.binary_broadcast.of(packing);
        self.each(kernel, n / each, n, params)?;
        Ok(Storage::Cuda(out))
    }

    /// `a + w (b - a)`, stored as `a` is.
    pub(super) fn lerped(&self, a: &Buffer, b: &Buffer, w: f32) -> Result<Storage> {
        let (a, b) = (&self.aligned(a)?, &self.aligned(&self.cast(b, a.kind)?)?);
        let (out, n) = (self.take(a.len(), a.kind)?, a.len());
        let params = (w, a.read(), b.read(), out.write(), n as i64);
        self.each(self.kernels.elementwise.lerp.of(a.kind), n.div_ceil(4), n, params)?;
        Ok(Storage::Cuda(out))
    }
}
