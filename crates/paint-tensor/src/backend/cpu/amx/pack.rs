//! Panels: floats split into `bf16` and put into the order in which tiles are loaded.

#![expect(
    unsafe_code,
    reason = "vectors and raw addresses; lengths are checked at the safe entry point"
)]

use std::arch::x86_64::{
    __m512, __m512i, _mm512_add_epi32, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_maskz_loadu_ps, _mm512_or_si512, _mm512_set1_epi32, _mm512_srli_epi32,
    _mm512_storeu_si512, _mm512_sub_ps,
};

use super::super::avx512::{self, Lanes};
use super::{LANES, STEP, Split, TILE, available, step_len};

/// Which operand a panel belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Side {
    /// A row of a tile is a lane.
    Left,
    /// A row of a tile is a pair of depths.
    Right,
}

/// Packs lanes `first..first + count` (at most 32) at depths `from..from + depth`. Depths that are missing to whole tiles
/// are zero. Lanes that are missing hold anything: they end in rows or columns beyond the product.
pub(in super::super) fn pack(
    split: Split,
    side: Side,
    lanes: Lanes,
    [first, count]: [usize; 2],
    [from, depth]: [usize; 2],
    out: &mut [f32],
) {
    assert!(out.len() >= depth.div_ceil(STEP) * split.step_len() && count <= LANES && available());
    lanes.check([first, count], [from, depth]);
    let run = match split {
        Split::Two => pack_parts::<2>,
        Split::Three => pack_parts::<3>,
    };
    // SAFETY: the CPU, the output's length and every address that the counts reach were checked above.
    unsafe { run(side, lanes, [first, count], [from, depth], out.as_mut_ptr()) }
}

unsafe fn pack_parts<const PARTS: usize>(
    side: Side,
    lanes: Lanes,
    [first, count]: [usize; 2],
    [from, depth]: [usize; 2],
    out: *mut f32,
) {
    // SAFETY: as the caller says.
    unsafe {
        if side == Side::Left && lanes.depth_step == 1 {
            let start = lanes.data.as_ptr().wrapping_add(first * lanes.lane_step + from);
            pack_rows::<PARTS>(start, lanes.lane_step, count, depth, out);
        } else {
            pack_steps::<PARTS>(side, lanes, [first, count], [from, depth], out);
        }
    }
}

/// A left operand whose depths lie side by side: one lane after the other, so that memory is read in order. Lanes are
/// `lane_step` apart.
#[target_feature(enable = "avx512f")]
unsafe fn pack_rows<const PARTS: usize>(
    start: *const f32,
    lane_step: usize,
    count: usize,
    depth: usize,
    out: *mut f32,
) {
    for lane in 0..count {
        for step in 0..depth.div_ceil(STEP) {
            let load = |at: usize| {
                let mask = avx512::mask(depth.saturating_sub(at));
                // SAFETY: the mask leaves out what is beyond the depth.
                unsafe { _mm512_maskz_loadu_ps(mask, start.wrapping_add(lane * lane_step + at)) }
            };
            let tile = lane / 16 * TILE + lane % 16 * 64;
            // SAFETY: `pack` checked that all steps fit.
            unsafe {
                let to = out.add(step * step_len(PARTS)).cast::<u8>().add(tile);
                store_parts::<PARTS>(load(step * STEP), load(step * STEP + 16), to);
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn pack_steps<const PARTS: usize>(
    side: Side,
    lanes: Lanes,
    [first, count]: [usize; 2],
    [from, depth]: [usize; 2],
    mut out: *mut f32,
) {
    for step in (0..depth).step_by(STEP) {
        for half in 0..2 {
            let count = count.saturating_sub(16 * half).min(16);
            if count == 0 {
                continue;
            }
            let fetch = |at: usize| {
                let depths = depth.saturating_sub(at).min(16);
                let place = ([first + 16 * half, count], [from + at, depths]);
                // SAFETY: `pack` checked the lanes and depths.
                unsafe { avx512::fetch(lanes, place.0, place.1, side == Side::Left) }
            };
            let (low, high) = (fetch(step), fetch(step + 16));
            // SAFETY: a step has room for both halves of the parts.
            unsafe { split_tile::<PARTS>(&low, &high, out.cast::<u8>().add(half * TILE)) };
        }
        // SAFETY: `pack` checked that all steps fit.
        out = unsafe { out.add(step_len(PARTS)) };
    }
}

/// Row `i` of a tile pairs `low[i]` with `high[i]`; the parts of the tile are written two tiles apart.
#[target_feature(enable = "avx512f")]
unsafe fn split_tile<const PARTS: usize>(low: &[__m512; 16], high: &[__m512; 16], out: *mut u8) {
    for i in 0..16 {
        // SAFETY: the caller has room for two tiles of each part from the first one on.
        unsafe { store_parts::<PARTS>(low[i], high[i], out.add(64 * i)) };
    }
}

/// One row of a tile in its parts.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_parts<const PARTS: usize>(low: __m512, high: __m512, out: *mut u8) {
    let (low, high) = (parts::<PARTS>(low), parts::<PARTS>(high));
    for part in 0..PARTS {
        let pair = _mm512_or_si512(_mm512_srli_epi32::<16>(low[part]), high[part]);
        // SAFETY: the caller has room for this row in each of the parts, two tiles apart.
        unsafe { _mm512_storeu_si512(out.add(2 * TILE * part).cast(), pair) };
    }
}

/// `x = h + m + l`, each a `bf16` in the upper half of a float: `h` and `m` rounded to nearest, `l` what remains,
/// which is at most eight bits. Without `l`, the rest after `h` is cut off to `m`. A NaN stays in the last part at
/// least, which no rounding can turn into a number.
#[target_feature(enable = "avx512f")]
fn parts<const PARTS: usize>(x: __m512) -> [__m512i; PARTS] {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    let half = _mm512_set1_epi32(0x8000);
    let mut parts = [_mm512_castps_si512(x); PARTS];
    let mut rest = x;
    for (at, part) in parts.iter_mut().enumerate() {
        let bits = _mm512_castps_si512(rest);
        let rounded = if at + 1 < PARTS { _mm512_add_epi32(bits, half) } else { bits };
        *part = _mm512_and_si512(rounded, upper);
        rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(*part));
    }
    parts
}
