//! Resizing with the box filter, bit for bit as Pillow: rows first, bytes in between, weights of 22 bits.

use super::grid::Grid;
use crate::simd::wide;

const PRECISION: u32 = 22;

/// The source pixels of one output pixel along an axis; they weigh the same.
struct Span {
    first: usize,
    count: usize,
    /// `1 / count` in fixed point.
    weight: u32,
}

/// The spans of an axis resized from `from` to `to` pixels.
fn spans(from: usize, to: usize) -> Vec<Span> {
    let scale = from as f64 / to as f64;
    let support = 0.5 * scale.max(1.0);
    (0..to)
        .map(|i| {
            let centre = (i as f64 + 0.5) * scale;
            let reached =
                ((centre - support + 0.5) as usize)..((centre + support + 0.5) as usize).min(from);
            let inside = |x: &usize| {
                let position = (*x as f64 - centre + 0.5) / scale.max(1.0);
                position > -0.5 && position <= 0.5
            };
            let first = reached.clone().find(inside).unwrap_or(reached.start);
            let count = reached.filter(inside).count().max(1);
            Span { first, count, weight: (0.5 + f64::from(1 << PRECISION) / count as f64) as u32 }
        })
        .collect()
}

/// Resizes three-channel bytes.
pub(super) fn resize(data: &[u8], grid: Grid, height: usize, width: usize) -> Vec<u8> {
    let (across, down) = (spans(grid.width, width), spans(grid.height, height));
    let mut rows = vec![0; grid.height * width * 3];
    for (row, out) in data.chunks_exact(grid.stride()).zip(rows.chunks_exact_mut(width * 3)) {
        resize_row(row.as_chunks::<3>().0, &across, out.as_chunks_mut::<3>().0);
    }
    let stride = width * 3;
    let mut out = vec![0; height * stride];
    let mut sums = vec![0; stride];
    for (span, out) in down.iter().zip(out.chunks_exact_mut(stride)) {
        let rows = &rows[span.first * stride..][..span.count * stride];
        if span.count == 1 {
            out.copy_from_slice(rows);
        } else {
            mix_rows(rows, span.weight, &mut sums, out);
        }
    }
    out
}

fn resize_row(row: &[[u8; 3]], spans: &[Span], out: &mut [[u8; 3]]) {
    for (span, out) in spans.iter().zip(out) {
        let pixels = &row[span.first..][..span.count];
        if let [pixel] = pixels {
            *out = *pixel;
            continue;
        }
        let mut sum = [0; 3];
        for pixel in pixels {
            for (sum, &value) in sum.iter_mut().zip(pixel) {
                *sum += u32::from(value);
            }
        }
        *out = sum.map(|sum| to_byte(sum, span.weight));
    }
}

wide! {
    fn mix_rows<'a>(rows: &'a [u8], weight: u32, sums: &'a mut [u32], out: &'a mut [u8]) -> () {
        sums.fill(0);
        for row in rows.chunks_exact(sums.len()) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                *sum += u32::from(value);
            }
        }
        for (out, &sum) in out.iter_mut().zip(&*sums) {
            *out = to_byte(sum, weight);
        }
    }
}

#[inline(always)]
fn to_byte(sum: u32, weight: u32) -> u8 {
    ((sum * weight + (1 << (PRECISION - 1))) >> PRECISION).min(255) as u8
}
