//! The AVX-512 matrix-product kernel: a 14 x 32 tile of the output in 28 registers.
//!
//! `B` is packed in panels of 32 columns, so that the inner loop reads it in order, and `A` in panels of 14 rows stored
//! 16 apart, unless its rows can be read as they lie. Packed operands are fetched into the first-level cache a few
//! depths ahead, and the tile of the output before its sums begin.

#![expect(
    unsafe_code,
    reason = "vector intrinsics need raw pointers; lengths are checked at the safe entry points"
)]

use std::arch::x86_64::{
    __m512, __mmask16, _MM_HINT_ET0, _MM_HINT_T0, _mm512_castpd_ps, _mm512_castps_pd,
    _mm512_fmadd_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd,
    _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};
use std::hint::black_box;

use super::prefetch;

/// Rows of a tile.
pub(super) const MR: usize = 14;
/// Columns of a tile: two registers.
const NR: usize = super::gemm::NR;
/// Floats between two depths of a packed `A` panel: `MR` rounded up to a register.
pub(super) const A_STEP: usize = 16;

/// Depths by which packed operands are fetched ahead.
const AHEAD: usize = 12;
/// Rows of `A` that are a multiple of so many floats apart, 2 KiB, share the sets of the first-level cache.
const COLLISION: usize = 512;

/// True if this CPU runs the kernel.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// A matrix operand as lanes along the depth: element `(lane, k)` is at `lane * lane_step + k * depth_step`.
#[derive(Clone, Copy)]
pub(super) struct Lanes<'a> {
    pub(super) data: &'a [f32],
    pub(super) lane_step: usize,
    pub(super) depth_step: usize,
}

impl Lanes<'_> {
    /// Panics unless every element at `depth` depths of `count` lanes exists.
    pub(super) fn check(&self, [first, count]: [usize; 2], [from, depth]: [usize; 2]) {
        if count > 0 && depth > 0 {
            let last = (first + count - 1) * self.lane_step + (from + depth - 1) * self.depth_step;
            assert!(last < self.data.len(), "element {last} of {}", self.data.len());
        }
    }
}

/// A block of up to 16 lanes x 16 depths in registers, zero elsewhere: one register a lane if `by_lane`, else one a
/// depth.
///
/// # Safety
/// The CPU has AVX-512, and [`Lanes::check`] passed for the lanes and depths.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn fetch(
    lanes: Lanes,
    [first, count]: [usize; 2],
    [from, depths]: [usize; 2],
    by_lane: bool,
) -> [__m512; 16] {
    let mut rows = [_mm512_setzero_ps(); 16];
    let along_depth = lanes.depth_step == 1;
    let (start, outer, inner) = (first * lanes.lane_step + from * lanes.depth_step, count, depths);
    let (step, outer, inner) = if along_depth {
        (lanes.lane_step, outer, inner)
    } else {
        (lanes.depth_step, inner, outer)
    };
    if along_depth || lanes.lane_step == 1 {
        let mask = mask(inner);
        for (i, row) in rows.iter_mut().enumerate().take(outer) {
            // SAFETY: the caller checked the lanes and depths, and the mask leaves out the others.
            *row = unsafe { load(lanes, start + i * step, mask) };
        }
    } else {
        for (k, row) in rows.iter_mut().enumerate().take(depths) {
            let mut values = [0.0_f32; 16];
            for (i, value) in values.iter_mut().enumerate().take(count) {
                let at = start + i * lanes.lane_step + k * lanes.depth_step;
                *value = lanes.data[at];
            }
            // SAFETY: sixteen values are there.
            *row = unsafe { _mm512_maskz_loadu_ps(u16::MAX, values.as_ptr()) };
        }
    }
    if along_depth == by_lane { rows } else { transpose(&rows) }
}

/// Packs up to 16 lanes: `out[k * step + i]` is lane `first + i` at depth `from + k`, zero beyond `count`.
pub(super) fn pack(
    lanes: Lanes,
    [first, count]: [usize; 2],
    [from, depth]: [usize; 2],
    out: &mut [f32],
    step: usize,
) {
    assert!(available() && count <= 16 && step >= 16);
    if depth == 0 {
        return;
    }
    assert!(out.len() >= (depth - 1) * step + 16);
    lanes.check([first, count], [from, depth]);
    // SAFETY: AVX-512 was checked, `check` covers what `fetch` reads, and the last of the stores ends at
    // `(depth - 1) * step + 16`.
    unsafe {
        for k in (0..depth).step_by(16) {
            let block = (depth - k).min(16);
            let rows = fetch(lanes, [first, count], [from + k, block], false);
            store(&rows, block, out.as_mut_ptr().add(k * step), step);
        }
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn store(rows: &[__m512; 16], count: usize, out: *mut f32, step: usize) {
    for (j, row) in rows.iter().enumerate().take(count) {
        // SAFETY: the caller has room for `count` registers, `step` apart.
        unsafe { _mm512_storeu_ps(out.add(j * step), *row) };
    }
}

/// The first `count` of sixteen.
pub(super) fn mask(count: usize) -> __mmask16 {
    if count >= 16 { u16::MAX } else { (1 << count) - 1 }
}

#[target_feature(enable = "avx512f")]
unsafe fn load(lanes: Lanes, at: usize, mask: __mmask16) -> __m512 {
    // SAFETY: the caller keeps `at` plus every lane of the mask inside `data`.
    unsafe { _mm512_maskz_loadu_ps(mask, lanes.data.as_ptr().wrapping_add(at)) }
}

/// The transpose of a 16 x 16 matrix held in registers: pairs, quads, then 128-bit quarters.
#[target_feature(enable = "avx512f")]
fn transpose(r: &[__m512; 16]) -> [__m512; 16] {
    let mut pairs = *r;
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    let mut quads = pairs;
    for i in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| _mm512_castps_pd(pairs[4 * i + j]));
        quads[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        quads[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        quads[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        quads[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    // Register 4 i + j now holds, in its quarter q, the column 4 q + j of rows 4 i .. 4 i + 3.
    let mut out = quads;
    for j in 0..4 {
        let low = _mm512_shuffle_f32x4::<0x44>(quads[j], quads[4 + j]);
        let high = _mm512_shuffle_f32x4::<0xee>(quads[j], quads[4 + j]);
        let low2 = _mm512_shuffle_f32x4::<0x44>(quads[8 + j], quads[12 + j]);
        let high2 = _mm512_shuffle_f32x4::<0xee>(quads[8 + j], quads[12 + j]);
        out[j] = _mm512_shuffle_f32x4::<0x88>(low, low2);
        out[4 + j] = _mm512_shuffle_f32x4::<0xdd>(low, low2);
        out[8 + j] = _mm512_shuffle_f32x4::<0x88>(high, high2);
        out[12 + j] = _mm512_shuffle_f32x4::<0xdd>(high, high2);
    }
    out
}

/// A tile of the output: `rows x cols` at the start of `out`, rows `stride` apart.
pub(super) struct Tile<'a> {
    pub(super) out: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// Add to what is there instead of overwriting it.
    pub(super) add: bool,
    /// Whether what lies beyond the rows and columns may be overwritten, up to 32 x 32.
    pub(super) margin: bool,
}

/// Up to [`MR`] rows of the left operand.
#[derive(Clone, Copy)]
pub(super) enum Left<'a> {
    /// Side by side, [`A_STEP`] floats from one depth to the next.
    Packed(&'a [f32]),
    /// One after the other, so many floats apart.
    Rows(&'a [f32], usize),
}

/// Whether rows are read as they lie, because a panel of them stays in the first-level cache.
pub(super) fn reads_rows(a: Lanes) -> bool {
    a.depth_step == 1 && !a.lane_step.is_multiple_of(COLLISION)
}

/// Multiplies rows of `A` with one packed `B` panel into a tile.
pub(super) fn multiply(depth: usize, a: Left, b: &[f32], tile: &mut Tile) {
    assert!((1..=MR).contains(&tile.rows) && (1..=NR).contains(&tile.cols));
    let (a, lane, is_packed) = match a {
        Left::Packed(a) => {
            assert!(a.len() >= depth * A_STEP);
            (a, 1, true)
        }
        Left::Rows(a, lane) => {
            assert!(a.len() >= (tile.rows - 1) * lane + depth);
            (a, lane, false)
        }
    };
    assert!(b.len() >= depth * NR);
    assert!(tile.out.len() >= (tile.rows - 1) * tile.stride + tile.cols && available());
    let (a, b) = (a.as_ptr(), b.as_ptr());
    macro_rules! by_rows {
        ($halves:literal: $($rows:literal)*) => {
            match tile.rows {
                // SAFETY: AVX-512 and all lengths were checked above; stores are masked to `cols`.
                $($rows if is_packed => unsafe { kernel::<$rows, $halves, true>(depth, (a, 1), b, tile) },
                // SAFETY: as above.
                $rows => unsafe { kernel::<$rows, $halves, false>(depth, (a, lane), b, tile) },)*
                _ => unreachable!("rows were checked"),
            }
        };
    }
    if tile.cols > NR / 2 {
        by_rows!(2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    } else {
        by_rows!(1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    }
}

/// `R` rows by `H` halves of [`NR`] columns.
#[target_feature(enable = "avx512f")]
unsafe fn kernel<const R: usize, const H: usize, const PACKED: bool>(
    depth: usize,
    (a, lane): (*const f32, usize),
    mut b: *const f32,
    tile: &mut Tile,
) {
    // The compiler knows these of packed rows.
    let (lane, step) = if PACKED { (1, A_STEP) } else { (lane, 1) };
    let full = mask(16);
    let mut acc = [[_mm512_setzero_ps(); H]; R];
    for row in 0..R {
        let at = tile.out.as_ptr().wrapping_add(row * tile.stride);
        prefetch::row::<_MM_HINT_ET0>(at);
    }
    // Every third row; the others are one or two strides away.
    let mut bases = [a; MR.div_ceil(3)];
    for (i, base) in bases.iter_mut().enumerate() {
        *base = base.wrapping_add(3 * i * lane);
    }
    let lane = if PACKED {
        lane
    } else {
        // Else the compiler computes each address from the one before, in a chain as long as the sums of a depth.
        bases = black_box(bases);
        black_box(lane)
    };
    for k in 0..depth {
        prefetch::row::<_MM_HINT_T0>(b.wrapping_add(AHEAD * NR));
        if PACKED {
            prefetch::line::<_MM_HINT_T0>(a.wrapping_add((k + AHEAD) * A_STEP));
        }
        // SAFETY: `multiply` checked that both operands hold `depth` steps.
        unsafe {
            let mut columns = [_mm512_setzero_ps(); H];
            for (half, columns) in columns.iter_mut().enumerate() {
                *columns = _mm512_maskz_loadu_ps(full, b.add(16 * half));
            }
            // Without a loop the compiler keeps the sums in registers.
            macro_rules! add {
                ($($row:literal)*) => {
                    $(if $row < R {
                        let at = bases[$row / 3].wrapping_add($row % 3 * lane);
                        let value = _mm512_set1_ps(*at);
                        for half in 0..H {
                            acc[$row][half] = _mm512_fmadd_ps(value, columns[half], acc[$row][half]);
                        }
                    })*
                };
            }
            add!(0 1 2 3 4 5 6 7 8 9 10 11 12 13);
            b = b.add(NR);
            bases.iter_mut().for_each(|base| *base = base.wrapping_add(step));
        }
    }
    let masks = [mask(tile.cols), mask(tile.cols.saturating_sub(16))];
    let one = _mm512_set1_ps(1.0);
    for (i, row) in acc.iter().enumerate() {
        for (half, (&value, &mask)) in row.iter().zip(&masks).enumerate() {
            // SAFETY: the mask keeps the access inside the row, whose start `multiply` checked.
            unsafe {
                let at = tile.out.as_mut_ptr().wrapping_add(i * tile.stride + half * 16);
                let value = if tile.add {
                    _mm512_fmadd_ps(one, _mm512_maskz_loadu_ps(mask, at), value)
                } else {
                    value
                };
                _mm512_mask_storeu_ps(at, mask, value);
            }
        }
    }
}
