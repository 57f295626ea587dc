//! A product as operations describe it, in terms of the loops of `gemm.rs`.

use super::chain;
use super::finish::Finish;
use super::gemm::{self, Operand, Size};
#[cfg(target_arch = "x86_64")]
use super::int8;
use super::kernel::Kernel;
use super::packs::FEW_ROWS;
use super::parallel;
use super::storage::{build, build2, host, packs};
use crate::backend::{Chain, Epilogue, Gemm, Matrix, Next, Storage};

fn operand(matrix: Matrix, batch: usize) -> Operand {
    let skip = batch * matrix.batch;
    Operand::new(&host(matrix.storage)[skip..], matrix.row, matrix.col)
}

/// The right operand of a product that has `rows` rows and is the only one of its batch.
fn right_operand(matrix: Matrix, rows: usize) -> Operand {
    let packs = (rows <= FEW_ROWS).then(|| packs(matrix.storage));
    Operand { packs, ..operand(matrix, 0) }
}

fn finish(epilogue: Epilogue) -> Finish {
    match epilogue {
        Epilogue::None => Finish::None,
        Epilogue::Bias(bias) => Finish::Bias(host(bias)),
        Epilogue::Gelu { bias, .. } => Finish::Gelu { bias: bias.map(host) },
        Epilogue::GeluGradient(slope) => Finish::Times(host(slope)),
        Epilogue::Residual { bias, residual } => {
            Finish::Residual { bias: bias.map(host), residual: host(residual) }
        }
    }
}

fn size(gemm: &Gemm) -> Size {
    Size { m: gemm.m, n: gemm.n, k: gemm.k }
}

/// Elements of the slope that an epilogue asks for.
fn slope_len(gemm: &Gemm) -> usize {
    let asks = matches!(gemm.epilogue, Epilogue::Gelu { slope: true, .. });
    if asks { gemm.m * gemm.n } else { 0 }
}

/// Two products in a row, where their sizes suit that.
pub(super) fn two_products(kernel: Kernel, first: &Gemm, next: &Next, keep: bool) -> Option<Chain> {
    let Gemm { m, n: width, .. } = *first;
    if first.batches > 1 || next.n == 0 || !chain::suits(size(first)) {
        return None;
    }
    let hidden_len = if keep { m * width } else { 0 };
    let mut rest = None;
    let out = build(m * next.n, |out| {
        rest = Some(build2([hidden_len, slope_len(first)], |hidden, slope| {
            let one = (size(first), operand(first.b, 0), finish(first.epilogue));
            let size = Size { m, n: next.n, k: width };
            let two = (size, operand(next.b, 0), finish(next.epilogue));
            chain::multiply(kernel, operand(first.a, 0), [one, two], [hidden, slope, out]);
        }));
    });
    let (hidden, slope) = rest.expect("set while the output was written");
    let saved = (slope.len() > 0).then_some(slope);
    Some(Chain { hidden: keep.then_some(hidden), saved, out })
}

/// A layer's product with 8-bit integers, where these suit it.
#[cfg(target_arch = "x86_64")]
pub(super) fn rounded(gemm: &Gemm) -> Option<Storage> {
    let (a, layer) = (operand(gemm.a, 0), rounded_layer(size(gemm), gemm.b, gemm.epilogue)?);
    let suits = gemm.batches == 1 && gemm.m > 0 && gemm.a.col == 1;
    suits.then(|| build(gemm.m * gemm.n, |out| int8::multiply(a, layer, out)))
}

/// Two of them in a row.
#[cfg(target_arch = "x86_64")]
pub(super) fn two_rounded(first: &Gemm, next: &Next) -> Option<Storage> {
    let second = Size { m: first.m, n: next.n, k: first.n };
    let layers = [
        rounded_layer(size(first), first.b, first.epilogue)?,
        rounded_layer(second, next.b, next.epilogue)?,
    ];
    let suits = first.batches == 1 && first.m > 0 && first.a.col == 1;
    suits.then(|| {
        build(first.m * next.n, |out| int8::multiply_twice(operand(first.a, 0), layers, out))
    })
}

#[cfg(target_arch = "x86_64")]
fn rounded_layer<'a>(size: Size, b: Matrix<'a>, epilogue: Epilogue<'a>) -> Option<chain::Link<'a>> {
    let b = Operand { packs: Some(packs(b.storage)), ..operand(b, 0) };
    int8::suits(size, b).then(|| (size, b, finish(epilogue)))
}

/// The product and, where the epilogue asks for it, the slope of the activation.
pub(super) fn product(kernel: Kernel, gemm: &Gemm) -> (Storage, Option<Storage>) {
    let Gemm { batches, m, n, .. } = *gemm;
    let (size, slope_len) = (size(gemm), slope_len(gemm));
    let (out, slope) = build2([batches * m * n, slope_len], |out, slope| {
        if batches == 1 {
            let operands = (operand(gemm.a, 0), right_operand(gemm.b, m));
            gemm::parallel(kernel, size, operands, finish(gemm.epilogue), out, slope);
        } else {
            parallel::for_rows(out, m * n, |first, out| {
                for (batch, out) in out.chunks_exact_mut(m * n).enumerate() {
                    let operands = (operand(gemm.a, first + batch), operand(gemm.b, first + batch));
                    gemm::serial(kernel, size, operands, out, n);
                }
            });
        }
    });
    (out, (slope_len > 0).then_some(slope))
}
