//! The CPU: SIMD kernels spread over the rayon pool.

mod alignment;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod awake;
mod chain;
mod channelwise;
mod columns;
mod compose;
mod conv;
mod depthwise;
mod distort;
mod elementwise;
mod entry;
#[cfg(target_arch = "x86_64")]
mod few;
mod finish;
mod gemm;
#[cfg(target_arch = "x86_64")]
mod int8;
mod kernel;
mod layout;
mod math;
mod memory;
mod packs;
mod panels;
mod parallel;
mod peak;
mod pool;
mod portable;
#[cfg(target_arch = "x86_64")]
mod prefetch;
mod product;
#[cfg(test)]
mod reference;
mod rowwise;
mod slab;
mod step;
mod storage;
#[cfg(test)]
mod tests;
mod training;
#[cfg(target_arch = "x86_64")]
mod vnni;
mod windows;

use self::attention::gradients;
use self::kernel::Kernel;
use self::storage::{build, build2, host, host_mut};
use super::{
    After, Attention, AttentionGrad, Backend, Binary, Chain, Conv, Gate, Gemm, Next, Precision,
    Storage, Unary, Window, WindowKernels,
};
use crate::Result;
use crate::op::distort::{Distortion, Noise};
use crate::shape::elem_count;

pub(crate) use entry::{ENTRY, backend};
pub(crate) use slab::Slab;
pub use slab::pool_bytes;

struct Cpu {
    kernel: Kernel,
    precision: Precision,
}

#[cfg(target_arch = "x86_64")]
impl Cpu {
    /// Whether a product is computed with 8-bit integers.
    fn rounds(&self, gemm: &Gemm) -> bool {
        self.precision == Precision::Int8 && gemm.frozen
    }
}

impl Backend for Cpu {
    fn name(&self) -> String {
        match self.precision {
            Precision::F32 => "cpu".to_owned(),
            other => format!("cpu in {other}"),
        }
    }

    fn peak_gflops(&self) -> Result<f64> {
        Ok(peak::peak_gflops(self.kernel))
    }

    fn upload(&self, data: Vec<f32>) -> Result<Storage> {
        Ok(build(data.len(), |out| out.copy_from_slice(&data)))
    }

    fn write(&self, len: usize, write: &mut dyn FnMut(&mut [f32])) -> Result<Storage> {
        Ok(build(len, write))
    }

    fn download(&self, x: &Storage) -> Result<Vec<f32>> {
        Ok(host(x).to_vec())
    }

    fn fill(&self, len: usize, value: f32) -> Result<Storage> {
        Ok(build(len, |out| out.fill(value)))
    }

    fn gemm(&self, gemm: &Gemm) -> Result<(Storage, Option<Storage>)> {
        #[cfg(target_arch = "x86_64")]
        if self.rounds(gemm)
            && let Some(out) = product::rounded(gemm)
        {
            return Ok((out, None));
        }
        Ok(product::product(self.kernel, gemm))
    }

    fn fused_chain(&self, first: &Gemm, next: &Next, keep: bool) -> Result<Option<Chain>> {
        #[cfg(target_arch = "x86_64")]
        if self.rounds(first)
            && !keep
            && let Some(out) = product::two_rounded(first, next)
        {
            return Ok(Some(Chain { hidden: None, saved: None, out }));
        }
        Ok(product::two_products(self.kernel, first, next, keep))
    }

    fn attention(&self, attention: &Attention) -> Result<(Storage, Storage)> {
        Ok(attention::forward(self.kernel, attention))
    }

    fn attention_backward(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<(Storage, Storage)> {
        Ok(gradients::apart(self.kernel, attention, saved))
    }

    fn attention_backward_packed(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<Storage> {
        Ok(gradients::packed(self.kernel, attention, saved))
    }

    fn windows(&self) -> Option<&dyn WindowKernels> {
        Some(self)
    }

    fn layer_norm(
        &self,
        x: &Storage,
        gamma: &Storage,
        beta: &Storage,
        eps: f32,
    ) -> Result<(Storage, Storage)> {
        let len = [x.len(), 2 * x.len() / gamma.len()];
        Ok(build2(len, |out, stats| {
            rowwise::layer_norm(host(x), host(gamma), host(beta), eps, out, stats);
        }))
    }

    fn layer_norm_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        gamma: &Storage,
        grad: &Storage,
        earlier: Option<Storage>,
    ) -> Result<Storage> {
        let dx = build(x.len(), |dx| {
            rowwise::layer_norm_backward(host(x), host(stats), host(gamma), host(grad), dx);
        });
        match earlier {
            Some(earlier) => self.accumulate(earlier, &dx),
            None => Ok(dx),
        }
    }

    fn layer_norm_affine_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        grad: &Storage,
        d: usize,
    ) -> Result<(Storage, Storage)> {
        Ok(build2([d, d], |dgamma, dbeta| {
            rowwise::layer_norm_affine_backward(host(x), host(stats), host(grad), dgamma, dbeta);
        }))
    }

    fn conv2d(&self, conv: &Conv, x: &Storage, weight: &Storage) -> Result<Storage> {
        let len = conv.batch * conv.outputs * conv.output_len();
        Ok(build(len, |out| conv::forward(conv, host(x), host(weight), out)))
    }

    fn conv2d_backward_input(
        &self,
        conv: &Conv,
        weight: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        let len = conv.batch * conv.inputs * conv.input[0] * conv.input[1];
        Ok(build(len, |dx| conv::backward_input(conv, host(weight), host(grad), dx)))
    }

    fn conv2d_backward_weight(&self, conv: &Conv, x: &Storage, grad: &Storage) -> Result<Storage> {
        let len = conv.outputs * conv.depth();
        Ok(build(len, |dw| conv::backward_weight(conv, host(x), host(grad), dw)))
    }

    fn channel_moments(&self, x: &Storage, split: [usize; 3]) -> Result<(Storage, Storage)> {
        Ok(build2([split[1]; 2], |mean, variance| {
            channelwise::moments(host(x), split, mean, variance);
        }))
    }

    fn channel_affine(
        &self,
        x: &Storage,
        coefficients: [&Storage; 2],
        after: After<'_>,
        split: [usize; 3],
    ) -> Result<Storage> {
        let (x, coefficients, inner) = (host(x), coefficients.map(host), split[2]);
        Ok(build(x.len(), |out| match after {
            After::Nothing => channelwise::affine(x, coefficients, inner, out),
            After::Relu(None) => channelwise::affine_relu(x, coefficients, inner, out),
            After::Relu(Some(residual)) => {
                channelwise::affine_add_relu(x, coefficients, host(residual), inner, out);
            }
        }))
    }

    fn channel_gradient_sums(
        &self,
        operands: [&Storage; 2],
        centre: &Storage,
        gate: Option<Gate<'_>>,
        split: [usize; 3],
    ) -> Result<(Storage, Storage)> {
        let (operands, centre) = (operands.map(host), host(centre));
        let gate = gate.map(|gate| [host(gate.scale), host(gate.shift)]);
        Ok(build2([split[1]; 2], |plain, centred| {
            channelwise::gradient_sums(operands, centre, gate, split, [plain, centred]);
        }))
    }

    fn channel_combine(
        &self,
        operands: [&Storage; 2],
        coefficients: [&Storage; 3],
        gate: Option<Gate<'_>>,
        split: [usize; 3],
    ) -> Result<Storage> {
        let (operands, coefficients) = (operands.map(host), coefficients.map(host));
        let gate = gate.map(|gate| [host(gate.scale), host(gate.shift)]);
        Ok(build(operands[0].len(), |out| {
            channelwise::combine(operands, coefficients, gate, split[2], out);
        }))
    }

    fn relu_backward(&self, y: &Storage, grad: &Storage) -> Result<Storage> {
        Ok(build(y.len(), |out| elementwise::relu_backward(host(y), host(grad), out)))
    }

    fn max_pool(&self, window: &Window, x: &Storage) -> Result<(Storage, Storage)> {
        let len = x.len() / window.input_len() * window.output_len();
        Ok(build2([len; 2], |out, place| pool::max(window, host(x), out, place)))
    }

    fn max_pool_backward(
        &self,
        window: &Window,
        place: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        let len = grad.len() / window.output_len() * window.input_len();
        Ok(build(len, |dx| pool::max_backward(window, host(place), host(grad), dx)))
    }

    fn avg_pool(&self, window: &Window, x: &Storage) -> Result<Storage> {
        let len = x.len() / window.input_len() * window.output_len();
        Ok(build(len, |out| pool::mean(window, host(x), out)))
    }

    fn avg_pool_backward(&self, window: &Window, grad: &Storage) -> Result<Storage> {
        let len = grad.len() / window.output_len() * window.input_len();
        Ok(build(len, |dx| pool::mean_backward(window, host(grad), dx)))
    }

    fn softmax(&self, x: &Storage, d: usize) -> Result<Storage> {
        Ok(build(x.len(), |out| rowwise::softmax(host(x), d, out)))
    }

    fn softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage> {
        Ok(build(y.len(), |dx| rowwise::softmax_backward(host(y), host(grad), d, dx)))
    }

    fn log_softmax(&self, x: &Storage, d: usize) -> Result<Storage> {
        Ok(build(x.len(), |out| rowwise::log_softmax(host(x), d, out)))
    }

    fn log_softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage> {
        Ok(build(y.len(), |dx| rowwise::log_softmax_backward(host(y), host(grad), d, dx)))
    }

    fn l2_normalize(&self, x: &Storage, d: usize) -> Result<(Storage, Storage)> {
        Ok(build2([x.len(), x.len() / d], |out, factor| {
            rowwise::l2_normalize(host(x), d, out, factor);
        }))
    }

    fn l2_normalize_backward(
        &self,
        y: &Storage,
        factor: &Storage,
        grad: &Storage,
        d: usize,
    ) -> Result<Storage> {
        Ok(build(y.len(), |dx| {
            rowwise::l2_normalize_backward(host(y), host(factor), host(grad), d, dx);
        }))
    }

    fn unary(&self, op: Unary, x: &Storage) -> Result<Storage> {
        Ok(build(x.len(), |out| elementwise::unary(op, host(x), out)))
    }

    fn binary(&self, op: Binary, a: &Storage, b: &Storage) -> Result<Storage> {
        Ok(build(a.len(), |out| elementwise::binary(op, host(a), host(b), out)))
    }

    fn binary_broadcast(
        &self,
        op: Binary,
        shape: &[usize],
        (a, a_strides): (&Storage, &[usize]),
        (b, b_strides): (&Storage, &[usize]),
    ) -> Result<Storage> {
        let operands = ((host(a), a_strides), (host(b), b_strides));
        Ok(build(elem_count(shape), |out| {
            elementwise::binary_broadcast(op, shape, operands.0, operands.1, out);
        }))
    }

    fn accumulate(&self, mut a: Storage, b: &Storage) -> Result<Storage> {
        if let Some(sum) = host_mut(&mut a) {
            elementwise::add_assign(sum, host(b));
            return Ok(a);
        }
        self.binary(Binary::Add, &a, b)
    }

    fn distort(
        &self,
        images: &Storage,
        size: [usize; 2],
        looks: &[Distortion],
        noise: Noise,
    ) -> Result<Storage> {
        Ok(build(images.len() * looks.len(), |out| {
            distort::distort(host(images), size, looks, noise, out);
        }))
    }

    fn restore(&self, value: &Storage, source: &Storage, places: &[usize]) -> Result<Storage> {
        Ok(build(value.len(), |out| {
            out.copy_from_slice(host(value));
            places.iter().for_each(|&place| out[place] = host(source)[place]);
        }))
    }

    fn lerp(&self, a: &Storage, b: &Storage, w: f32) -> Result<Storage> {
        Ok(build(a.len(), |out| elementwise::lerp(host(a), host(b), w, out)))
    }

    fn sum(&self, x: &Storage, split: [usize; 3]) -> Result<Storage> {
        Ok(build(split[0] * split[2], |out| layout::sum(host(x), split, out)))
    }

    fn permute(&self, x: &Storage, shape: &[usize], axes: &[usize]) -> Result<Storage> {
        Ok(build(x.len(), |out| layout::permute(host(x), shape, axes, out)))
    }

    fn concat(&self, outer: usize, parts: &[(&Storage, usize)]) -> Result<Storage> {
        let total: usize = parts.iter().map(|(_, width)| width).sum();
        let parts: Vec<_> = parts.iter().map(|&(part, width)| (host(part), width)).collect();
        Ok(build(outer * total, |out| layout::concat(&parts, out)))
    }

    fn slice(&self, x: &Storage, split: [usize; 3], start: usize, len: usize) -> Result<Storage> {
        Ok(build(split[0] * len * split[2], |out| layout::slice(host(x), split, start, len, out)))
    }

    fn gather(&self, x: &Storage, indices: &[usize], width: usize) -> Result<Storage> {
        Ok(build(indices.len() * width, |out| layout::gather(host(x), indices, width, out)))
    }

    fn scatter_add(
        &self,
        x: &Storage,
        indices: &[usize],
        width: usize,
        len: usize,
    ) -> Result<Storage> {
        Ok(build(len, |out| layout::scatter_add(host(x), indices, width, out)))
    }
}
