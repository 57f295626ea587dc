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
use std::sync::{Arc, PoisonError};

use cudarc::driver::sys;

use super::Cuda;
use super::axes::MOST_TURNED;
use super::buffer::Buffer;
use super::compile::{Define, HOPPER, Source};
use super::driver::Grid;
use super::kernel::{Kernel, kernels};
use super::param::{Read, Write, structures};
use super::problem::Problem;
use crate::Result;
use crate::backend::Epilogue;

/// Rows and columns of a tile of the result.
const TILE: usize = 128;
/// Numbers along the depth that a stage holds: 128 bytes.
const DEPTH: usize = 32;
/// Stages that are being fetched or multiplied.
const STAGES: usize = 5;
/// Blocks that share the columns of their tiles.
const CLUSTER: usize = 2;
/// A producing warpgroup and two that multiply in turns.
const THREADS: u32 = 3 * 128;
/// Columns that a warp passes through shared memory at once.
const PIECE: usize = 64;
/// Bytes from one row of a piece to the next, which begins in other banks.
const PITCH: usize = 4 * PIECE + 32;
/// Shared memory: alignment, the stages, the 16 rows that each of eight warps passes on, barriers.
const SHARED: usize = 1024 + STAGES * 2 * TILE * 4 * DEPTH + 8 * 16 * PITCH + 8 * (2 * STAGES + 2);

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
            ("TILE", TILE),
            ("DEPTH", DEPTH),
            ("STAGES", STAGES),
            ("CLUSTER", CLUSTER),
            ("PIECE", PIECE),
            ("PITCH", PITCH),
            // `wgmma.cuh` needs a mode; the products that depend on it are not used here.
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

/// Tiles of an `[m, n]` result, with those past its end that a cluster does.
fn tiles(m: usize, n: usize) -> usize {
    m.div_ceil(CLUSTER * TILE) * CLUSTER * (n / TILE)
}

fn source(finish: Finish) -> Source {
    let text = concat!(include_str!("kernels/wgmma.cuh"), include_str!("kernels/gelu_product.cu"));
    Source { name: "gelu_product", text, defines: finish.defines() }
}

/// A matrix `[rows, columns]` without gaps, fetched in boxes of `tile` rows by [`DEPTH`] columns. Numbers are rounded to
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
    /// What these kernels make of a product, if they do it: a large one in tf32 whose operands lie in one piece, with a
    /// tile for every multiprocessor.
    pub(super) fn fused_gelu(&self, problem: &Problem, epilogue: &Epilogue) -> Option<Finish> {
        let Problem { m, n, k, a, b, .. } = *problem;
        let fits = self.gpu.properties.capability == HOPPER
            && problem.tf32
            && problem.batches == 1
            && problem.is_large()
            && n.is_multiple_of(TILE)
            && k.is_multiple_of(4)
            && !a.transposed
            && a.pitch == k
            && b.pitch == if b.transposed { k } else { n }
            && (b.transposed || k < MOST_TURNED)
            && tiles(m, n) >= self.gpu.properties.multiprocessors as usize
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
            let mut known = self.gelu_products.lock().unwrap_or_else(PoisonError::into_inner);
            self.compiled(&mut known, finish, || source(finish))?
        };
        let (left, right) = (map(a, [m, k], TILE)?, map(b, [n, k], TILE / CLUSTER)?);
        let sizes = Sizes { m: m as i32, n: n as i32, k: k as i32 };
        let bias = bias.map_or(Read::NONE, Buffer::read);
        let argument = argument.map_or(Write(0), Buffer::write);
        let most = self.gpu.properties.multiprocessors as usize / CLUSTER * CLUSTER;
        let grid = Grid {
            blocks: [tiles(m, n).min(most), 1, 1],
            threads: [THREADS, 1],
            shared: SHARED as u32,
        };
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
    fn a_result_is_cut_into_whole_clusters() {
        assert_eq!([tiles(1, 128), tiles(256, 128), tiles(257, 256)], [2, 2, 8]);
    }

    #[test]
    fn a_block_has_the_shared_memory_that_it_asks_for() {
        const { assert!(SHARED <= 227 << 10) };
    }
}
