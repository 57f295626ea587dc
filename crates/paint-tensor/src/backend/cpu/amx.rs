//! The AMX matrix-product kernel: `f32` products out of `bf16` tiles, several times faster than fused multiply-adds.
//!
//! A float of 24 significant bits is exactly the sum of three `bf16` of 8 bits each, `x = h + m + l`. Of the nine
//! partial products of `a b`, six are computed: `hh, hm, mh, hl, lh, mm`. The three that are left out are below 2⁻²⁴
//! `|a b|` together, half a unit in the last place of a float. Tiles accumulate in `f32`, 32 depths at a time, in a
//! fixed order.
//!
//! A packed panel holds 32 lanes (rows of the left, columns of the right operand). Each step of 32 depths is six
//! tiles of 1 KiB, `[h0, h1, m0, m1, l0, l1]`, where 0 and 1 are the two halves of the lanes. A tile is 16 x 16 pairs
//! of `bf16`; pair `j` of a step holds depths `j` and `j + 16`, the same on both sides, so the order inside a step
//! does not matter.

#![expect(
    unsafe_code,
    reason = "tile instructions exist as inline assembly only; lengths are checked at the safe entry points"
)]

mod registers;
#[cfg(test)]
mod tests;

use std::arch::asm;
use std::arch::x86_64::{
    __m512, __m512i, _MM_HINT_ET0, _mm_prefetch, _mm512_add_epi32, _mm512_and_si512,
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_maskz_loadu_ps, _mm512_or_si512,
    _mm512_set1_epi32, _mm512_srli_epi32, _mm512_storeu_si512, _mm512_sub_ps,
};

use super::avx512::{self, Lanes, Tile};
pub(super) use registers::{Registers, available};

/// Lanes of a panel: two tiles.
pub(super) const LANES: usize = 32;
/// Depths of one step.
pub(super) const STEP: usize = 32;
/// The length of one step of a panel, in floats: three parts of two bytes per element.
pub(super) const STEP_LEN: usize = LANES * STEP * 3 / 2;
/// Floats of another panel that one step fetches into the cache: an eighth of a step.
pub(super) const AHEAD_LEN: usize = STEP_LEN / 8;
/// Bytes of a tile.
const TILE: usize = 1024;

/// Which operand a panel belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// A row of a tile is a lane.
    Left,
    /// A row of a tile is a pair of depths.
    Right,
}

/// Packs lanes `first..first + count` (at most 32) at depths `from..from + depth`; what is missing to whole tiles is
/// zero.
pub(super) fn pack(
    side: Side,
    lanes: Lanes,
    [first, count]: [usize; 2],
    [from, depth]: [usize; 2],
    out: &mut [f32],
) {
    assert!(out.len() >= depth.div_ceil(STEP) * STEP_LEN && count <= LANES && available());
    lanes.check([first, count], [from, depth]);
    // SAFETY: the CPU, the output's length and every address that the counts reach were checked above.
    unsafe {
        if side == Side::Left && lanes.depth_step == 1 {
            let start = lanes.data.as_ptr().wrapping_add(first * lanes.lane_step + from);
            pack_rows(start, lanes.lane_step, count, depth, out.as_mut_ptr());
        } else {
            pack_steps(side, lanes, [first, count], [from, depth], out.as_mut_ptr());
        }
    }
}

/// A left operand whose depths lie side by side: one lane after the other, so that memory is read in order. Lanes are
/// `lane_step` apart.
#[target_feature(enable = "avx512f")]
unsafe fn pack_rows(
    start: *const f32,
    lane_step: usize,
    count: usize,
    depth: usize,
    out: *mut f32,
) {
    for lane in 0..LANES {
        for step in 0..depth.div_ceil(STEP) {
            let load = |at: usize| {
                let there = if lane < count { depth.saturating_sub(at) } else { 0 };
                let mask = avx512::mask(there);
                // SAFETY: the mask leaves out what is beyond the depth, and lanes beyond the count are not read.
                unsafe { _mm512_maskz_loadu_ps(mask, start.wrapping_add(lane * lane_step + at)) }
            };
            let tile = lane / 16 * TILE + lane % 16 * 64;
            // SAFETY: `pack` checked that all steps fit.
            unsafe {
                let to = out.add(step * STEP_LEN).cast::<u8>().add(tile);
                store_parts(load(step * STEP), load(step * STEP + 16), to);
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn pack_steps(
    side: Side,
    lanes: Lanes,
    [first, count]: [usize; 2],
    [from, depth]: [usize; 2],
    mut out: *mut f32,
) {
    for step in (0..depth).step_by(STEP) {
        for half in 0..2 {
            let count = count.saturating_sub(16 * half).min(16);
            let fetch = |at: usize| {
                let depths = depth.saturating_sub(at).min(16);
                let place = ([first + 16 * half, count], [from + at, depths]);
                // SAFETY: `pack` checked the lanes and depths.
                unsafe { avx512::fetch(lanes, place.0, place.1, side == Side::Left) }
            };
            let (low, high) = (fetch(step), fetch(step + 16));
            // SAFETY: a step has room for both halves of the three parts.
            unsafe { split(&low, &high, out.cast::<u8>().add(half * TILE)) };
        }
        // SAFETY: `pack` checked that all steps fit.
        out = unsafe { out.add(STEP_LEN) };
    }
}

/// Row `i` of a tile pairs `low[i]` with `high[i]`; the three parts of the tile are written two tiles apart.
#[target_feature(enable = "avx512f")]
unsafe fn split(low: &[__m512; 16], high: &[__m512; 16], out: *mut u8) {
    for i in 0..16 {
        // SAFETY: the caller has room for six tiles from the first one on.
        unsafe { store_parts(low[i], high[i], out.add(64 * i)) };
    }
}

/// One row of a tile in its three parts.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_parts(low: __m512, high: __m512, out: *mut u8) {
    let (low, high) = (parts(low), parts(high));
    for part in 0..3 {
        let pair = _mm512_or_si512(_mm512_srli_epi32::<16>(low[part]), high[part]);
        // SAFETY: the caller has room for this row in each of the parts, two tiles apart.
        unsafe { _mm512_storeu_si512(out.add(2 * TILE * part).cast(), pair) };
    }
}

/// `x = h + m + l`, each a `bf16` in the upper half of a float: `h` and `m` rounded to nearest, `l` what remains,
/// which is at most eight bits. A NaN stays in `l` at least.
#[target_feature(enable = "avx512f")]
fn parts(x: __m512) -> [__m512i; 3] {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    let half = _mm512_set1_epi32(0x8000);
    let round = |x: __m512| {
        let sum = _mm512_add_epi32(_mm512_castps_si512(x), half);
        _mm512_and_si512(sum, upper)
    };
    let h = round(x);
    let rest = _mm512_sub_ps(x, _mm512_castsi512_ps(h));
    let m = round(rest);
    let l = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(m)));
    [h, m, _mm512_and_si512(l, upper)]
}

/// Multiplies `steps` steps of a packed left panel with those of a packed right panel into a tile of at most 32 x 32. A
/// third slice, if there, is fetched into the cache meanwhile.
pub(super) fn multiply(
    _registers: &Registers,
    steps: usize,
    (a, b, next): (&[f32], &[f32], Option<&[f32]>),
    tile: &mut Tile,
) {
    assert!(a.len() >= steps * STEP_LEN && b.len() >= steps * STEP_LEN);
    assert!((1..=LANES).contains(&tile.rows) && (1..=LANES).contains(&tile.cols));
    assert!(tile.out.len() >= (tile.rows - 1) * tile.stride + tile.cols);
    let (a, b, next) = (a.as_ptr(), b.as_ptr(), next.unwrap_or(b).as_ptr());
    let run = |out, stride, add| {
        // SAFETY: the registers are configured, the panels hold `steps` steps, and `out` a full tile.
        unsafe { kernel(steps, [a, b, next], out, stride, add) };
    };
    if tile.rows == LANES && tile.cols == LANES {
        return run(tile.out.as_mut_ptr(), tile.stride, tile.add);
    }
    let mut whole = [0.0_f32; LANES * LANES];
    run(whole.as_mut_ptr(), LANES, false);
    let rows = tile.out.chunks_mut(tile.stride).zip(whole.chunks_exact(LANES)).take(tile.rows);
    for (row, whole) in rows {
        let row = &mut row[..tile.cols];
        if tile.add {
            row.iter_mut().zip(whole).for_each(|(out, value)| *out += value);
        } else {
            row.copy_from_slice(&whole[..tile.cols]);
        }
    }
}

/// Four accumulators of 16 x 16; each operand part is loaded as rarely as the eight registers allow: fourteen loads for
/// twenty-four products per step. A prefetch affects nothing but speed, whatever its address.
unsafe fn kernel(
    steps: usize,
    [a, b, next]: [*const f32; 3],
    out: *mut f32,
    stride: usize,
    add: bool,
) {
    for row in 0..LANES {
        let at = out.wrapping_add(row * stride).cast::<i8>();
        // SAFETY: a prefetch cannot fault.
        unsafe {
            _mm_prefetch::<_MM_HINT_ET0>(at);
            _mm_prefetch::<_MM_HINT_ET0>(at.wrapping_add(64));
        }
    }
    // SAFETY: the caller answers for the pointers; the tile registers are clobbered by name.
    unsafe {
        asm!(
            "test {add}, {add}",
            "jnz 2f",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "jmp 3f",
            "2:",
            "tileloadd tmm0, [{c} + {stride}]",
            "tileloadd tmm1, [{c} + {stride} + 64]",
            "tileloadd tmm2, [{d} + {stride}]",
            "tileloadd tmm3, [{d} + {stride} + 64]",
            "3:",
            "test {steps}, {steps}",
            "jz 5f",
            "4:",
            // l h
            "tileloadd tmm4, [{a} + {row} + 4096]",
            "tileloadd tmm6, [{b} + {row}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {row} + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {row} + 5120]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // h h
            "tileloadd tmm4, [{a} + {row}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {row} + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // h l
            "tileloadd tmm6, [{b} + {row} + 4096]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{b} + {row} + 5120]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // h m
            "tileloadd tmm6, [{b} + {row} + 2048]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{b} + {row} + 3072]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // m m
            "tileloadd tmm4, [{a} + {row} + 2048]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {row} + 3072]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            // m h
            "tileloadd tmm6, [{b} + {row}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{b} + {row} + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "prefetcht1 [{next}]",
            "prefetcht1 [{next} + 64]",
            "prefetcht1 [{next} + 128]",
            "prefetcht1 [{next} + 192]",
            "prefetcht1 [{next} + 256]",
            "prefetcht1 [{next} + 320]",
            "prefetcht1 [{next} + 384]",
            "prefetcht1 [{next} + 448]",
            "prefetcht1 [{next} + 512]",
            "prefetcht1 [{next} + 576]",
            "prefetcht1 [{next} + 640]",
            "prefetcht1 [{next} + 704]",
            "add {next}, 768",
            "add {a}, 6144",
            "add {b}, 6144",
            "dec {steps}",
            "jnz 4b",
            "5:",
            "tilestored [{c} + {stride}], tmm0",
            "tilestored [{c} + {stride} + 64], tmm1",
            "tilestored [{d} + {stride}], tmm2",
            "tilestored [{d} + {stride} + 64], tmm3",
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            next = inout(reg) next => _,
            c = in(reg) out,
            d = in(reg) out.wrapping_add(16 * stride),
            stride = in(reg) 4 * stride,
            row = in(reg) 64_usize,
            steps = inout(reg) steps => _,
            add = in(reg) usize::from(add),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
