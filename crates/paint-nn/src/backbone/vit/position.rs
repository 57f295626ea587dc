//! Position embeddings for another image size: bicubic with antialiasing, as timm resamples them.

use crate::checkpoint::Array;
use crate::error::{Error, Result};

/// Keys' cubic kernel with `a = −½`, the one that antialiased resizing uses.
const A: f64 = -0.5;

/// `[1, p + n², D]` → `[1, p + rows · columns, D]`; the embeddings of the `prefix` first tokens stay.
pub(super) fn resample(array: &Array, prefix: usize, [rows, columns]: [usize; 2]) -> Result<Array> {
    let refuse = || Error::Shape {
        what: "pos_embed".into(),
        expected: vec![1, prefix + rows * columns, 0],
        got: array.shape.clone(),
    };
    let &[1, tokens, d] = array.shape.as_slice() else { return Err(refuse()) };
    let side = tokens.saturating_sub(prefix).isqrt();
    if side == 0 || side * side + prefix != tokens {
        return Err(refuse());
    }
    let (first, grid) = array.data.split_at(prefix * d);
    let tall = resize(grid, [1, side, side * d], rows);
    let wide = resize(&tall, [rows, side, d], columns);
    Ok(Array {
        shape: vec![1, prefix + rows * columns, d],
        dtype: array.dtype,
        data: [first, &wide].concat(),
    })
}

/// Resizes the middle axis of `[outer, n, inner]` to `m`.
fn resize(data: &[f32], [outer, n, inner]: [usize; 3], m: usize) -> Vec<f32> {
    let scale = n as f64 / m as f64;
    // Shrinking widens the kernel, so that every input is counted.
    let stretch = scale.max(1.0);
    let mut out = Vec::with_capacity(outer * m * inner);
    for o in 0..outer {
        for i in 0..m {
            let centre = scale * (i as f64 + 0.5);
            let first = (centre - 2.0 * stretch + 0.5).max(0.0) as usize;
            let last = ((centre + 2.0 * stretch + 0.5) as usize).min(n);
            let weights: Vec<f64> =
                (first..last).map(|j| cubic((j as f64 + 0.5 - centre) / stretch)).collect();
            let total: f64 = weights.iter().sum();
            for k in 0..inner {
                let at = |j: usize| f64::from(data[(o * n + j) * inner + k]);
                let sum: f64 = weights.iter().zip(first..last).map(|(w, j)| w * at(j)).sum();
                out.push((sum / total) as f32);
            }
        }
    }
    out
}

fn cubic(x: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Dtype;

    #[test]
    fn resampling_matches_antialiased_bicubic_interpolation_of_pytorch() {
        // F.interpolate(g, size=(2, 6), mode="bicubic", antialias=True) of g = 0.5 * (arange(16) % 7) as 4x4.
        let expected = [
            0.851_402_9,
            1.082_523_2,
            1.501_879_8,
            2.008_364_7,
            1.466_334_5,
            0.836_369_04,
            1.582_807_8,
            1.916_018_5,
            2.010_651,
            1.144_508_4,
            0.987_967_9,
            1.096_210_4,
        ];
        let mut data = vec![9.0];
        data.extend((0_u8..16).map(|i| 0.5 * f32::from(i % 7)));
        let got =
            resample(&Array { shape: vec![1, 17, 1], dtype: Dtype::F32, data }, 1, [2, 6]).unwrap();
        assert_eq!((got.shape, got.data[0]), (vec![1, 13, 1], 9.0));
        for (got, expected) in got.data[1..].iter().zip(expected) {
            assert!((got - expected).abs() < 1e-5, "{got} and {expected}");
        }
    }

    #[test]
    fn a_grid_that_is_not_square_is_refused() {
        let array = Array { shape: vec![1, 7, 1], dtype: Dtype::F32, data: vec![0.0; 7] };
        assert!(resample(&array, 1, [2, 6]).is_err());
    }
}
