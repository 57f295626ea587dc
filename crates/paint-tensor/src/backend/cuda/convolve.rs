//! Convolutions as matrix products over unfolded pixels: `[O, K] x [K, oh ow]` for each image, one product per group.

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
        rows_first: i32,
    }
}

/// How unfolded pixels lie.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// `[B, K, oh ow]`.
    ImagesFirst,
    /// `[K, B, oh ow]`.
    RowsFirst,
}

impl Conv {
    fn new(conv: &backend::Conv, group: usize, order: Order) -> Self {
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
            rows_first: i32::from(order == Order::RowsFirst),
        }
    }
}

/// Whether the unfolded pixels of each image are the image itself.
fn is_pointwise(conv: &backend::Conv) -> bool {
    conv.kernel == [1, 1] && conv.stride == 1 && conv.padding == 0 && conv.groups == 1
}

impl Cuda {
    /// The pixels of one group, unfolded.
    fn columns(
        &self,
        conv: &backend::Conv,
        group: usize,
        x: &Buffer,
        order: Order,
    ) -> Result<Storage> {
        if order == Order::ImagesFirst && is_pointwise(conv) {
            return Ok(Storage::Cuda(x.clone()));
        }
        let len = conv.depth() * conv.batch * conv.output_len();
        let out = self.take_f32(len)?;
        let params = (Conv::new(conv, group, order), x.read(), out.write(), len as i64);
        self.each(&self.kernels.planes.columns, len.div_ceil(4), len, params)?;
        Ok(Storage::Cuda(out))
    }

    pub(super) fn convolve(
        &self,
        conv: &backend::Conv,
        x: &Buffer,
        weight: &Buffer,
    ) -> Result<Storage> {
        let (k, pixels) = (conv.depth(), conv.output_len());
        let outputs = conv.outputs / conv.groups;
        let mut parts = Vec::with_capacity(conv.groups);
        for group in 0..conv.groups {
            let columns = self.columns(conv, group, x, Order::ImagesFirst)?;
            let weight = Storage::Cuda(weight.part(group * outputs * k, outputs * k));
            let (part, _) = self.product(&Gemm {
                batches: conv.batch,
                m: outputs,
                n: pixels,
                k,
                a: Matrix::row_major(&weight, k),
                b: Matrix { batch: k * pixels, ..Matrix::row_major(&columns, pixels) },
                epilogue: Epilogue::None,
                full: false,
                frozen: false,
            })?;
            parts.push(part);
        }
        let parts: Vec<_> = parts.iter().map(|part| (part, outputs * pixels)).collect();
        if let [(only, _)] = parts[..] { Ok(only.clone()) } else { self.concat(conv.batch, &parts) }
    }

    pub(super) fn convolve_backward_input(
        &self,
        conv: &backend::Conv,
        weight: &Buffer,
        grad: &Buffer,
    ) -> Result<Storage> {
        let (k, pixels) = (conv.depth(), conv.output_len());
        let outputs = conv.outputs / conv.groups;
        let columns = |group: usize| {
            let weight = Storage::Cuda(weight.part(group * outputs * k, outputs * k));
            let first = group * outputs * pixels;
            let grad = Storage::Cuda(grad.part(first, grad.len() - first));
            let (columns, _) = self.product(&Gemm {
                batches: conv.batch,
                m: k,
                n: pixels,
                k: outputs,
                a: Matrix::row_major(&weight, k).transposed(),
                b: Matrix { batch: conv.outputs * pixels, ..Matrix::row_major(&grad, pixels) },
                epilogue: Epilogue::None,
                full: false,
                frozen: false,
            })?;
            Ok(columns)
        };
        if is_pointwise(conv) {
            return columns(0);
        }
        let plane = conv.input[0] * conv.input[1];
        let dx = self.take_f32(conv.batch * conv.inputs * plane)?;
        for group in 0..conv.groups {
            let columns = self.widened(&columns(group)?)?;
            let len = conv.batch * conv.inputs / conv.groups * plane;
            let geometry = Conv::new(conv, group, Order::ImagesFirst);
            let params = (geometry, columns.read(), dx.write(), len as i64);
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
        let shape = [conv.batch, conv.outputs, conv.output_len()];
        let grad = self.permute(&Storage::Cuda(grad.clone()), &shape, &[1, 0, 2])?;
        let grad = self.widened(&grad)?;
        let mut parts = Vec::with_capacity(conv.groups);
        for group in 0..conv.groups {
            let columns = self.columns(conv, group, x, Order::RowsFirst)?;
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
                frozen: false,
            })?;
            parts.push(part);
        }
        let parts: Vec<_> = parts.iter().map(|part| (part, outputs * k)).collect();
        if let [(only, _)] = parts[..] { Ok(only.clone()) } else { self.concat(1, &parts) }
    }
}
