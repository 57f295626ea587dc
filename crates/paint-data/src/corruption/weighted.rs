//! Weighted sums of rows, the inner loop of the large filters.

use crate::simd::wide;

/// Values summed side by side, so that the sums stay in registers.
const BLOCK: usize = 64;

wide! {
    /// `out[i] = Σ source[i] weight`; every source is as long as `out`.
    pub(super) fn weighted_sum<'a>(sources: &'a [(&'a [f32], f32)], out: &'a mut [f32]) -> () {
        let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
        let tail = blocks.len() * BLOCK;
        for (block, out) in blocks.iter_mut().enumerate() {
            let at = block * BLOCK;
            let mut sum = [0.0; BLOCK];
            for (source, weight) in sources {
                let source = &source[at..at + BLOCK];
                for i in 0..BLOCK {
                    sum[i] += source[i] * weight;
                }
            }
            *out = sum;
        }
        for (i, out) in rest.iter_mut().enumerate() {
            *out = sources.iter().map(|(source, weight)| source[tail + i] * weight).sum();
        }
    }
}
