//! Enlarging subsampled components as libjpeg-turbo does: by a triangle filter where a side is halved, by repetition
//! elsewhere.

use super::plane::Plane;

/// How a component is brought to the size of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enlarge {
    /// It already has it.
    Not,
    /// Triangle filter across.
    Across,
    /// Triangle filter down.
    Down,
    /// Triangle filter in both directions.
    Both,
    /// Each sample this often across and down.
    Repeat(usize, usize),
}

impl Enlarge {
    /// For a component of this width, given its sampling factors and the largest, across and down; `None` if one does
    /// not divide the other.
    pub(crate) fn new(
        (h, max_h): (usize, usize),
        (v, max_v): (usize, usize),
        width: usize,
    ) -> Option<Self> {
        if max_h % h != 0 || max_v % v != 0 {
            return None;
        }
        Some(match (max_h / h, max_v / v) {
            (1, 1) => Self::Not,
            // Filters across need three samples.
            (2, 1) if width > 2 => Self::Across,
            (2, 2) if width > 2 => Self::Both,
            (1, 2) => Self::Down,
            (across, down) => Self::Repeat(across, down),
        })
    }

    /// One row at the size of the image. `line` and `sums` are working memory.
    #[inline(always)]
    pub(crate) fn row<'a>(
        self,
        plane: &'a Plane,
        row: usize,
        line: &'a mut Vec<u8>,
        sums: &mut Vec<u16>,
    ) -> &'a [u8] {
        let nearest = |down: usize| plane.row(row / down);
        let upper = row.is_multiple_of(2);
        // The neighbour on the other side of an enlarged row; at the edges the row itself.
        let second_nearest = || {
            let next = if upper { (row / 2).saturating_sub(1) } else { row / 2 + 1 };
            plane.row(next.min(plane.height - 1))
        };
        match self {
            Self::Not => return plane.row(row),
            Self::Across => {
                line.resize(2 * plane.width, 0);
                across(nearest(1), line);
            }
            Self::Down => {
                line.resize(plane.width, 0);
                let rounding = if upper { 1 } else { 2 };
                for ((out, &near), &far) in line.iter_mut().zip(nearest(2)).zip(second_nearest()) {
                    *out = ((3 * u16::from(near) + u16::from(far) + rounding) >> 2) as u8;
                }
            }
            Self::Both => {
                line.resize(2 * plane.width, 0);
                sums.resize(plane.width, 0);
                both(nearest(2), second_nearest(), sums, line);
            }
            Self::Repeat(times, down) => {
                line.resize(times * plane.width, 0);
                for (out, &value) in line.chunks_exact_mut(times).zip(nearest(down)) {
                    out.fill(value);
                }
            }
        }
        line
    }
}

/// Weights 3/4 and 1/4 across; roundings alternate.
#[inline(always)]
fn across(row: &[u8], out: &mut [u8]) {
    let out = out.as_chunks_mut::<2>().0;
    let mix = |this: u8, other: u8, rounding: u16| {
        ((3 * u16::from(this) + u16::from(other) + rounding) >> 2) as u8
    };
    let last = row.len() - 1;
    out[0] = [row[0], mix(row[0], row[1], 2)];
    for (out, window) in out[1..last].iter_mut().zip(row.windows(3)) {
        *out = [mix(window[1], window[0], 1), mix(window[1], window[2], 2)];
    }
    out[last] = [mix(row[last], row[last - 1], 1), row[last]];
}

/// Weights 3/4 and 1/4 in both directions, rounded once; `sums` are the vertical ones, four-fold.
#[inline(always)]
fn both(near: &[u8], far: &[u8], sums: &mut [u16], out: &mut [u8]) {
    let out = out.as_chunks_mut::<2>().0;
    for ((sum, &near), &far) in sums.iter_mut().zip(near).zip(far) {
        *sum = 3 * u16::from(near) + u16::from(far);
    }
    let mix = |this: u16, other: u16, rounding: u16| ((3 * this + other + rounding) >> 4) as u8;
    let last = sums.len() - 1;
    out[0] = [mix(sums[0], sums[0], 8), mix(sums[0], sums[1], 7)];
    for (out, window) in out[1..last].iter_mut().zip(sums.windows(3)) {
        *out = [mix(window[1], window[0], 8), mix(window[1], window[2], 7)];
    }
    out[last] = [mix(sums[last], sums[last - 1], 8), mix(sums[last], sums[last], 7)];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enlarged(enlarge: Enlarge, plane: &Plane, rows: usize) -> Vec<Vec<u8>> {
        let (mut line, mut sums) = (Vec::new(), Vec::new());
        (0..rows).map(|row| enlarge.row(plane, row, &mut line, &mut sums).to_vec()).collect()
    }

    #[test]
    fn the_filters_mix_three_to_one_with_alternating_rounding() {
        let mut plane = Plane::with_stride((3, 2), 3, 2);
        plane.data = vec![10, 20, 40, 110, 120, 140];
        assert_eq!(enlarged(Enlarge::Across, &plane, 1), [[10, 13, 17, 25, 35, 40]]);
        let down = [[10, 20, 40], [35, 45, 65], [85, 95, 115], [110, 120, 140]];
        assert_eq!(enlarged(Enlarge::Down, &plane, 4), down);
        let both = enlarged(Enlarge::Both, &plane, 2);
        assert_eq!(both, [[10, 12, 18, 25, 35, 40], [35, 37, 43, 50, 60, 65]]);
        let repeated = enlarged(Enlarge::Repeat(2, 1), &plane, 1);
        assert_eq!(repeated, [[10, 10, 20, 20, 40, 40]]);
    }

    #[test]
    fn narrow_components_and_other_ratios_are_repeated() {
        assert_eq!(Enlarge::new((1, 2), (1, 2), 2), Some(Enlarge::Repeat(2, 2)));
        assert_eq!(Enlarge::new((1, 2), (1, 2), 3), Some(Enlarge::Both));
        assert_eq!(Enlarge::new((1, 2), (2, 2), 3), Some(Enlarge::Across));
        assert_eq!(Enlarge::new((2, 2), (1, 2), 1), Some(Enlarge::Down));
        assert_eq!(Enlarge::new((1, 4), (1, 1), 9), Some(Enlarge::Repeat(4, 1)));
        assert_eq!(Enlarge::new((2, 3), (1, 1), 9), None);
    }
}
