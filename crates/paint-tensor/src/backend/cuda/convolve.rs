//! Convolutions as matrix products over unfolded pixels: `[O, K] x [K, B oh ow]`, one product a group.

use super::Cuda;
use super::buffer::Buffer;
use super::driver::Arg;
use crate::Result;
use crate::backend::{Backend as _, Conv, Epilogue, Gemm, Matrix, Storage};

impl Cuda {
    fn conv_arg(conv: &Conv, group: usize) -> Arg {
        let channels = conv.inputs / conv.groups;
        Arg::words([
            conv.batch,
            channels,
            group * channels,
            conv.input[0],
            conv.input[1],
            conv.kernel[0],
            conv.kernel[1],
            conv.stride,
            conv.padding,
            conv.output[0],
            conv.output[1],
            conv.inputs,
        ])
    }

    /// `[K, B oh ow]` of one group.
    fn columns(&self, conv: &Conv, group: usize, x: &Buffer) -> Result<Storage> {
        let len = conv.depth() * conv.batch * conv.output_len();
        self.map("columns", &[Self::conv_arg(conv, group)], &[x], len)
    }

    /// `[B, O, pixels]` with the channel first: `[O, B, pixels]`.
    fn channel_first(&self, conv: &Conv, grad: &Buffer) -> Result<Buffer> {
        let shape = [conv.batch, conv.outputs, conv.output_len()];
        let turned = self.permute(&Storage::Cuda(grad.clone()), &shape, &[1, 0, 2])?;
        self.widened(&turned)
    }

    pub(super) fn convolve(&self, conv: &Conv, x: &Buffer, weight: &Buffer) -> Result<Storage> {
        let (k, pixels) = (conv.depth(), conv.batch * conv.output_len());
        let outputs = conv.outputs / conv.groups;
        let mut parts = Vec::with_capacity(conv.groups);
        for group in 0..conv.groups {
            let columns = self.columns(conv, group, x)?;
            let weight = Storage::Cuda(weight.part(group * outputs * k, outputs * k));
            let (part, _) = self.product(&Gemm {
                batches: 1,
                m: outputs,
                n: pixels,
                k,
                a: Matrix::row_major(&weight, k),
                b: Matrix::row_major(&columns, pixels),
                epilogue: Epilogue::None,
                full: false,
            })?;
            parts.push(part);
        }
        let parts: Vec<_> = parts.iter().map(|part| (part, outputs * pixels)).collect();
        let joined =
            if let [(only, _)] = parts[..] { only.clone() } else { self.concat(1, &parts)? };
        self.permute(&joined, &[conv.outputs, conv.batch, conv.output_len()], &[1, 0, 2])
    }

    pub(super) fn convolve_backward_input(
        &self,
        conv: &Conv,
        weight: &Buffer,
        grad: &Buffer,
    ) -> Result<Storage> {
        let (k, pixels) = (conv.depth(), conv.batch * conv.output_len());
        let outputs = conv.outputs / conv.groups;
        let grad = self.channel_first(conv, grad)?;
        let plane = conv.input[0] * conv.input[1];
        let dx = self.take_f32(conv.batch * conv.inputs * plane)?;
        for group in 0..conv.groups {
            let weight = Storage::Cuda(weight.part(group * outputs * k, outputs * k));
            let grad = Storage::Cuda(grad.part(group * outputs * pixels, outputs * pixels));
            let (columns, _) = self.product(&Gemm {
                batches: 1,
                m: k,
                n: pixels,
                k: outputs,
                a: Matrix::row_major(&weight, k).transposed(),
                b: Matrix::row_major(&grad, pixels),
                epilogue: Epilogue::None,
                full: false,
            })?;
            let columns = self.widened(&columns)?;
            let [from, to] = [&columns, &dx].map(|x| Arg::Address(x.address()));
            let len = conv.batch * conv.inputs / conv.groups * plane;
            self.each("columns_backward", len, &[Self::conv_arg(conv, group), from, to], len)?;
        }
        Ok(Storage::Cuda(dx))
    }

    pub(super) fn convolve_backward_weight(
        &self,
        conv: &Conv,
        x: &Buffer,
        grad: &Buffer,
    ) -> Result<Storage> {
        let (k, pixels) = (conv.depth(), conv.batch * conv.output_len());
        let outputs = conv.outputs / conv.groups;
        let grad = self.channel_first(conv, grad)?;
        let mut parts = Vec::with_capacity(conv.groups);
        for group in 0..conv.groups {
            let columns = self.columns(conv, group, x)?;
            let grad = Storage::Cuda(grad.part(group * outputs * pixels, outputs * pixels));
            let (part, _) = self.product(&Gemm {
                batches: 1,
                m: outputs,
                n: k,
                k: pixels,
                a: Matrix::row_major(&grad, pixels),
                b: Matrix::row_major(&columns, pixels).transposed(),
                epilogue: Epilogue::None,
                full: true,
            })?;
            parts.push(part);
        }
        let parts: Vec<_> = parts.iter().map(|part| (part, outputs * k)).collect();
        if let [(only, _)] = parts[..] { Ok(only.clone()) } else { self.concat(1, &parts) }
    }
}
