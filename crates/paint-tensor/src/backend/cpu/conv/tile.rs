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

pub(super) struct Multiply<'a> {
    pub(super) offsets: &'a [usize],
    pub(super) weights: &'a [f32],
    pub(super) planes: &'a [f32],
    pub(super) rows: &'a mut [f32],
    pub(super) width: usize,
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
                // A CPU with sixteen registers takes half of the rows at a time.
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
        let &[first, second, third] = S::as_simd_f32s(near).0 else { break };
        let weights = &weights[..R];
        for r in 0..R {
            let weight = simd.splat_f32s(weights[r]);
            sums[r][0] = simd.mul_add_e_f32s(weight, first, sums[r][0]);
            sums[r][1] = simd.mul_add_e_f32s(weight, second, sums[r][1]);
            sums[r][2] = simd.mul_add_e_f32s(weight, third, sums[r][2]);
        }
    }
    settled(simd, &sums)
}

/// A copy: what is indexed by a variable lies in memory, and the sums must not while they grow.
#[inline(always)]
fn settled<S: Simd, const V: usize, const R: usize>(
    simd: S,
    sums: &[[S::f32s; V]; R],
) -> [[S::f32s; V]; R] {
    let mut copy = [[simd.splat_f32s(0.0); V]; R];
    for r in 0..R {
        for v in 0..V {
            copy[r][v] = sums[r][v];
        }
    }
    copy
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

/// `sums[r][k] += Σ_p rows[r][p] planes[offsets[k] + p]` for `k < depth`; `offsets` and `rows` are padded to whole
/// blocks.
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
            let blocks = rows.chunks_exact(DOT_ROWS * width);
            for (rows, sums) in blocks.zip(sums.chunks_mut(DOT_ROWS * depth)) {
                let totals = dots::<S>(simd, rows, planes, offsets, width);
                for (totals, sums) in totals.iter().zip(sums.chunks_exact_mut(depth)) {
                    for (sum, &total) in sums[first..].iter_mut().zip(totals) {
                        *sum += simd.reduce_sum_f32s(total);
                    }
                }
            }
        }
    }
}

/// One block of dot products, not yet summed over lanes. Written with plain loops: closures over arrays are not inlined
/// into code for other instruction sets.
#[inline(always)]
fn dots<S: Simd>(
    simd: S,
    rows: &[f32],
    planes: &[f32],
    offsets: &[usize],
    width: usize,
) -> [[S::f32s; DOT_TAPS]; DOT_ROWS] {
    let vectors = |x| S::as_simd_f32s(x).0;
    let mut row = [vectors(&rows[..width]); DOT_ROWS];
    let mut near = [row[0]; DOT_TAPS];
    let len = row[0].len();
    for r in 0..DOT_ROWS {
        row[r] = &vectors(&rows[r * width..(r + 1) * width])[..len];
    }
    for k in 0..DOT_TAPS {
        near[k] = &vectors(&planes[offsets[k]..offsets[k] + width])[..len];
    }
    let mut totals = [[simd.splat_f32s(0.0); DOT_TAPS]; DOT_ROWS];
    for i in 0..len {
        let [a, b, c, d] = [row[0][i], row[1][i], row[2][i], row[3][i]];
        for k in 0..DOT_TAPS {
            let near = near[k][i];
            totals[0][k] = simd.mul_add_e_f32s(a, near, totals[0][k]);
            totals[1][k] = simd.mul_add_e_f32s(b, near, totals[1][k]);
            totals[2][k] = simd.mul_add_e_f32s(c, near, totals[2][k]);
            totals[3][k] = simd.mul_add_e_f32s(d, near, totals[3][k]);
        }
    }
    settled(simd, &totals)
}
