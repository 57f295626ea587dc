//! The shape of interleaved pixel data, and what lies beyond its edges.

use crate::Image;

/// The shape of row-major data `[height, width, channels]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
}

impl Grid {
    /// The shape of an image.
    pub(super) fn of(image: &Image) -> Self {
        Self { height: image.height(), width: image.width(), channels: 3 }
    }

    /// The same with a single channel.
    pub(super) fn plane(self) -> Self {
        Self { channels: 1, ..self }
    }

    /// Values per row.
    pub(super) fn stride(self) -> usize {
        self.width * self.channels
    }

    /// Values in all.
    pub(super) fn len(self) -> usize {
        self.height * self.stride()
    }
}

/// How the pixels beyond an edge continue `a b c d`. The names are those of the libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Border {
    /// `a a | a b c d | d d`.
    Nearest,
    /// `b a | a b c d | d c`.
    Reflect,
    /// `c b | a b c d | c b`.
    Reflect101,
}

impl Border {
    /// The index in `0..n` that stands at `i`.
    #[inline]
    pub(super) fn index(self, i: isize, n: usize) -> usize {
        if i >= 0 && (i as usize) < n {
            return i as usize;
        }
        let last = n as isize - 1;
        let folded = match self {
            Self::Nearest => i.clamp(0, last),
            Self::Reflect => {
                let i = i.rem_euclid(2 * n as isize);
                i.min(2 * last + 1 - i)
            }
            Self::Reflect101 if n == 1 => 0,
            Self::Reflect101 => {
                let i = i.rem_euclid(2 * last);
                i.min(2 * last - i)
            }
        };
        folded as usize
    }

    /// Copies a row into `out` with `pad` pixels more on each side, converting each value.
    pub(super) fn pad_row<T: Copy, U>(
        self,
        row: &[T],
        channels: usize,
        pad: usize,
        out: &mut Vec<U>,
        convert: impl Fn(T) -> U,
    ) {
        let n = row.len() / channels;
        let pixel = |i: isize| {
            let at = self.index(i, n) * channels;
            &row[at..at + channels]
        };
        out.clear();
        out.extend((-(pad as isize)..0).flat_map(pixel).map(|&value| convert(value)));
        out.extend(row.iter().map(|&value| convert(value)));
        out.extend((n as isize..(n + pad) as isize).flat_map(pixel).map(|&value| convert(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_continue_a_row_as_their_names_say() {
        let line = |border: Border| (-5..9).map(|i| border.index(i, 4)).collect::<Vec<_>>();
        assert_eq!(line(Border::Nearest), [0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3]);
        assert_eq!(line(Border::Reflect), [3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0]);
        assert_eq!(line(Border::Reflect101), [1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2]);
    }

    #[test]
    fn a_single_pixel_continues_as_itself() {
        for border in [Border::Nearest, Border::Reflect, Border::Reflect101] {
            assert!((-7..8).all(|i| border.index(i, 1) == 0), "{border:?}");
        }
    }
}
