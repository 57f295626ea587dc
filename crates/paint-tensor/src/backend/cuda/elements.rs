//! Buffers of elements: taking them, converting between kinds, and the launches that most operations share.

use std::sync::OnceLock;

use super::arena::Block;
use super::buffer::{Buffer, Kind};
use super::compile::Define;
use super::driver::Grid;
use super::kernel::{Kernel, variants};
use super::param::{Params, Write};
use super::{Cuda, on_gpu, record};
use crate::backend::{Binary, Storage, Unary};
use crate::{Error, Result};

/// Threads of a block of the elementwise kernels.
pub(super) const THREADS: usize = 256;
/// Columns and rows of threads of the kernels that sum columns.
pub(super) const COLUMNS: usize = 32;
pub(super) const LANES: usize = 16;
/// Rows that one block of such a kernel sums.
pub(super) const CHUNK: usize = 256;
/// Neighbours that are moved at once.
pub(super) const PACK: usize = 4;
/// Rows with more elements than this are summed by more than one block.
const LONG: usize = 1 << 14;
/// The number of blocks of a row: the first of these that divides it.
const PARTS: [usize; 2] = [1024, 256];

/// The constants of the kernels that sum columns or move neighbours.
pub(super) fn layout_constants() -> Vec<Define> {
    vec![("COLUMNS", COLUMNS), ("LANES", LANES), ("PACK", PACK)]
}

const EXP: Define = ("UNARY_EXP", 0);
const LOG: Define = ("UNARY_LOG", 1);
const SQRT: Define = ("UNARY_SQRT", 2);
const RELU: Define = ("UNARY_RELU", 3);
const STEP: Define = ("UNARY_STEP", 4);
const GELU: Define = ("UNARY_GELU", 5);
const GELU_SLOPE: Define = ("UNARY_GELU_SLOPE", 6);
const SCALE: Define = ("UNARY_SCALE", 7);
const ADD_SCALAR: Define = ("UNARY_ADD_SCALAR", 8);
const GELU_TANH: Define = ("UNARY_GELU_TANH", 9);
const GELU_TANH_SLOPE: Define = ("UNARY_GELU_TANH_SLOPE", 10);
const SWISH: Define = ("UNARY_SWISH", 11);
const SWISH_SLOPE: Define = ("UNARY_SWISH_SLOPE", 12);

/// The number of a function of one argument, and the constant it takes.
fn unary_code(op: Unary) -> (Define, f32) {
    match op {
        Unary::Exp => (EXP, 0.0),
        Unary::Log => (LOG, 0.0),
        Unary::Sqrt => (SQRT, 0.0),
        Unary::Relu => (RELU, 0.0),
        Unary::Step => (STEP, 0.0),
        Unary::Gelu => (GELU, 0.0),
        Unary::GeluSlope => (GELU_SLOPE, 0.0),
        Unary::GeluTanh => (GELU_TANH, 0.0),
        Unary::GeluTanhSlope => (GELU_TANH_SLOPE, 0.0),
        Unary::Swish(rate) => (SWISH, rate),
        Unary::SwishSlope(rate) => (SWISH_SLOPE, rate),
        Unary::Scale(factor) => (SCALE, factor),
        Unary::AddScalar(term) => (ADD_SCALAR, term),
    }
}

/// The number of a function of two arguments.
pub(super) fn binary_code(op: Binary) -> Define {
    match op {
        Binary::Add => ("BINARY_ADD", 0),
        Binary::Sub => ("BINARY_SUB", 1),
        Binary::Mul => ("BINARY_MUL", 2),
        Binary::Div => ("BINARY_DIV", 3),
    }
}

/// The constants of the elementwise kernels.
pub(super) fn elementwise_constants() -> Vec<Define> {
    function_codes().into_iter().chain([("PACK", PACK)]).collect()
}

/// The numbers by which the kernels tell functions apart, under the names that they use.
fn function_codes() -> Vec<Define> {
    let unary = [
        EXP,
        LOG,
        SQRT,
        RELU,
        STEP,
        GELU,
        GELU_SLOPE,
        SCALE,
        ADD_SCALAR,
        GELU_TANH,
        GELU_TANH_SLOPE,
        SWISH,
        SWISH_SLOPE,
    ];
    let binary = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div].map(binary_code);
    unary.into_iter().chain(binary).collect()
}

/// Whether elements are read several at a time or one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Packs,
    Single,
}

variants! {
    Packing {
        Packs = "packs",
        Single = "single",
    }
}

impl Packing {
    /// Packs of `pack` elements where they fit, and how many elements are read at once.
    pub(super) fn when(fits: bool, pack: usize) -> (Self, usize) {
        if fits { (Self::Packs, pack) } else { (Self::Single, 1) }
    }
}

impl Cuda {
    pub(super) fn take(&self, len: usize, kind: Kind) -> Result<Buffer> {
        let recording = record::arena(&self.gpu);
        let arena = recording.as_ref().unwrap_or(&self.arena);
        Ok(Buffer::new(arena.take(len * kind.bytes())?, len, kind))
    }

    pub(super) fn take_f32(&self, len: usize) -> Result<Buffer> {
        self.take(len, Kind::F32)
    }

    /// The elements as `f32`.
    pub(super) fn widened(&self, x: &Storage) -> Result<Buffer> {
        self.cast(on_gpu(x), Kind::F32)
    }

    /// The elements as `kind`; the bf16 form of an `f32` block is made once and kept with it.
    pub(super) fn cast(&self, x: &Buffer, kind: Kind) -> Result<Buffer> {
        match (x.kind, kind) {
            (Kind::F32, Kind::Bf16) => {
                let (whole, start) = x.whole();
                let half = self.beside(&x.block, &x.block.half, || self.converted(&whole, kind))?;
                Ok(half.part(start, x.len()))
            }
            (Kind::Bf16, Kind::F32) => self.converted(x, kind),
            _ => Ok(x.clone()),
        }
    }

    /// What `make` makes of a block: once, and then kept at its `place` beside the block.
    pub(super) fn beside<T: Clone>(
        &self,
        block: &Block,
        place: &OnceLock<T>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(known) = place.get() {
            return Ok(known.clone());
        }
        let made = make()?;
        Ok(if record::may_keep(&self.gpu, block) {
            place.get_or_init(|| made).clone()
        } else {
            made
        })
    }

    /// The same elements at a multiple of 16 bytes, which vector loads need: a part may begin anywhere.
    pub(super) fn aligned(&self, x: &Buffer) -> Result<Buffer> {
        if x.address().is_multiple_of(16) {
            return Ok(x.clone());
        }
        let out = self.take(x.len(), x.kind)?;
        self.copy_rows((x, 0, x.len()), (&out, 0, x.len()), [1, x.len()])?;
        Ok(out)
    }

    /// The elements as bf16, without keeping the copy beside the original.
    pub(super) fn narrowed(&self, x: &Buffer) -> Result<Buffer> {
        if x.kind == Kind::Bf16 { Ok(x.clone()) } else { self.converted(x, Kind::Bf16) }
    }

    pub(super) fn converted(&self, x: &Buffer, kind: Kind) -> Result<Buffer> {
        let (x, out) = (&self.aligned(x)?, self.take(x.len(), kind)?);
        let (kernel, n) = (self.kernels.elementwise.cast_to.of(kind), x.len());
        self.each(kernel, n.div_ceil(4), n, (x.read(), out.write(), n as i64))?;
        Ok(out)
    }

    /// Queues a kernel over `n` elements, with about as many threads as `threads`.
    pub(super) fn each<P: Params>(
        &self,
        kernel: &Kernel<P>,
        threads: usize,
        n: usize,
        params: P,
    ) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        if n > u32::MAX as usize {
            let why = format!("{n} elements, but the kernels count to 2^32");
            return Err(Error::Gpu { what: kernel.name.clone(), why });
        }
        let most = self.gpu.properties.multiprocessors as usize * 16;
        let blocks = threads.div_ceil(THREADS).clamp(1, most);
        self.gpu.launch(kernel, Grid::new([blocks, 1, 1], [THREADS as u32, 1]), params)
    }

    /// Queues a kernel that writes `len` elements to a new buffer of `f32`; `params` gets its address and length.
    pub(super) fn map<P: Params>(
        &self,
        kernel: &Kernel<P>,
        len: usize,
        params: impl FnOnce(Write, i64) -> P,
    ) -> Result<Storage> {
        let out = self.take_f32(len)?;
        self.each(kernel, len, len, params(out.write(), len as i64))?;
        Ok(Storage::Cuda(out))
    }

    pub(super) fn elementwise(&self, op: Unary, x: &Buffer) -> Result<Storage> {
        let ((_, code), argument) = unary_code(op);
        let kernel = &self.kernels.elementwise.unary;
        self.map(kernel, x.len(), |out, n| (code as i32, argument, x.read(), out, n))
    }

    /// Indices as the bits of `f32`.
    pub(super) fn indices(&self, indices: &[usize]) -> Result<Buffer> {
        let bits: Vec<f32> = indices.iter().map(|&i| f32::from_bits(i as u32)).collect();
        self.uploaded(&bits)
    }

    pub(super) fn uploaded(&self, data: &[f32]) -> Result<Buffer> {
        let out = self.take_f32(data.len())?;
        if !data.is_empty() {
            self.gpu.copy_in(out.address(), data)?;
        }
        Ok(out)
    }

    /// Sums over the middle of `[outer, mid, inner]`: in one pass, or over chunks of rows and then over the chunks.
    pub(super) fn sums(&self, x: &Buffer, [outer, mid, inner]: [usize; 3]) -> Result<Buffer> {
        if inner == 1
            && mid > LONG
            && let Some(parts) = PARTS.into_iter().find(|&parts| mid.is_multiple_of(parts))
        {
            let sums = self.sums(x, [outer * parts, mid / parts, 1])?;
            return self.sums(&sums, [outer, parts, 1]);
        }
        if inner == 1 {
            let out = self.take_f32(outer)?;
            if outer > 0 {
                let kernel = self.kernels.layout.sum_rows.of(x.kind);
                let grid = Grid::new([outer, 1, 1], [THREADS as u32, 1]);
                self.gpu.launch(kernel, grid, (x.read(), out.write(), mid as i64))?;
            }
            return Ok(out);
        }
        let chunks = mid.div_ceil(CHUNK).max(1);
        let out = self.take_f32(outer * chunks * inner)?;
        if out.len() > 0 {
            let kernel = self.kernels.layout.sum_columns.of(x.kind);
            let [mid, wide, chunk] = [mid, inner, CHUNK].map(|size| size as i32);
            let params = (x.read(), out.write(), mid, wide, chunk);
            self.gpu.launch(kernel, column_grid(inner, chunks, outer), params)?;
        }
        if chunks == 1 { Ok(out) } else { self.sums(&out, [outer, chunks, inner]) }
    }

    /// Copies `rows` rows of `width` elements. Both sides are `(buffer, first element, elements per row)`.
    pub(super) fn copy_rows(
        &self,
        (x, from, from_row): (&Buffer, usize, usize),
        (out, to, to_row): (&Buffer, usize, usize),
        [rows, width]: [usize; 2],
    ) -> Result<()> {
        let packed = [from, from_row, to, to_row, width].iter().all(|at| at.is_multiple_of(PACK))
            && [x, out]
                .iter()
                .all(|buffer| buffer.address().is_multiple_of((PACK * buffer.kind.bytes()) as u64));
        let (packing, each) = Packing::when(packed, PACK);
        let kernel = self.kernels.layout.copy_rows.of((packing, (x.kind, out.kind)));
        let [from, from_row, to, to_row] = [from, from_row, to, to_row].map(|at| at as i64);
        let n = rows * width;
        let params = (x.read(), from, from_row, out.write(), to, to_row, width as i64, n as i64);
        self.each(kernel, n / each, n, params)
    }
}

/// A grid for the kernels that sum columns: blocks of columns, by chunks of rows, by tables.
pub(super) fn column_grid(columns: usize, chunks: usize, tables: usize) -> Grid {
    Grid::new([columns.div_ceil(COLUMNS), chunks, tables], [COLUMNS as u32, LANES as u32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_a_number_of_its_own_that_its_kernel_knows() {
        let text = include_str!("kernels/elementwise.cu");
        let codes = function_codes();
        for kind in ["UNARY_", "BINARY_"] {
            let of_kind: Vec<&Define> =
                codes.iter().filter(|(name, _)| name.starts_with(kind)).collect();
            assert!(of_kind.iter().map(|(_, code)| *code).eq(0..of_kind.len()), "{of_kind:?}");
            assert_eq!(text.matches(&format!("case {kind}")).count(), of_kind.len());
        }
        for (name, _) in codes {
            assert!(text.contains(&format!("case {name}:")), "{name} is missing");
        }
    }
}
