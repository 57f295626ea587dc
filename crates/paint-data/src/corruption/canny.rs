//! Canny's edge detector on bytes, as OpenCV's with a 3x3 Sobel and the sum of absolute derivatives.

use super::grid::{Border, Grid};

/// `tan(22.5°)` with 15 fraction bits.
const TAN_22: i32 = 13573;

/// Marks the edge pixels: ridges of the gradient above `high`, and those above `low` connected to them.
pub(super) fn edges(data: &[u8], grid: Grid, low: i32, high: i32) -> Vec<bool> {
    let (width, height) = (grid.width, grid.height);
    let at = |y: isize, x: isize| {
        i32::from(data[Border::Nearest.index(y, height) * width + Border::Nearest.index(x, width)])
    };
    let mut gradient = Vec::with_capacity(grid.len());
    for y in 0..height as isize {
        for x in 0..width as isize {
            let column = |x: isize| at(y - 1, x) + 2 * at(y, x) + at(y + 1, x);
            let row = |y: isize| at(y, x - 1) + 2 * at(y, x) + at(y, x + 1);
            gradient.push((column(x + 1) - column(x - 1), row(y + 1) - row(y - 1)));
        }
    }
    // A frame of zeros around the magnitudes spares the edge cases.
    let stride = width + 2;
    let mut magnitude = vec![0; stride * (height + 2)];
    for (y, row) in gradient.chunks_exact(width).enumerate() {
        for (x, (dx, dy)) in row.iter().enumerate() {
            magnitude[(y + 1) * stride + x + 1] = dx.abs() + dy.abs();
        }
    }
    let mut weak = vec![false; magnitude.len()];
    let mut strong = Vec::new();
    for (i, &(dx, dy)) in gradient.iter().enumerate() {
        let place = (i / width + 1) * stride + i % width + 1;
        let m = magnitude[place];
        if m > low && is_ridge(&magnitude, place, stride, dx, dy) {
            weak[place] = true;
            if m > high {
                strong.push(place);
            }
        }
    }
    let mut edge = vec![false; magnitude.len()];
    while let Some(place) = strong.pop() {
        if std::mem::replace(&mut edge[place], true) {
            continue;
        }
        for line in [place - stride, place, place + stride] {
            strong.extend((line - 1..=line + 1).filter(|&near| weak[near] && !edge[near]));
        }
    }
    (0..grid.len()).map(|i| edge[(i / width + 1) * stride + i % width + 1]).collect()
}

/// Whether the magnitude is largest along the gradient's direction, rounded to a multiple of 45 degrees.
fn is_ridge(magnitude: &[i32], place: usize, stride: usize, dx: i32, dy: i32) -> bool {
    let m = magnitude[place];
    let (x, y) = (dx.abs(), dy.abs() << 15);
    let flat = x * TAN_22;
    if y < flat {
        m > magnitude[place - 1] && m >= magnitude[place + 1]
    } else if y > flat + (x << 16) {
        m > magnitude[place - stride] && m >= magnitude[place + stride]
    } else if (dx ^ dy) < 0 {
        m > magnitude[place - stride + 1] && m > magnitude[place + stride - 1]
    } else {
        m > magnitude[place - stride - 1] && m > magnitude[place + stride + 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vertical_step_gives_one_line_of_edges() {
        let grid = Grid { height: 5, width: 8, channels: 1 };
        let data: Vec<u8> = (0..grid.len()).map(|i| if i % 8 < 4 { 0 } else { 200 }).collect();
        let edges = edges(&data, grid, 50, 150);
        assert!(edges.iter().enumerate().all(|(i, &edge)| edge == (i % 8 == 3)), "{edges:?}");
    }

    #[test]
    fn a_weak_step_counts_only_where_it_continues_a_strong_one() {
        let grid = Grid { height: 12, width: 8, channels: 1 };
        let step = |rows_strong: usize| -> Vec<u8> {
            (0..grid.len())
                .map(|i| {
                    if i % 8 < 4 {
                        0
                    } else if i / 8 < rows_strong {
                        200
                    } else {
                        20
                    }
                })
                .collect()
        };
        assert!(!edges(&step(0), grid, 50, 150).contains(&true));
        assert!(edges(&step(3), grid, 50, 150)[10 * 8 + 3]);
    }
}
