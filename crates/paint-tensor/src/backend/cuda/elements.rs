//! Buffers of elements: taking them, converting between kinds, and the launches that most operations share.

use super::buffer::{Buffer, Kind};
use super::driver::{Arg, Grid};
use super::{Cuda, on_gpu, record};
use crate::backend::{Storage, Unary};
use crate::{Error, Result};

/// Threads of a block of the elementwise kernels.
pub(super) const THREADS: usize = 256;
/// Columns and rows of threads of the kernels that sum columns, as in `layout.cu`.
pub(super) const COLUMNS: usize = 32;
pub(super) const LANES: u32 = 16;
/// Rows that one block of such a kernel sums.
pub(super) const CHUNK: usize = 256;
/// Elements of a row from which more than one block sums it.
const LONG: usize = 1 << 14;

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

    /// The elements as `kind`; the bf16 form of an `f32` block is made once.
    pub(super) fn cast(&self, x: &Buffer, kind: Kind) -> Result<Buffer> {
        match (x.kind, kind) {
            (Kind::F32, Kind::Bf16) => {
                let (whole, start) = x.whole();
                let half = if let Some(half) = x.block.half.get() {
                    half.clone()
                } else {
                    let half = self.converted(&whole, kind)?;
                    if record::may_keep(&self.gpu, &x.block) {
                        x.block.half.get_or_init(|| half).clone()
                    } else {
                        half
                    }
                };
                Ok(half.part(start, x.len()))
            }
            (Kind::Bf16, Kind::F32) => self.converted(x, kind),
            _ => Ok(x.clone()),
        }
    }

    /// The same elements at an address that packs of 4 can be read from: parts may begin anywhere.
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
        let name = format!("cast_{}_{}", x.kind.name(), kind.name());
        let args = [Arg::Address(x.address()), Arg::Address(out.address())];
        self.each(&name, x.len().div_ceil(4), &args, x.len())?;
        Ok(out)
    }

    /// Queues a kernel over `work` threads' worth of elements; its last parameter is `n`.
    pub(super) fn each(&self, name: &str, work: usize, args: &[Arg], n: usize) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        if n > u32::MAX as usize {
            let why = format!("{n} elements, the kernels count to 2^32");
            return Err(Error::Gpu { what: name.to_owned(), why });
        }
        let most = self.gpu.properties.multiprocessors as usize * 16;
        let blocks = work.div_ceil(THREADS).clamp(1, most);
        let args = [args, &[Arg::I64(n as i64)]].concat();
        let grid = Grid::new([blocks, 1, 1], [THREADS as u32, 1]);
        self.gpu.launch(&self.kernels, name, grid, &args)
    }

    pub(super) fn launch(&self, name: &str, grid: Grid, args: &[Arg]) -> Result<()> {
        self.gpu.launch(&self.kernels, name, grid, args)
    }

    /// Queues a kernel from buffers to one new buffer of `f32`, all elements alike.
    pub(super) fn map(
        &self,
        name: &str,
        before: &[Arg],
        inputs: &[&Buffer],
        len: usize,
    ) -> Result<Storage> {
        let out = self.take_f32(len)?;
        let buffers = inputs.iter().copied().chain([&out]);
        let args: Vec<Arg> =
            before.iter().copied().chain(buffers.map(|x| Arg::Address(x.address()))).collect();
        self.each(name, len, &args, len)?;
        Ok(Storage::Cuda(out))
    }

    pub(super) fn elementwise(&self, op: Unary, x: &Buffer) -> Result<Storage> {
        let (code, argument) = match op {
            Unary::Exp => (0, 0.0),
            Unary::Log => (1, 0.0),
            Unary::Sqrt => (2, 0.0),
            Unary::Relu => (3, 0.0),
            Unary::Step => (4, 0.0),
            Unary::Gelu => (5, 0.0),
            Unary::GeluSlope => (6, 0.0),
            Unary::Scale(by) => (7, by),
            Unary::AddScalar(term) => (8, term),
        };
        self.map("unary_f32", &[Arg::I32(code), Arg::F32(argument)], &[x], x.len())
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

    /// Sums over the middle of `[outer, mid, inner]`: in one pass, or by chunks of rows and then over the chunks.
    pub(super) fn sums(&self, x: &Buffer, [outer, mid, inner]: [usize; 3]) -> Result<Buffer> {
        if inner == 1 && mid > LONG && mid.is_multiple_of(CHUNK) {
            let parts = self.sums(x, [outer * CHUNK, mid / CHUNK, 1])?;
            return self.sums(&parts, [outer, CHUNK, 1]);
        }
        if inner == 1 {
            let out = self.take_f32(outer)?;
            if outer > 0 {
                let name = format!("sum_rows_{}", x.kind.name());
                let args =
                    [Arg::Address(x.address()), Arg::Address(out.address()), Arg::I64(mid as i64)];
                self.launch(&name, Grid::new([outer, 1, 1], [THREADS as u32, 1]), &args)?;
            }
            return Ok(out);
        }
        let chunks = mid.div_ceil(CHUNK).max(1);
        let out = self.take_f32(outer * chunks * inner)?;
        if out.len() > 0 {
            let name = format!("sum_columns_{}", x.kind.name());
            let grid = Grid::new([inner.div_ceil(COLUMNS), chunks, outer], [COLUMNS as u32, LANES]);
            let args = [
                Arg::Address(x.address()),
                Arg::Address(out.address()),
                Arg::I32(mid as i32),
                Arg::I32(inner as i32),
                Arg::I32(CHUNK as i32),
            ];
            self.launch(&name, grid, &args)?;
        }
        if chunks == 1 { Ok(out) } else { self.sums(&out, [outer, chunks, inner]) }
    }

    /// Copies `rows` rows of `width` elements from `x` to `out`: each is `(buffer, first element, elements a row)`.
    pub(super) fn copy_rows(
        &self,
        (x, from, from_row): (&Buffer, usize, usize),
        (out, to, to_row): (&Buffer, usize, usize),
        [rows, width]: [usize; 2],
    ) -> Result<()> {
        let name = format!("copy_rows_{}_{}", x.kind.name(), out.kind.name());
        let args = [
            Arg::Address(x.address()),
            Arg::I64(from as i64),
            Arg::I64(from_row as i64),
            Arg::Address(out.address()),
            Arg::I64(to as i64),
            Arg::I64(to_row as i64),
            Arg::I64(width as i64),
        ];
        self.each(&name, rows * width, &args, rows * width)
    }
}
