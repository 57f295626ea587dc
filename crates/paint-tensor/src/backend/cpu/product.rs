//! A product as operations describe it, in terms of the loops of `gemm.rs`.

use super::finish::Finish;
use super::gemm::{self, Operand, Size};
use super::kernel::Kernel;
use super::packs::FEW_ROWS;
use super::parallel;
use super::storage::{build2, host, packs};
use crate::backend::{Epilogue, Gemm, Matrix, Storage};

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

/// The product and, where the epilogue asks for it, the slope of the activation.
pub(super) fn product(kernel: Kernel, gemm: &Gemm) -> (Storage, Option<Storage>) {
    let Gemm { batches, m, n, k, .. } = *gemm;
    let size = Size { m, n, k };
    let slope_len =
        if matches!(gemm.epilogue, Epilogue::Gelu { slope: true, .. }) { m * n } else { 0 };
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
