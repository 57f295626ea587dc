//! The right operand of a product in the order in which a kernel reads it, and the loops around the kernel.

#[cfg(target_arch = "x86_64")]
use std::sync::Arc;

#[cfg(target_arch = "x86_64")]
use rayon::prelude::*;

use super::gemm::{Operand, Output, Size};
use super::kernel::Kernel;
use super::portable;
#[cfg(target_arch = "x86_64")]
use super::{
    amx,
    avx512::{self, A_STEP, Lanes, Left, MR, Tile},
    gemm::NR,
    packs::Form,
    parallel::vectorized,
    prefetch,
    slab::Block,
};

/// The right operand, ready for the kernel.
pub(super) enum Panels<'a> {
    #[cfg(target_arch = "x86_64")]
    Amx(amx::Split, Arc<Block>),
    #[cfg(target_arch = "x86_64")]
    Avx512(Arc<Block>),
    Plain(Operand<'a>),
}

#[cfg(target_arch = "x86_64")]
impl<'a> Operand<'a> {
    /// Rows as lanes: the left operand.
    pub(super) fn row_lanes(self) -> Lanes<'a> {
        Lanes { data: self.data, lane_step: self.row, depth_step: self.col }
    }

    /// Columns as lanes: the right operand.
    pub(super) fn column_lanes(self) -> Lanes<'a> {
        Lanes { data: self.data, lane_step: self.col, depth_step: self.row }
    }
}

impl<'a> Panels<'a> {
    /// Packs `b`, on all threads if asked to.
    pub(super) fn new(kernel: Kernel, size: Size, b: Operand<'a>, threads: bool) -> Self {
        match kernel {
            Kernel::Portable => Self::Plain(b),
            #[cfg(target_arch = "x86_64")]
            Kernel::Amx(split) => {
                let pack = || Arc::new(pack_amx(split, size, b.column_lanes(), threads));
                Self::Amx(split, kept_amx(split, size, b, threads).unwrap_or_else(pack))
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => {
                let pack = || pack_avx512(size, b.column_lanes(), threads);
                let len = size.n.div_ceil(NR) * size.k * NR;
                Self::Avx512(kept(kernel, size, b, len, &pack).unwrap_or_else(|| Arc::new(pack())))
            }
        }
    }

    /// One block of rows; `finish` is called with the rows and columns that are complete, while they are still in the
    /// cache.
    pub(super) fn multiply_rows(
        &self,
        size: Size,
        a: Operand,
        out: Output,
        mut finish: impl FnMut(&mut [f32], [[usize; 2]; 2]),
    ) {
        match self {
            Self::Plain(b) => {
                portable::multiply(size, a, *b, out.data, out.stride);
                finish(out.data, [[0, size.m], [0, size.n]]);
            }
            #[cfg(target_arch = "x86_64")]
            Self::Amx(split, b) => {
                rows_amx(*split, size, a.row_lanes(), b.as_slice(), out, finish);
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(b) => rows_avx512(size, a.row_lanes(), b.as_slice(), out, finish),
        }
    }
}

/// A block of `len` elements, of which `pack` writes one part of `part` after the other; the last may be shorter.
#[cfg(target_arch = "x86_64")]
pub(super) fn pack_parts(
    len: usize,
    part: usize,
    threads: bool,
    pack: impl Fn(usize, &mut [f32]) + Sync,
) -> Block {
    let mut block = Block::take(len.max(1));
    let out = &mut block.as_mut_slice()[..len];
    if len > 1 << 14 && threads {
        let parts = out.par_chunks_mut(part).enumerate().with_max_len(1);
        parts.for_each(|(at, out)| pack(at, out));
    } else if len > 0 {
        out.chunks_mut(part).enumerate().for_each(|(at, out)| pack(at, out));
    }
    block
}

#[cfg(target_arch = "x86_64")]
fn pack_amx(split: amx::Split, Size { n, k, .. }: Size, b: Lanes, threads: bool) -> Block {
    let panels = n.div_ceil(amx::LANES);
    let len = k.div_ceil(amx::STEP) * split.step_len();
    pack_parts(panels * len, len, threads, |panel, out| {
        let first = panel * amx::LANES;
        let lanes = [first, (n - first).min(amx::LANES)];
        amx::pack(split, amx::Side::Right, b, lanes, [0, k], out);
    })
}

/// The packed form of a right operand that is kept, if there is one; packed on all threads if asked to.
#[cfg(target_arch = "x86_64")]
pub(super) fn kept_amx(
    split: amx::Split,
    size: Size,
    b: Operand,
    threads: bool,
) -> Option<Arc<Block>> {
    let len = size.n.div_ceil(amx::LANES) * size.k.div_ceil(amx::STEP) * split.step_len();
    kept(Kernel::Amx(split), size, b, len, &|| pack_amx(split, size, b.column_lanes(), threads))
}

#[cfg(target_arch = "x86_64")]
fn kept(
    kernel: Kernel,
    size: Size,
    b: Operand,
    len: usize,
    pack: &dyn Fn() -> Block,
) -> Option<Arc<Block>> {
    b.packs?.get(Form::new(kernel, size, b), len.max(1), pack)
}

#[cfg(target_arch = "x86_64")]
fn pack_avx512(Size { n, k, .. }: Size, b: Lanes, threads: bool) -> Block {
    /// Panels of a task that reads the rows of all of them in order: 1 KiB of each row.
    const MOST: usize = 8;
    let panels = n.div_ceil(NR);
    if b.lane_step == 1 && n > NR {
        let tasks = panels.div_ceil(MOST);
        let tasks =
            if threads { tasks.next_multiple_of(rayon::current_num_threads()) } else { tasks };
        let group = panels.div_ceil(tasks);
        return pack_parts(panels * k * NR, group * k * NR, threads, |task, out| {
            let first = task * group * NR;
            pack_across::<NR, NR>(b, [first, (n - first).min(group * NR)], [0, k], out);
        });
    }
    pack_parts(panels * k * NR, k * NR, threads, |panel, out| {
        let first = panel * NR;
        let count = (n - first).min(NR);
        let rest = [first + 16, count.saturating_sub(16)];
        avx512::pack(b, [first, count.min(16)], [0, k], out, NR);
        avx512::pack(b, rest, [0, k], &mut out[16..], NR);
    })
}

/// Packs lanes that are neighbours, in panels of `WIDTH` that are `STEP` elements from one depth to the next. Each depth
/// is read for all panels before the next one, in the order in which it lies.
#[cfg(target_arch = "x86_64")]
fn pack_across<const WIDTH: usize, const STEP: usize>(
    lanes: Lanes,
    [first, count]: [usize; 2],
    [from, depths]: [usize; 2],
    out: &mut [f32],
) {
    /// Depths by which rows are fetched ahead: they may be further apart than the processor foresees.
    const AHEAD: usize = 8;
    vectorized(
        #[inline(always)]
        || {
            for depth in 0..depths {
                let at = first + (from + depth) * lanes.depth_step;
                let row = &lanes.data[at..at + count];
                let next = row.as_ptr().wrapping_add(AHEAD * lanes.depth_step);
                (0..count).step_by(16).for_each(|lane| {
                    prefetch::line::<{ std::arch::x86_64::_MM_HINT_T0 }>(next.wrapping_add(lane));
                });
                for (panel, first) in (0..count).step_by(WIDTH).enumerate() {
                    let (out, row) =
                        (&mut out[(panel * depths + depth) * STEP..][..STEP], &row[first..]);
                    if let Some(row) = row.first_chunk::<STEP>() {
                        out.copy_from_slice(row);
                    } else {
                        out[..row.len()].copy_from_slice(row);
                        out[row.len()..].fill(0.0);
                    }
                }
            }
        },
    );
}

#[cfg(target_arch = "x86_64")]
fn rows_amx(
    split: amx::Split,
    Size { m, n, k }: Size,
    a: Lanes,
    b: &[f32],
    Output { data: c, stride, margin }: Output,
    mut finish: impl FnMut(&mut [f32], [[usize; 2]; 2]),
) {
    use amx::{LANES, STEP};
    /// Depth of a block: with 256 rows, the packed left block takes a quarter of a second-level cache of 2 MiB.
    const KC: usize = 12 * STEP;
    /// Floats of a packed right operand that may stay in that cache beside it: half of it.
    const COLUMNS: usize = 1 << 18;
    let step_len = split.step_len();
    let panels = m.div_ceil(LANES);
    let panel_len = k.div_ceil(STEP) * step_len;
    let mut packed = Block::take(panels * k.min(KC).div_ceil(STEP) * step_len + 1);
    let packed = packed.as_mut_slice();
    let registers = amx::Registers::take();
    let mut depth = 0;
    loop {
        let block = (k - depth).min(KC);
        let steps = block.div_ceil(STEP);
        for panel in 0..panels {
            let lanes = [panel * LANES, (m - panel * LANES).min(LANES)];
            let out = &mut packed[panel * steps * step_len..];
            amx::pack(split, amx::Side::Left, a, lanes, [depth, block], out);
        }
        // If the right operand stays in the cache, whole rows of the output are written and finished, which the
        // processor fetches ahead; else each of its panels is read once for all rows.
        let column_panels = n.div_ceil(LANES);
        let fits = column_panels * steps * step_len <= COLUMNS;
        let width = if fits { column_panels * LANES } else { LANES };
        for left in (0..n).step_by(width) {
            let right = (left + width).min(n);
            for panel in 0..panels {
                let rows = (m - panel * LANES).min(LANES);
                for first_col in (left..right).step_by(LANES) {
                    let at = first_col / LANES * panel_len + depth / STEP * step_len;
                    let cols = (n - first_col).min(LANES);
                    let out = &mut c[panel * LANES * stride + first_col..];
                    // Each row panel brings its share of the next columns into the cache.
                    let ahead = at + width / LANES * panel_len + panel * steps * split.ahead_len();
                    let operands = (&packed[panel * steps * step_len..], &b[at..], b.get(ahead..));
                    let mut tile = Tile { out, stride, rows, cols, add: depth > 0, margin };
                    amx::multiply(&registers, split, steps, operands, &mut tile);
                }
                if depth + block == k {
                    finish(c, [[panel * LANES, panel * LANES + rows], [left, right]]);
                }
            }
        }
        depth += block;
        if depth == k {
            break;
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn rows_avx512(
    Size { m, n, k }: Size,
    a: Lanes,
    b: &[f32],
    Output { data: c, stride, margin }: Output,
    mut finish: impl FnMut(&mut [f32], [[usize; 2]; 2]),
) {
    /// Depth of a block: a right panel of 32 KiB passes the first-level cache while the left one stays there.
    const KC: usize = 256;
    /// Floats of a packed right operand that stay in the second-level cache: half of 1 MiB.
    const COLUMNS: usize = 1 << 17;
    let panels = m.div_ceil(MR);
    let rows_of = |panel: usize| (m - panel * MR).min(MR);
    let packs = k == 0 || !avx512::reads_rows(a);
    let mut packed = packs.then(|| Block::take(panels * k.min(KC) * A_STEP));
    let packed = packed.as_mut().map_or(&mut [][..], Block::as_mut_slice);
    let mut depth = 0;
    loop {
        let block = (k - depth).min(KC);
        if packs && a.lane_step == 1 {
            pack_across::<MR, A_STEP>(a, [0, m], [depth, block], packed);
        } else if packs {
            for panel in 0..panels {
                let out = &mut packed[panel * block * A_STEP..];
                avx512::pack(a, [panel * MR, rows_of(panel)], [depth, block], out, A_STEP);
            }
        }
        let operand = |panel: usize| {
            if packs {
                Left::Packed(&packed[panel * block * A_STEP..])
            } else {
                Left::Rows(&a.data[panel * MR * a.lane_step + depth..], a.lane_step)
            }
        };
        let width = (COLUMNS / block.max(1) / NR).max(1) * NR;
        for left in (0..n).step_by(width) {
            let right = (left + width).min(n);
            for panel in 0..panels {
                let (rows, operand) = (rows_of(panel), operand(panel));
                for first_col in (left..right).step_by(NR) {
                    let cols = (n - first_col).min(NR);
                    let out = &mut c[panel * MR * stride + first_col..];
                    let mut tile = Tile { out, stride, rows, cols, add: depth > 0, margin };
                    avx512::multiply(block, operand, &b[first_col * k + depth * NR..], &mut tile);
                }
                if depth + block == k {
                    finish(c, [[panel * MR, panel * MR + rows], [left, right]]);
                }
            }
        }
        depth += block;
        if depth == k {
            break;
        }
    }
}
