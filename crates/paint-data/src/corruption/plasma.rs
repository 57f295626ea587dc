//! Plasma: a fractal height map by the diamond-square method, periodic in both directions.

use paint_rng::Rng;

use crate::simd::wide;

/// A `side` x `side` map in `[0, 1]`; `side` is a power of two.
///
/// Each level sets the centres of squares, then of diamonds, to the mean of their four corners plus
/// `w U(-w, w)`; the amplitude `w` starts at 100 and is divided by `decay` from level to level.
pub(super) fn plasma(side: usize, decay: f32, rng: &mut Rng) -> Vec<f32> {
    let mask = side - 1;
    // Uniform noise in [-1, 1) everywhere; a visited point scales its own and adds it to the mean.
    let mut map: Vec<f32> = Vec::with_capacity(side * side + 1);
    while map.len() < side * side {
        let bits = rng.next_u64();
        map.extend([bits as i32, (bits >> 32) as i32].map(|bits| bits as f32 * 2f32.powi(-31)));
    }
    map.truncate(side * side);
    map[0] = 0.0;
    let mut step = side;
    let mut wibble = 100.0_f32;
    while step >= 2 {
        let half = step / 2;
        let amplitude = wibble * wibble;
        for y in (0..side).step_by(step) {
            let (top, below) = (y * side, ((y + step) & mask) * side);
            for x in (0..side).step_by(step) {
                let right = (x + step) & mask;
                let sum = map[top + x] + map[top + right] + map[below + x] + map[below + right];
                let point = &mut map[(y + half) * side + x + half];
                *point = sum / 4.0 + amplitude * *point;
            }
        }
        // Diamonds centred on the horizontal edges, then on the vertical ones.
        for y in (0..side).step_by(step) {
            let (row, above, below) =
                (y * side, ((y + side - half) & mask) * side, (y + half) * side);
            for x in (0..side).step_by(step) {
                let (centre, right) = (x + half, (x + step) & mask);
                let sum =
                    map[above + centre] + map[below + centre] + map[row + x] + map[row + right];
                let point = &mut map[row + centre];
                *point = sum / 4.0 + amplitude * *point;
            }
        }
        for y in (0..side).step_by(step) {
            let (row, centre, below) = (y * side, (y + half) * side, ((y + step) & mask) * side);
            for x in (0..side).step_by(step) {
                let left = (x + side - half) & mask;
                let sum =
                    map[centre + left] + map[centre + x + half] + map[row + x] + map[below + x];
                let point = &mut map[centre + x];
                *point = sum / 4.0 + amplitude * *point;
            }
        }
        step = half;
        wibble /= decay;
    }
    stretch(&mut map);
    map
}

wide! {
    /// Maps the range of the values to `[0, 1]`.
    fn stretch<'a>(map: &'a mut [f32]) -> () {
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for &value in &*map {
            low = if value < low { value } else { low };
            high = if value > high { value } else { high };
        }
        // A map of one point has no range.
        let scale = if high > low { 1.0 / (high - low) } else { 0.0 };
        for value in map {
            *value = (*value - low) * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paint_rng::Seed;

    #[test]
    fn a_map_spans_zero_to_one_and_neighbours_are_alike() {
        let side = 64;
        let map = plasma(side, 2.0, &mut Seed(1).derive("plasma", &[]));
        let low = map.iter().copied().fold(f32::INFINITY, f32::min);
        let high = map.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        assert_eq!((low, high), (0.0, 1.0));
        let difference = |offset: usize| -> f32 {
            (0..map.len()).map(|i| (map[i] - map[(i + offset) % map.len()]).abs()).sum::<f32>()
                / map.len() as f32
        };
        assert!(
            difference(1) * 3.0 < difference(side / 2),
            "{} {}",
            difference(1),
            difference(side / 2)
        );
    }

    #[test]
    fn a_faster_decay_is_smoother() {
        let roughness = |decay: f32| -> f32 {
            let map = plasma(128, decay, &mut Seed(2).derive("plasma", &[]));
            map.windows(2).map(|pair| (pair[0] - pair[1]).abs()).sum()
        };
        assert!(roughness(3.0) < roughness(1.4));
    }
}
