//! Where the windows of a stage lie.
//!
//! As timm has it: a window is no larger than the grid, and where it spans the grid nothing is shifted. Pixels are
//! shifted, then padded with zeros below and to the right up to whole windows (Hugging Face and torchvision pad first,
//! which is the same where grids are multiples of the windows). Shifted windows hold pixels that are no neighbours in
//! the image; a mask of -100 keeps those apart.

use paint_tensor::{Device, Tensor, Windows};

use crate::backbone::pixels::Grid;
use crate::error::Result;

/// Added to the scores of pixels that are no neighbours in the image.
const APART: f32 = -100.0;

/// The side of the windows on each axis: as configured, or that of a smaller grid.
pub(super) fn window_of(grid: Grid, window_size: usize) -> Grid {
    grid.map(|side| side.min(window_size))
}

/// How many relative positions the pixels of a window have.
pub(super) fn relative_positions([rows, columns]: Grid) -> usize {
    (2 * rows - 1) * (2 * columns - 1)
}

/// The grid of a stage and its windows.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    /// Of the pixels that enter a block.
    pub(super) grid: Grid,
    /// With the padding up to whole windows.
    padded: Grid,
    /// For each two pixels of a window the row of the table that holds their bias, `[n · n]`.
    pub(super) relative: Vec<usize>,
    /// Pixels of a window, `n`.
    pub(super) len: usize,
    plain: Windows,
    shifted: Windows,
}

impl Stage {
    /// Windows over `grid`. Their size follows from `nominal`, the grid that timm counts on: where a grid of odd size
    /// was halved, it leaves out what the padding added.
    pub(super) fn new(
        grid: Grid,
        nominal: Grid,
        window_size: usize,
        device: &Device,
    ) -> Result<Self> {
        let window = window_of(nominal, window_size);
        let padded = [0, 1].map(|axis| grid[axis].next_multiple_of(window[axis]));
        let shift =
            [0, 1].map(|axis| if nominal[axis] <= window[axis] { 0 } else { window_size / 2 });
        let of = |shift: Grid| windows(grid, padded, window, shift, device);
        Ok(Self {
            grid,
            padded,
            relative: relative(window),
            len: window[0] * window[1],
            plain: of([0, 0])?,
            shifted: of(shift)?,
        })
    }

    /// The windows of block `within` of the stage: every second one shifts.
    pub(super) fn windows(&self, within: usize) -> &Windows {
        if within.is_multiple_of(2) { &self.plain } else { &self.shifted }
    }

    /// Zeros up to whole windows, `[B, H·W, C]` → `[B, H'·W', C]`.
    pub(super) fn padded(&self, x: &Tensor) -> Result<Tensor> {
        if self.grid == self.padded {
            return Ok(x.clone());
        }
        pad(x, self.grid, self.padded)
    }

    /// The pixels without the padding, `[B, H'·W', C]` → `[B, H·W, C]`.
    pub(super) fn cropped(&self, x: &Tensor) -> Result<Tensor> {
        let ([h, w], [rows, columns]) = (self.grid, self.padded);
        if self.grid == self.padded {
            return Ok(x.clone());
        }
        let [b, _, c] = x.dims3("pixels")?;
        let x = x.reshape([b, rows, columns, c])?.slice(1, 0, h)?.slice(2, 0, w)?;
        Ok(x.reshape([b, h * w, c])?)
    }
}

/// Zeros below and to the right, `[B, H·W, C]` → `[B, H'·W', C]`.
pub(super) fn pad(x: &Tensor, [h, w]: Grid, [rows, columns]: Grid) -> Result<Tensor> {
    let [b, _, c] = x.dims3("pixels")?;
    let mut x = x.reshape([b, h, w, c])?;
    if columns > w {
        let zeros = Tensor::zeros([b, h, columns - w, c], x.device())?;
        x = Tensor::concat(&[&x, &zeros], 2)?;
    }
    if rows > h {
        let zeros = Tensor::zeros([b, rows - h, columns, c], x.device())?;
        x = Tensor::concat(&[&x, &zeros], 1)?;
    }
    Ok(x.reshape([b, rows * columns, c])?)
}

/// `(Δrow, Δcolumn)` of each two pixels as a row of the table.
fn relative([rows, columns]: Grid) -> Vec<usize> {
    let pixels = || (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
    pixels()
        .flat_map(|(i, j)| {
            pixels().map(move |(k, l)| (i + rows - 1 - k) * (2 * columns - 1) + j + columns - 1 - l)
        })
        .collect()
}

/// Windows over the padded grid after its pixels were shifted up and to the left.
fn windows(
    grid: Grid,
    padded: Grid,
    window: Grid,
    shift: Grid,
    device: &Device,
) -> Result<Windows> {
    // Where the pixel comes from that the shift put at `at`; padding stays where it is.
    let source = |axis: usize, at: usize| {
        if at < grid[axis] { (at + shift[axis]) % grid[axis] } else { at }
    };
    // Which part of the shifted grid it lies in: parts that met through the shift are apart.
    let region = |axis: usize, at: usize| {
        let edge = |distance: usize| usize::from(at + distance >= padded[axis]);
        edge(window[axis]) + edge(shift[axis])
    };
    let counts = [0, 1].map(|axis| padded[axis] / window[axis]);
    let mut places = Vec::with_capacity(padded[0] * padded[1]);
    let mut regions = Vec::with_capacity(places.capacity());
    for first in (0..counts[0]).map(|row| row * window[0]) {
        for left in (0..counts[1]).map(|column| column * window[1]) {
            for (i, j) in (0..window[0]).flat_map(|i| (0..window[1]).map(move |j| (i, j))) {
                let (row, column) = (first + i, left + j);
                places.push(source(0, row) * padded[1] + source(1, column));
                regions.push(3 * region(0, row) + region(1, column));
            }
        }
    }
    let n = window[0] * window[1];
    let mask = (shift != [0, 0]).then(|| {
        let apart = |a: &usize, b: &usize| if a == b { 0.0 } else { APART };
        let of = |window: &[usize]| -> Vec<f32> {
            window.iter().flat_map(|a| window.iter().map(move |b| apart(a, b))).collect()
        };
        let values = regions.chunks_exact(n).flat_map(of).collect();
        Tensor::from_vec(values, [counts[0] * counts[1], n, n], device)
    });
    Ok(Windows::new(places, n, mask.transpose()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_positions_count_rows_and_columns_of_the_table() {
        // Pixels (0,0), (0,1), (1,0), (1,1); the table has rows of Δcolumn = -1, 0, 1.
        let expected = [4, 3, 1, 0, 5, 4, 2, 1, 7, 6, 4, 3, 8, 7, 5, 4];
        assert_eq!(relative([2, 2]), expected);
        assert_eq!(relative([1, 2]), [1, 0, 2, 1]);
        assert_eq!(relative_positions([2, 2]), 9);
    }

    #[test]
    fn a_window_is_no_larger_than_the_grid_and_then_nothing_is_shifted() {
        let stage = Stage::new([3, 9], [3, 9], 4, &Device::cpu()).unwrap();
        assert_eq!((stage.len, stage.padded), (12, [3, 12]));
        let whole = Stage::new([4, 3], [4, 3], 4, &Device::cpu()).unwrap();
        let rows = |windows: &Windows| format!("{windows:?}");
        assert_eq!(rows(whole.windows(0)), rows(whole.windows(1)));
        assert_ne!(rows(stage.windows(0)), rows(stage.windows(1)));
    }
}
