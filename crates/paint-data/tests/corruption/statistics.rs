//! The ten numbers by which a corrupted set is compared with another.

use paint_data::Image;

pub(crate) const NAMES: [&str; 10] = [
    "mean_r",
    "mean_g",
    "mean_b",
    "std_r",
    "std_g",
    "std_b",
    "mean_abs_diff",
    "psnr_db",
    "laplacian",
    "autocorr_h1",
];

/// The place of the mean absolute Laplacian.
pub(crate) const LAPLACIAN: usize = 8;

/// Statistics of `corrupted` pooled over all images, and of its difference from `clean`, in grey levels.
pub(crate) fn statistics(clean: &[Image], corrupted: &[Image]) -> [f64; 10] {
    let mut sums = [[0.0; 3]; 2];
    let (mut absolute, mut squared, mut values) = (0.0, 0.0, 0.0);
    let (mut laplacian, mut inner) = (0.0, 0.0);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (clean, x) in clean.iter().zip(corrupted) {
        let (width, height) = (x.width(), x.height());
        let at =
            |y: usize, column: usize, c: usize| f64::from(x.pixels()[(y * width + column) * 3 + c]);
        for (i, (&x, &clean)) in x.pixels().iter().zip(clean.pixels()).enumerate() {
            let (x, clean) = (f64::from(x), f64::from(clean));
            sums[0][i % 3] += x;
            sums[1][i % 3] += x * x;
            absolute += (x - clean).abs();
            squared += (x - clean).powi(2);
            values += 1.0;
        }
        for c in 0..3 {
            let mean = x.pixels().iter().skip(c).step_by(3).map(|&v| f64::from(v)).sum::<f64>()
                / (width * height) as f64;
            for y in 0..height {
                for column in 0..width - 1 {
                    let (a, b) = (at(y, column, c) - mean, at(y, column + 1, c) - mean);
                    ab += a * b;
                    aa += a * a;
                    bb += b * b;
                    if y > 0 && y + 1 < height && column > 0 {
                        let around = at(y - 1, column, c)
                            + at(y + 1, column, c)
                            + at(y, column - 1, c)
                            + at(y, column + 1, c);
                        laplacian += (4.0 * at(y, column, c) - around).abs();
                        inner += 1.0;
                    }
                }
            }
        }
    }
    let n = values / 3.0;
    let mean = sums[0].map(|sum| sum / n);
    let std: [f64; 3] =
        std::array::from_fn(|c| (sums[1][c] / n - mean[c] * mean[c]).max(0.0).sqrt());
    let psnr = 10.0 * (255.0 * 255.0 / (squared / values)).log10();
    let [r, g, b] = mean;
    let [sr, sg, sb] = std;
    [r, g, b, sr, sg, sb, absolute / values, psnr, laplacian / inner, ab / (aa * bb).sqrt()]
}
