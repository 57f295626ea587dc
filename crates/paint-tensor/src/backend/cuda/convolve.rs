//! Convolutions as matrix products over unfolded pixels: `[O, K] x [K, B oh ow]`, one product per group.

use super::Cuda;
use super::buffer::Buffer;
use super::param::structures;
use crate::Result;
use crate::backend::{self, Backend as _, Epilogue, Gemm, Matrix, Storage};

structures! {
    /// The geometry of a convolution, with the channels of one group.
    struct Conv {
        batch: i32,
        channels: i32,
        first: i32,
        height: i32,
        width: i32,
        kh: i32,
        kw: i32,
        stride: i32,
        padding: i32,
        out_height: i32,
        out_width: i32,
        inputs: i32,
    }
}

impl Conv {
    fn new(conv: &backend::Conv, group: usize) -> Self {
        let backend::Conv { batch, inputs, groups, stride, padding, .. } = *conv;
        let channels = inputs / groups;
        let first = (group * channels) as i32;
        let [batch, channels, inputs] = [batch, channels, inputs].map(|count| count as i32);
        let [stride, padding] = [stride, padding].map(|pixels| pixels as i32);
        let [height, width] = conv.input.map(|side| side as i32);
        let [kh, kw] = conv.kernel.map(|side| side as i32);
        let [out_height, out_width] = conv.output.map(|side| side as i32);
        Self {
            batch,
            channels,
            first,
            height,
            width,
            kh,
            kw,
            stride,
            padding,
            out_height,
            out_width,
            inputs,
        }
    }
}

impl Cuda {
    /// `[K, B oh ow]` of one group.
    fn columns(&self, conv: &backend::Conv, group: usize, x: &Buffer) -> Result<Storage> {
        let len = conv.depth() * conv.batch * conv.output_len();
        let kernel = &self.kernels.planes.columns;
        self.map(kernel, len, |out, n| (Conv::new(conv, group), x.read(), out, n))
    }

    /// `[B, O, pixels]` with the channel first: `[O, B, pixels]`.
    fn channel_first(&self, conv: &backend::Conv, grad: &Buffer) -> Result<Buffer> {
        let shape = [conv.batch, conv.outputs, conv.output_len()];
        let turned = self.permute(&Storage::Cuda(grad.clone()), &shape, &[1, 0, 2])?;
        self.widened(&turned)
    }

    pub(super) fn convolve(
        &self,
        conv: &backend::Conv,
        x: &Buffer,
        weight: &Buffer,
    ) -> Result<Storage> {
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
        conv: &backend::Conv,
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
            let len = conv.batch * conv.inputs / conv.groups * plane;
            let params = (Conv::new(conv, group), columns.read(), dx.write(), len as i64);
            self.each(&self.kernels.planes.columns_backward, len, len, params)?;
        }
        Ok(Storage::Cuda(dx))
    }

    pub(super) fn convolve_backward_weight(
        &self,
        conv: &backend::Conv,
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
