//! From coefficients to samples.

use super::dct::{Blocks, LANES, inverse};
use super::frame::{Component, Group};
use crate::simd::wide;

/// Makes samples of `rows` rows of blocks, the first kept ones, which belong at row `first` of the plane; the
/// coefficients are zero afterwards.
pub(super) fn transform(component: &mut Component, first: usize, rows: usize) {
    let Component { coefficients, plane, groups, steps, .. } = component;
    // A component without a scan has none, and no coefficients either.
    let steps = steps.unwrap_or([0; 64]);
    let kept = coefficients.chunks_exact_mut(*groups).take(rows);
    let bands = plane.data.chunks_exact_mut(8 * plane.stride).skip(first);
    for (groups, band) in kept.zip(bands) {
        transform_row(groups, &steps, band);
    }
}

wide! {
    /// One row of blocks into eight rows of samples.
    fn transform_row<'a>(groups: &'a mut [Group], steps: &'a [u16; 64], band: &'a mut [u8]) -> () {
        let stride = band.len() / 8;
        let mut blocks: Blocks = [[0; LANES]; 64];
        for (index, group) in groups.iter_mut().enumerate() {
            for ((lanes, coefficients), &step) in
                blocks.iter_mut().zip(&*group).zip(steps)
            {
                for (lane, &coefficient) in lanes.iter_mut().zip(coefficients) {
                    *lane = i32::from(coefficient) * i32::from(step);
                }
            }
            *group = [[0; LANES]; 64];
            inverse(&mut blocks);
            let mut bytes = [[[0; LANES]; 8]; 8];
            let values = blocks.as_flattened();
            for (byte, value) in bytes.as_flattened_mut().as_flattened_mut().iter_mut().zip(values) {
                *byte = value.saturating_add(128).clamp(0, 255) as u8;
            }
            for (line, columns) in band.chunks_exact_mut(stride).zip(&bytes) {
                let out = &mut line[index * LANES * 8..][..LANES * 8];
                transpose(columns, out.as_chunks_mut::<8>().0);
            }
        }
    }
}

/// One row of eight blocks, `[column][block]`, to `[block][column]`: bytes change places within words.
#[inline(always)]
fn transpose(columns: &[[u8; LANES]; 8], blocks: &mut [[u8; 8]]) {
    let mut words = columns.map(u64::from_le_bytes);
    exchange::<1>(&mut words, 0x00ff_00ff_00ff_00ff);
    exchange::<2>(&mut words, 0x0000_ffff_0000_ffff);
    exchange::<4>(&mut words, 0x0000_0000_ffff_ffff);
    for (block, word) in blocks.iter_mut().zip(words) {
        *block = word.to_le_bytes();
    }
}

/// Exchanges the bytes under the mask, shifted up, of each word with those under it of the word `DISTANCE` later.
#[inline(always)]
fn exchange<const DISTANCE: usize>(words: &mut [u64; 8], mask: u64) {
    for x in 0..8 {
        if x & DISTANCE == 0 {
            let moved = ((words[x] >> (8 * DISTANCE)) ^ words[x + DISTANCE]) & mask;
            words[x] ^= moved << (8 * DISTANCE);
            words[x + DISTANCE] ^= moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_blocks_is_brought_into_line() {
        let columns = std::array::from_fn(|x| std::array::from_fn(|block| (block * 8 + x) as u8));
        let mut blocks = [[0; 8]; 8];
        transpose(&columns, &mut blocks);
        assert!(blocks.as_flattened().iter().copied().eq(0..64));
    }
}
