//! Layers through which no gradient passes, with 8-bit floats (`--precision fp8`).
//!
//! E4M3 has four bits of exponent and three of fraction: numbers up to 448, at most a 16th of themselves off from 2^-6
//! on. What layer norms, GELU and attention give lies inside this range and needs no unit; what is larger counts as 448. A
//! weight is stored as `w ≈ u W` with the unit `u = max |w| / 448`, by which cuBLASLt multiplies the product. Sums, bias,
//! activation and residual are those of bf16. The rounded weight stays beside its numbers, and between the two layers of
//! an MLP lie 8-bit floats too.

use super::buffer::{Buffer, Kind};
use super::problem::{Activation, Addresses, Element, Layout, Problem};
use super::{Cuda, on_gpu};
use crate::Result;
use crate::backend::{Chain, Epilogue, Gemm, Next, Precision, Storage};

/// Numbers that cuBLASLt wants side by side: 16 bytes.
const PACK: usize = 16;
/// Numbers in an element of a buffer of `f32`.
const WORD: usize = 4;

/// A weight in E4M3.
#[derive(Clone)]
pub(super) struct Rounded {
    /// Four numbers to an element.
    words: Buffer,
    /// `u`.
    unit: Buffer,
}

/// A layer whose weight is rounded.
struct Layer<'a> {
    /// Rows, columns and depth.
    size: [usize; 3],
    weight: Rounded,
    /// Where the weight begins in its block.
    start: usize,
    epilogue: Epilogue<'a>,
}

impl Cuda {
    /// A product with its factors rounded; none where they are not to be, or do not suit.
    pub(super) fn rounded_product(&self, gemm: &Gemm) -> Result<Option<Storage>> {
        let Some((input, layer)) = self.rounded_layer(gemm)? else { return Ok(None) };
        Ok(Some(Storage::Cuda(self.multiply(&input, &layer, Kind::Bf16)?)))
    }

    /// Two products of which nothing is kept, with the factors of both rounded.
    pub(super) fn rounded_chain(&self, first: &Gemm, next: &Next) -> Result<Option<Chain>> {
        let Next { n, b, epilogue } = *next;
        let second = Gemm { n, k: first.n, b, epilogue, ..*first };
        let suits = self.suits(first) && is_layer(&second);
        let Some((input, first)) = suits.then(|| self.rounded_layer(first)).transpose()?.flatten()
        else {
            return Ok(None);
        };
        let Some(second) = self.layer(&second)? else { return Ok(None) };
        let hidden = self.multiply(&input, &first, Kind::F32)?;
        let out = Storage::Cuda(self.multiply(&hidden, &second, Kind::Bf16)?);
        Ok(Some(Chain { hidden: None, saved: None, out }))
    }

    fn suits(&self, gemm: &Gemm) -> bool {
        let a = on_gpu(gemm.a.storage);
        let in_order = (gemm.a.row, gemm.a.col) == (gemm.k, 1);
        self.precision == Precision::Fp8
            && gemm.frozen
            && a.kind == Kind::Bf16
            && in_order
            && is_layer(gemm)
    }

    /// The input of a layer and the layer, both rounded.
    fn rounded_layer<'a>(&self, gemm: &Gemm<'a>) -> Result<Option<(Buffer, Layer<'a>)>> {
        if !self.suits(gemm) {
            return Ok(None);
        }
        let Some(layer) = self.layer(gemm)? else { return Ok(None) };
        let x = self.aligned(on_gpu(gemm.a.storage))?;
        let words = self.take_f32(x.len() / WORD)?;
        let (packs, n) = (x.len().div_ceil(2 * WORD), x.len());
        self.each(&self.kernels.fp8.round_input, packs, n, (x.read(), words.write(), n as i64))?;
        Ok(Some((words, layer)))
    }

    fn layer<'a>(&self, gemm: &Gemm<'a>) -> Result<Option<Layer<'a>>> {
        let weight = on_gpu(gemm.b.storage);
        let (whole, start) = weight.whole();
        let divides = |count: usize| count.is_multiple_of(PACK);
        if weight.kind != Kind::F32 || !divides(start) || !divides(whole.len()) {
            return Ok(None);
        }
        let (size, epilogue) = ([gemm.m, gemm.n, gemm.k], gemm.epilogue);
        let block = &weight.block;
        let weight = self.beside(block, &block.rounded, || self.rounded(&whole))?;
        Ok(Some(Layer { size, weight, start, epilogue }))
    }

    /// The whole block of a weight in E4M3.
    fn rounded(&self, whole: &Buffer) -> Result<Rounded> {
        let (largest, unit) = (self.take_f32(1)?, self.take_f32(1)?);
        let words = self.take_f32(whole.len() / WORD)?;
        let (kernels, n) = (&self.kernels.fp8, whole.len());
        let params = (largest.write(), 0.0, 1);
        self.each(&self.kernels.elementwise.fill, 1, 1, params)?;
        self.each(&kernels.largest, n / WORD, n, (whole.read(), largest.write(), n as i64))?;
        let params = (whole.read(), largest.read(), unit.write(), words.write(), n as i64);
        self.each(&kernels.round_weight, n / WORD, n, params)?;
        Ok(Rounded { words, unit })
    }

    /// `epilogue(input · weightᵀ)` in bf16, or as words of 8-bit floats where `kind` is `f32`.
    fn multiply(&self, input: &Buffer, layer: &Layer, kind: Kind) -> Result<Buffer> {
        let Layer { size: [m, n, k], weight: Rounded { words, unit }, start, epilogue } = layer;
        let [m, n, k] = [*m, *n, *k];
        let weight = words.part(start / WORD, n * k / WORD);
        let (bias, residual) = epilogue.added();
        let in_bf16 = |x: &Storage| self.aligned(&self.cast(on_gpu(x), Kind::Bf16)?);
        let (bias, residual) = (bias.map(in_bf16).transpose()?, residual.map(in_bf16).transpose()?);
        let (output, len) = match kind {
            Kind::F32 => (Element::E4m3, m * n / WORD),
            Kind::Bf16 => (Element::Bf16, m * n),
        };
        let out = self.take(len, kind)?;
        let at = Addresses {
            a: input.address(),
            b: weight.address(),
            out: out.address(),
            bias: bias.as_ref().map(Buffer::address),
            residual: residual.as_ref().map(Buffer::address),
            argument: None,
            unit: Some(unit.address()),
        };
        let activation = match epilogue {
            Epilogue::Gelu { .. } => Activation::Gelu,
            _ => Activation::None,
        };
        let problem = Problem {
            m,
            n,
            k,
            batches: 1,
            a: Layout { transposed: false, pitch: k, batch: 0 },
            b: Layout { transposed: true, pitch: k, batch: 0 },
            operands: Element::E4m3,
            output,
            tf32: false,
            bias: bias.is_some(),
            activation,
            alignment: at.alignment(),
        };
        self.queue(&problem, at)?;
        Ok(out)
    }
}

/// Whether a product has the form of a layer, of sizes that cuBLASLt takes, and an epilogue without a gradient.
fn is_layer(gemm: &Gemm) -> bool {
    let in_order = (gemm.b.row, gemm.b.col) == (1, gemm.k);
    let sizes = [gemm.n, gemm.k].iter().all(|size| *size > 0 && size.is_multiple_of(PACK));
    let forward = matches!(
        gemm.epilogue,
        Epilogue::None
            | Epilogue::Bias(_)
            | Epilogue::Residual { .. }
            | Epilogue::Gelu { slope: false, .. }
    );
    gemm.batches == 1 && gemm.m > 0 && in_order && sizes && forward && !gemm.full
}
