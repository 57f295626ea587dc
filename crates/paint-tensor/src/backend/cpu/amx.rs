//! The AMX matrix-product kernel: `f32` products out of `bf16` tiles, several times faster than fused multiply-adds.
//!
//! A float of 24 significant bits is exactly the sum of three `bf16` of 8 bits each, `x = h + m + l`. Of the nine
//! partial products of `a b`, six are computed: `hh, hm, mh, hl, lh, mm`. The three that are left out are below 2⁻²⁴
//! `|a b|` together, half a unit in the last place of a float. Tiles accumulate in `f32`, 32 depths at a time, in a
//! fixed order. With [`Split::Two`] `l` is left out, and three partial products remain: `hh, hm, mh`.
//!
//! A packed panel holds 32 lanes (rows of the left, columns of the right operand). Each step of 32 depths is a number
//! of tiles of 1 KiB, `[h0, h1, m0, m1, l0, l1]`, where 0 and 1 are the two halves of the lanes. A tile is 16 x 16
//! pairs of `bf16`; pair `j` of a step holds depths `j` and `j + 16`, the same on both sides, so the order inside a
//! step does not matter.

#![expect(
    unsafe_code,
    reason = "tile instructions exist as inline assembly only; lengths are checked at the safe entry points"
)]

mod pack;
mod registers;
#[cfg(test)]
mod tests;
mod tiles;

use super::avx512::Tile;
pub(super) use pack::{Side, pack};
pub(super) use registers::{Registers, available};

/// Lanes of a panel: two tiles.
pub(super) const LANES: usize = 32;
/// Depths of one step.
pub(super) const STEP: usize = 32;
/// Bytes of a tile.
const TILE: usize = 1024;

/// Into how many `bf16` a float is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Split {
    /// Its first 16 bits: a product is off by about 2⁻¹⁶ of its size.
    Two,
    /// All of it.
    Three,
}

impl Split {
    /// The length of one step of a panel, in floats.
    pub(super) const fn step_len(self) -> usize {
        step_len(match self {
            Self::Two => 2,
            Self::Three => 3,
        })
    }

    /// Floats of another panel that one step fetches into the cache: an eighth of a step.
    pub(super) const fn ahead_len(self) -> usize {
        self.step_len() / 8
    }
}

/// Floats of a step that has so many parts of two bytes per element.
const fn step_len(parts: usize) -> usize {
    LANES * STEP * parts / 2
}

/// Multiplies `steps` steps of a packed left panel with those of a packed right panel into a tile of at most 32 x 32. A
/// third slice, if there, is fetched into the cache meanwhile.
pub(super) fn multiply(
    _registers: &Registers,
    split: Split,
    steps: usize,
    (a, b, next): (&[f32], &[f32], Option<&[f32]>),
    tile: &mut Tile,
) {
    let len = steps * split.step_len();
    assert!(a.len() >= len && b.len() >= len);
    assert!((1..=LANES).contains(&tile.rows) && (1..=LANES).contains(&tile.cols));
    assert!(tile.out.len() >= (tile.rows - 1) * tile.stride + tile.cols);
    let (a, b, next) = (a.as_ptr(), b.as_ptr(), next.unwrap_or(b).as_ptr());
    let run = |out, stride, add| {
        // SAFETY: the registers are configured, the panels hold `steps` steps, and `out` a full tile.
        unsafe {
            match split {
                Split::Two => tiles::three_products(steps, [a, b, next], out, stride, add),
                Split::Three => tiles::six_products(steps, [a, b, next], out, stride, add),
            }
        }
    };
    if tile.margin || tile.rows == LANES && tile.cols == LANES {
        assert!(tile.out.len() >= (LANES - 1) * tile.stride + LANES);
        return run(tile.out.as_mut_ptr(), tile.stride, tile.add);
    }
    let mut whole = [0.0_f32; LANES * LANES];
    let rows = || (0..tile.rows).map(|row| row * tile.stride..row * tile.stride + tile.cols);
    if tile.add {
        for (row, whole) in rows().zip(whole.chunks_exact_mut(LANES)) {
            whole[..tile.cols].copy_from_slice(&tile.out[row]);
        }
    }
    run(whole.as_mut_ptr(), LANES, tile.add);
    for (row, whole) in rows().zip(whole.chunks_exact(LANES)) {
        tile.out[row].copy_from_slice(&whole[..tile.cols]);
    }
}
