//! Bilinear resampling at displaced positions: OpenCV's affine warp and `scipy.ndimage`'s coordinate map.

use super::grid::{Border, Grid};

/// Positions are rounded to 1/32 pixel, with 10 bits for the products along a row, as OpenCV's `warpAffine`.
const POSITION_BITS: u32 = 5;
const PRODUCT_BITS: u32 = 10;

/// The affine map with `from[i] ↦ to[i]`, points as `(x, y)`: rows `[a, b, c]` of `x' = a x + b y + c`. `None` if the
/// points lie on a line.
pub(super) fn affine(from: [(f64, f64); 3], to: [(f64, f64); 3]) -> Option<[[f64; 3]; 2]> {
    let [p, q, r] = from;
    let (ux, uy, vx, vy) = (q.0 - p.0, q.1 - p.1, r.0 - p.0, r.1 - p.1);
    let area = ux * vy - uy * vx;
    if area == 0.0 {
        return None;
    }
    let row = |p_to: f64, q_to: f64, r_to: f64| {
        let (u, v) = (q_to - p_to, r_to - p_to);
        let a = (u * vy - v * uy) / area;
        let b = (v * ux - u * vx) / area;
        [a, b, p_to - a * p.0 - b * p.1]
    };
    Some([row(to[0].0, to[1].0, to[2].0), row(to[0].1, to[1].1, to[2].1)])
}

/// `out(x, y) = image(map(x, y))` for three channels, reflected without the edge pixel.
pub(super) fn warp_affine(image: &[f32], grid: Grid, map: [[f64; 3]; 2]) -> Vec<f32> {
    let scale = f64::from(1 << PRODUCT_BITS);
    let fixed = |value: f64| (value * scale).round_ties_even() as i64;
    let half_step = 1 << (PRODUCT_BITS - POSITION_BITS - 1);
    let along: Vec<(i64, i64)> = (0..grid.width)
        .map(|x| (fixed(map[0][0] * x as f64), fixed(map[1][0] * x as f64)))
        .collect();
    let sampler = Sampler { image: image.as_chunks::<3>().0, grid, border: Border::Reflect101 };
    let mut out = Vec::with_capacity(grid.len());
    for y in 0..grid.height {
        let start = |row: [f64; 3]| fixed(row[1] * y as f64 + row[2]) + half_step;
        let (x0, y0) = (start(map[0]), start(map[1]));
        for &(dx, dy) in &along {
            let split = |value: i64| {
                let position = value >> (PRODUCT_BITS - POSITION_BITS);
                let whole = (position >> POSITION_BITS) as isize;
                (
                    whole,
                    (position & ((1 << POSITION_BITS) - 1)) as f32 / (1 << POSITION_BITS) as f32,
                )
            };
            out.extend_from_slice(&sampler.at(split(y0 + dy), split(x0 + dx)));
        }
    }
    out
}

/// `out(x, y) = image(x + dx(x, y), y + dy(x, y))` for three channels, reflected with the edge pixel.
pub(super) fn displace(image: &[f32], grid: Grid, dx: &[f32], dy: &[f32]) -> Vec<f32> {
    let sampler = Sampler { image: image.as_chunks::<3>().0, grid, border: Border::Reflect };
    let split = |position: f64| {
        // `floor` without a library call: the cast goes towards zero.
        let whole = position as isize - isize::from(position < 0.0);
        (whole, (position - whole as f64) as f32)
    };
    let mut out = Vec::with_capacity(grid.len());
    for (y, (dx, dy)) in dx.chunks_exact(grid.width).zip(dy.chunks_exact(grid.width)).enumerate() {
        for (x, (&dx, &dy)) in dx.iter().zip(dy).enumerate() {
            out.extend_from_slice(
                &sampler.at(split(y as f64 + f64::from(dy)), split(x as f64 + f64::from(dx))),
            );
        }
    }
    out
}

struct Sampler<'a> {
    image: &'a [[f32; 3]],
    grid: Grid,
    border: Border,
}

impl Sampler<'_> {
    /// The mix of the four pixels around a position, given per axis as whole part and fraction.
    #[inline]
    fn at(&self, (y, fy): (isize, f32), (x, fx): (isize, f32)) -> [f32; 3] {
        let width = self.grid.width;
        let (wa, wb, wc, wd) = ((1.0 - fy) * (1.0 - fx), (1.0 - fy) * fx, fy * (1.0 - fx), fy * fx);
        let mix = |a: [f32; 3], b: [f32; 3], c: [f32; 3], d: [f32; 3]| {
            std::array::from_fn(|i| a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd)
        };
        // A negative position becomes a huge one, so two comparisons find the inside.
        if (y as usize) < self.grid.height - 1 && (x as usize) < width - 1 {
            let at = y as usize * width + x as usize;
            if let ([a, b], [c, d]) =
                (&self.image[at..at + 2], &self.image[at + width..at + width + 2])
            {
                return mix(*a, *b, *c, *d);
            }
        }
        let (y0, y1) =
            (self.border.index(y, self.grid.height), self.border.index(y + 1, self.grid.height));
        let (x0, x1) =
            (self.border.index(x, self.grid.width), self.border.index(x + 1, self.grid.width));
        let (above, below) =
            (&self.image[y0 * width..][..width], &self.image[y1 * width..][..width]);
        mix(above[x0], above[x1], below[x0], below[x1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(grid: Grid) -> Vec<f32> {
        (0..grid.len())
            .map(|i| (i / 3 % grid.width) as f32 + 100.0 * (i / grid.stride()) as f32)
            .collect()
    }

    #[test]
    fn three_points_fix_an_affine_map() {
        let map =
            affine([(0.0, 0.0), (4.0, 0.0), (0.0, 2.0)], [(1.0, 2.0), (5.0, 6.0), (-1.0, 2.0)]);
        assert_eq!(map, Some([[1.0, -1.0, 1.0], [1.0, 0.0, 2.0]]));
        assert_eq!(affine([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)], [(0.0, 0.0); 3]), None);
    }

    #[test]
    fn a_shift_reads_the_displaced_pixel() {
        let grid = Grid { height: 4, width: 6, channels: 3 };
        let image = ramp(grid);
        let out = warp_affine(&image, grid, [[1.0, 0.0, 1.5], [0.0, 1.0, 1.0]]);
        assert_eq!(out[..6], [101.5, 101.5, 101.5, 102.5, 102.5, 102.5]);
        // Column 4 + 1.5 lies between the last pixel and the one before it, reflected.
        assert_eq!(out[4 * 3], 104.5);
        let out = displace(&image, grid, &[0.25; 24], &[-1.0; 24]);
        assert_eq!(out[0], 0.25, "row -1 is row 0 again");
        assert_eq!(out[grid.stride() + 3], 1.25);
        assert_eq!(out[5 * 3], 5.0, "beyond the last column it repeats");
    }
}
