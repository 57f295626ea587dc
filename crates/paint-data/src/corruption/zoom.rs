//! Bilinear zoom about the centre, with the grid of `scipy.ndimage`: the corner pixels of the crop stay corners.

/// One output position of one axis: two source indices and their weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tap {
    pub(super) at: [usize; 2],
    pub(super) weight: [f64; 2],
}

/// The taps of an axis of `n` pixels zoomed by `factor`, cropped back to `n`.
pub(super) fn taps(n: usize, factor: f64) -> Vec<Tap> {
    let crop = (n as f64 / factor).ceil() as usize;
    let start = (n - crop) / 2;
    let zoomed = (crop as f64 * factor).round_ties_even() as usize;
    let trim = (zoomed - n) / 2;
    let ratio = if zoomed > 1 { (crop - 1) as f64 / (zoomed - 1) as f64 } else { 1.0 };
    (trim..trim + n)
        .map(|i| {
            let position = i as f64 * ratio;
            // Rounding can place the last position just outside, which `scipy` fills with zero.
            if position > (crop - 1) as f64 {
                return Tap { at: [start, start], weight: [0.0, 0.0] };
            }
            let first = position as usize;
            let fraction = position - first as f64;
            Tap {
                at: [start + first, start + (first + 1).min(crop - 1)],
                weight: [1.0 - fraction, fraction],
            }
        })
        .collect()
}

/// One output row: the two rows that `y` names mixed into `column`, then mixed along it. `emit(i, value)` receives the
/// value at index `i` of the row.
pub(super) fn row<const CHANNELS: usize>(
    rows: [&[f32]; 2],
    y: Tap,
    x: &[Tap],
    column: &mut [f64],
    mut emit: impl FnMut(usize, [f64; CHANNELS]),
) {
    for ((out, &a), &b) in column.iter_mut().zip(rows[0]).zip(rows[1]) {
        *out = f64::from(a) * y.weight[0] + f64::from(b) * y.weight[1];
    }
    let pixels = column.as_chunks::<CHANNELS>().0;
    for (i, tap) in x.iter().enumerate() {
        let (a, b) = (&pixels[tap.at[0]], &pixels[tap.at[1]]);
        emit(i, std::array::from_fn(|c| a[c] * tap.weight[0] + b[c] * tap.weight[1]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_one_is_the_identity() {
        for (i, tap) in taps(7, 1.0).iter().enumerate() {
            assert_eq!((tap.at[0], tap.weight), (i, [1.0, 0.0]));
        }
    }

    #[test]
    fn a_factor_of_two_keeps_the_corners_of_the_central_half() {
        let taps = taps(8, 2.0);
        // The crop is pixels 2..6, stretched over eight positions: 3/7 of a pixel each.
        assert_eq!(taps[0].at[0], 2);
        assert!((taps[1].weight[1] - 3.0 / 7.0).abs() < 1e-12);
        assert!((taps[7].at[0] as f64 + taps[7].weight[1] - 5.0).abs() < 1e-12);
    }

    #[test]
    fn any_size_and_factor_gives_as_many_taps_as_pixels() {
        for n in 1..40 {
            for factor in [1.01, 1.25, 1.75, 4.5] {
                let taps = taps(n, factor);
                assert_eq!(taps.len(), n);
                assert!(taps.iter().flat_map(|tap| tap.at).all(|at| at < n));
            }
        }
    }
}
