//! The inner loops of a convolution, in registers: blocks of output channels by vectors of positions.

use pulp::{Arch, Simd, WithSimd};

/// Output channels of a block.
pub(super) const ROWS: usize = 8;
/// Vectors of positions of a block.
const VECTORS: usize = 3;
/// Positions are padded to this: the widest block, three vectors of 16.
pub(super) const MAX_WIDTH: usize = 48;

/// Output channels and taps of a block of dot products.
pub(super) const DOT_ROWS: usize = 4;
pub(super) const DOT_TAPS: usize = 6;

/// `rows[r][p] = Σ_k weights[k][r] planes[offsets[k] + p]` for every block of [`ROWS`] rows; rows are `width` apart and
/// `weights` is `[block][k][ROWS]`.
pub(super) fn multiply(
    offsets: &[usize],
    weights: &[f32],
    planes: &[f32],
    rows: &mut [f32],
    width: usize,
) {
    Arch::new().dispatch(Multiply { offsets, weights, planes, rows, width });
}

struct Multiply<'a> {
    offsets: &'a [usize],
    weights: &'a [f32],
    planes: &'a [f32],
    rows: &'a mut [f32],
    width: usize,
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { offsets, weights, planes, rows, width } = self;
        let step = VECTORS * S::F32_LANES;
        // Positions outside, channels inside: the part of the planes that a block reads stays in the cache.
        for position in (0..width).step_by(step) {
            let planes = &planes[position..];
            let blocks = weights.chunks_exact(offsets.len() * ROWS);
            for (weights, rows) in blocks.zip(rows.chunks_exact_mut(ROWS * width)) {
                // A processor with sixteen registers takes half of the rows at a time.
                if S::REGISTER_COUNT >= 32 {
                    let sums = product::<S, ROWS>(simd, offsets, weights, planes);
                    store::<S, ROWS>(&sums, rows, width, position);
                } else {
                    const HALF: usize = ROWS / 2;
                    let (upper, lower) = rows.split_at_mut(HALF * width);
                    let sums = product::<S, HALF>(simd, offsets, weights, planes);
                    store::<S, HALF>(&sums, upper, width, position);
                    let sums = product::<S, HALF>(simd, offsets, &weights[HALF..], planes);
                    store::<S, HALF>(&sums, lower, width, position);
                }
            }
        }
    }
}

type Sums<S, const R: usize> = [[<S as Simd>::f32s; VECTORS]; R];

#[inline(always)]
fn product<S: Simd, const R: usize>(
    simd: S,
    offsets: &[usize],
    weights: &[f32],
    planes: &[f32],
) -> Sums<S, R> {
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; R];
    for (&offset, weights) in offsets.iter().zip(weights.chunks(ROWS)) {
        let near = &planes[offset..offset + VECTORS * S::F32_LANES];
        let near = S::as_simd_f32s(near).0;
        let near = [near[0], near[1], near[2]];
        let weights = &weights[..R];
        for r in 0..R {
            let weight = simd.splat_f32s(weights[r]);
            for v in 0..VECTORS {
                sums[r][v] = simd.mul_add_e_f32s(weight, near[v], sums[r][v]);
            }
        }
    }
    sums
}

#[inline(always)]
fn store<S: Simd, const R: usize>(
    sums: &[[S::f32s; VECTORS]; R],
    rows: &mut [f32],
    width: usize,
    position: usize,
) {
    for (sums, row) in sums.iter().zip(rows.chunks_exact_mut(width)) {
        let out = &mut row[position..position + VECTORS * S::F32_LANES];
        S::as_mut_simd_f32s(out).0.copy_from_slice(sums);
    }
}

/// `sums[r][k] += Σ_p rows[r][p] planes[offsets[k] + p]` for `k < depth`; `offsets` and `rows` are padded to whole blocks.
pub(super) fn add_dots(
    offsets: &[usize],
    depth: usize,
    planes: &[f32],
    (rows, width): (&[f32], usize),
    sums: &mut [f32],
) {
    Arch::new().dispatch(Dots { offsets, depth, planes, rows, width, sums });
}

struct Dots<'a> {
    offsets: &'a [usize],
    depth: usize,
    planes: &'a [f32],
    rows: &'a [f32],
    width: usize,
    sums: &'a mut [f32],
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { offsets, depth, planes, rows, width, sums } = self;
        // Taps outside, channels inside: the planes of a few taps stay in the cache.
        for (block, offsets) in offsets.chunks_exact(DOT_TAPS).enumerate() {
            let first = block * DOT_TAPS;
            let near: [&[S::f32s]; DOT_TAPS] =
                std::array::from_fn(|k| S::as_simd_f32s(&planes[offsets[k]..offsets[k] + width]).0);
            let blocks = rows.chunks_exact(DOT_ROWS * width);
            for (rows, sums) in blocks.zip(sums.chunks_mut(DOT_ROWS * depth)) {
                let rows: [&[S::f32s]; DOT_ROWS] =
                    std::array::from_fn(|r| S::as_simd_f32s(&rows[r * width..(r + 1) * width]).0);
                let totals = dots::<S>(simd, rows, near, width / S::F32_LANES);
                for (totals, sums) in totals.iter().zip(sums.chunks_exact_mut(depth)) {
                    for (sum, &total) in sums[first..].iter_mut().zip(totals) {
                        *sum += simd.reduce_sum_f32s(total);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn dots<S: Simd>(
    simd: S,
    rows: [&[S::f32s]; DOT_ROWS],
    near: [&[S::f32s]; DOT_TAPS],
    len: usize,
) -> [[S::f32s; DOT_TAPS]; DOT_ROWS] {
    let (rows, near) = (rows.map(|row| &row[..len]), near.map(|near| &near[..len]));
    let mut totals = [[simd.splat_f32s(0.0); DOT_TAPS]; DOT_ROWS];
    for i in 0..len {
        let near = near.map(|near| near[i]);
        for r in 0..DOT_ROWS {
            let row = rows[r][i];
            for k in 0..DOT_TAPS {
                totals[r][k] = simd.mul_add_e_f32s(row, near[k], totals[r][k]);
            }
        }
    }
    totals
}
