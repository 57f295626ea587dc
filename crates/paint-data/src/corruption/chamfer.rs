//! Distance to the nearest marked pixel by two sweeps of a 5x5 chamfer mask (Borgefors 1986), as OpenCV's.

use super::grid::Grid;

/// Steps to a neighbour, a diagonal one and a knight's move away.
const STEP: f32 = 1.0;
const DIAGONAL: f32 = 1.4;
const KNIGHT: f32 = 2.1969;

/// The eight moves `(dy, dx, length)` to pixels already visited by a sweep from the top left.
const MOVES: [(isize, isize, f32); 8] = [
    (0, -1, STEP),
    (-1, 0, STEP),
    (-1, -1, DIAGONAL),
    (-1, 1, DIAGONAL),
    (-1, -2, KNIGHT),
    (-1, 2, KNIGHT),
    (-2, -1, KNIGHT),
    (-2, 1, KNIGHT),
];

/// Distances, at most `limit`.
pub(super) fn distance(marked: &[bool], grid: Grid, limit: f32) -> Vec<f32> {
    // A frame of two pixels holds the mask at the edges.
    let stride = grid.width + 4;
    let mut far = vec![limit; stride * (grid.height + 4)];
    let places = |i: usize| (i / grid.width + 2) * stride + i % grid.width + 2;
    for (i, _) in marked.iter().enumerate().filter(|(_, marked)| **marked) {
        far[places(i)] = 0.0;
    }
    let mut sweep = |i: usize, sign: isize| {
        let place = places(i);
        let mut nearest = far[place];
        for (dy, dx, length) in MOVES {
            let from = place.wrapping_add_signed(sign * (dy * stride as isize + dx));
            nearest = nearest.min(far[from] + length);
        }
        far[place] = nearest;
    };
    for i in 0..marked.len() {
        sweep(i, 1);
    }
    for i in (0..marked.len()).rev() {
        sweep(i, -1);
    }
    (0..marked.len()).map(|i| far[places(i)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_from_one_pixel_follow_the_mask() {
        let grid = Grid { height: 7, width: 9, channels: 1 };
        let mut marked = vec![false; grid.len()];
        marked[3 * 9 + 4] = true;
        let out = distance(&marked, grid, 3.5);
        let at = |dy: usize, dx: usize| out[dy * 9 + dx];
        let cases = [
            (3, 4, 0.0),
            (3, 6, 2.0),
            (2, 5, 1.4),
            (1, 5, 2.1969),
            (5, 5, 2.1969),
            (4, 2, 2.1969),
            (0, 0, 3.5),
        ];
        for (y, x, expected) in cases {
            assert!((at(y, x) - expected).abs() < 1e-6, "({y}, {x}): {}", at(y, x));
        }
    }
}
