//! Products with GELU on Hopper in tf32 (`kernels/gelu_product.cu`).
//!
//! cuBLASLt's products in tf32 are as fast, but with its own GELU they are far slower, and GELU by itself takes half as
//! long again, because it reads and writes everything once more.
#![expect(
    unsafe_code,
    reason = "the driver's description of a matrix comes from a foreign function"
)]

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use super::Cuda;
use super::buffer::Buffer;
use super::compile::{Define, HOPPER, Source};
use super::driver::Grid;
use super::kernel::{Kernel, kernels};
use super::matmul::Problem;
use super::param::{Read, Write, structures};
use crate::backend::Epilogue;
use crate::{Error, Result};

/// Rows and columns of a tile of the result.
const TILE: usize = 128;
/// Numbers along the depth that a stage holds: 128 bytes.
const DEPTH: usize = 32;
/// Stages that are on their way or in use.
const STAGES: usize = 5;
/// Blocks that share the columns of their tiles.
const CLUSTER: usize = 2;
/// A producing warpgroup and two that multiply in turns.
const THREADS: u32 = 3 * 128;
/// Shared memory: alignment, the stages, what eight warps pass on (16 rows of 64 numbers, and 32 bytes more), barriers.
const SHARED: usize =
    1024 + STAGES * 2 * TILE * 128 + 8 * 16 * (64 * 4 + 32) + 8 * (2 * STAGES + 2);

structures! {
    /// A matrix as asynchronous copies see it: a `CUtensorMap`.
    struct Map {
        words: [i64; 16],
    }

    /// `[m, k]` by `[n, k]`.
    struct Sizes {
        m: i32,
        n: i32,
        k: i32,
    }
}

kernels! {
    /// `gelu_product.cu`.
    struct GeluProduct {
        gelu_product: Kernel<(Map, Map, Sizes, Read, Write, Write)>,
    }
}

/// What becomes of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Finish {
    Gelu,
    /// GELU, and its argument stored too.
    GeluWithArgument,
    /// Times the derivative of GELU at a stored argument.
    Gradient,
}

impl Finish {
    /// The number of this form, and of each, under the names that the kernel uses.
    fn defines(self) -> Vec<Define> {
        let number = |name, finish| (name, finish as usize);
        vec![
            number("FINISH", self),
            number("FINISH_GELU", Self::Gelu),
            number("FINISH_WITH_ARGUMENT", Self::GeluWithArgument),
            number("FINISH_GRADIENT", Self::Gradient),
            ("STAGES", STAGES),
            // The mode of the file that is shared with attention: not bf16.
            ("MODE", 1),
            ("MODE_BF16", 0),
        ]
    }
}

/// The kernels compiled so far.
pub(super) type Compiled = HashMap<Finish, Arc<GeluProduct>>;

/// The operands of a product with GELU, and where results go.
pub(super) struct Operands<'a> {
    /// `[m, k]`.
    pub(super) a: &'a Buffer,
    /// `[n, k]`.
    pub(super) b: &'a Buffer,
    /// `[n]`; the gradient has none.
    pub(super) bias: Option<&'a Buffer>,
    /// `[m, n]`: read by the gradient, else written where it is wanted.
    pub(super) argument: Option<&'a Buffer>,
    /// `[m, n]`.
    pub(super) out: &'a Buffer,
}

fn source(finish: Finish) -> Source {
    let text = concat!(include_str!("kernels/wgmma.cuh"), include_str!("kernels/gelu_product.cu"));
    Source { name: "gelu_product", text, defines: finish.defines() }
}

/// Rows of `columns` numbers in a row, fetched by tiles of `rows` rows and the depth of a stage. Numbers are rounded to
/// tf32 on the way.
fn map(buffer: &Buffer, [rows, columns]: [usize; 2], tile: usize) -> Result<Map> {
    let mut map = MaybeUninit::<sys::CUtensorMap>::uninit();
    let size = [columns as u64, rows as u64];
    let (pitch, part, steps) = ([4 * columns as u64], [DEPTH as u32, tile as u32], [1, 1]);
    // SAFETY: the sizes describe the memory at the address, and all lists have as many entries as the rank asks for.
    let done = unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
            2,
            ptr::with_exposed_provenance_mut(buffer.address() as usize),
            size.as_ptr(),
            pitch.as_ptr(),
            part.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    done.result().map_err(super::driver::failed("describing a matrix"))?;
    // SAFETY: the call succeeded, so the map is written.
    let words = unsafe { map.assume_init() }.opaque;
    Ok(Map { words: words.map(|word| word as i64) })
}

impl Cuda {
    /// What these kernels make of a product, if they do it: a large one in tf32 whose operands lie in one piece.
    pub(super) fn fused_gelu(&self, problem: &Problem, epilogue: &Epilogue) -> Option<Finish> {
        let Problem { n, k, a, b, .. } = *problem;
        let fits = self.gpu.properties.capability == HOPPER
            && problem.tf32
            && problem.batches == 1
            && problem.is_large()
            && n.is_multiple_of(TILE)
            && k.is_multiple_of(4)
            && !a.transposed
            && a.pitch == k
            && b.pitch == if b.transposed { k } else { n }
            && problem.alignment >= 16;
        match epilogue {
            _ if !fits => None,
            Epilogue::Gelu { bias: Some(_), slope: false } => Some(Finish::Gelu),
            Epilogue::Gelu { bias: Some(_), slope: true } => Some(Finish::GeluWithArgument),
            Epilogue::GeluGradient(_) => Some(Finish::Gradient),
            _ => None,
        }
    }

    pub(super) fn gelu_product(
        &self,
        finish: Finish,
        [m, n, k]: [usize; 3],
        operands: &Operands,
    ) -> Result<()> {
        let Operands { a, b, bias, argument, out } = *operands;
        let kernels = {
            let mut known = self.gelu_products.lock().map_err(|_| Error::Gpu {
                what: "a product with GELU".to_owned(),
                why: "a thread failed while it compiled the kernel".to_owned(),
            })?;
            self.compiled(&mut known, finish, || source(finish))?
        };
        let (left, right) = (map(a, [m, k], TILE)?, map(b, [n, k], TILE / CLUSTER)?);
        let sizes = Sizes { m: m as i32, n: n as i32, k: k as i32 };
        let bias = bias.map_or(Read::NONE, Buffer::read);
        let argument = argument.map_or(Write(0), Buffer::write);
        let tiles = m.div_ceil(CLUSTER * TILE) * CLUSTER * (n / TILE);
        let most = self.gpu.properties.multiprocessors as usize / CLUSTER * CLUSTER;
        let grid =
            Grid { blocks: [tiles.min(most), 1, 1], threads: [THREADS, 1], shared: SHARED as u32 };
        let params = (left, right, sizes, bias, argument, out.write());
        self.gpu.launch(&kernels.gelu_product, grid, params)
    }
}

/// The file with what it declares, in every form.
#[cfg(test)]
pub(super) fn signatures() -> Vec<(Source, super::kernel::Signatures)> {
    use super::kernel::Module as _;
    [Finish::Gelu, Finish::GeluWithArgument, Finish::Gradient]
        .map(|finish| (source(finish), GeluProduct::signatures()))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_shared_memory_that_it_asks_for() {
        const { assert!(SHARED <= 227 << 10) };
    }
}
