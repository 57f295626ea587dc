//! Maxima and means over windows of planes.

use super::parallel::for_rows;
use super::parallel::for_rows2;
use crate::backend::Window;

/// The largest element of each window, and its place in the plane. Padding never wins: every window has a pixel.
pub(super) fn max(window: &Window, x: &[f32], out: &mut [f32], place: &mut [f32]) {
    let (source, target) = (window.input_len(), window.output_len());
    for_rows2((out, target), (place, target), |first, out, place| {
        for (i, (out, place)) in
            out.chunks_exact_mut(target).zip(place.chunks_exact_mut(target)).enumerate()
        {
            let x = &x[(first + i) * source..(first + i + 1) * source];
            for (index, (out, place)) in out.iter_mut().zip(place).enumerate() {
                *out = f32::NEG_INFINITY;
                let [rows, columns] = window.covers(index);
                *place = (rows.start * window.input[1] + columns.start) as f32;
                for y in rows {
                    for at in y * window.input[1] + columns.start..y * window.input[1] + columns.end
                    {
                        // NaN passes on, as in PyTorch.
                        if x[at] > *out || x[at].is_nan() {
                            (*out, *place) = (x[at], at as f32);
                        }
                    }
                }
            }
        }
    });
}

/// Sends each gradient to the place its maximum came from.
pub(super) fn max_backward(window: &Window, place: &[f32], grad: &[f32], dx: &mut [f32]) {
    let (source, target) = (window.input_len(), window.output_len());
    for_rows(dx, source, |first, dx| {
        dx.fill(0.0);
        for (i, dx) in dx.chunks_exact_mut(source).enumerate() {
            let plane = (first + i) * target..(first + i + 1) * target;
            for (&at, grad) in place[plane.clone()].iter().zip(&grad[plane]) {
                dx[at as usize] += grad;
            }
        }
    });
}

/// The mean of each window.
pub(super) fn mean(window: &Window, x: &[f32], out: &mut [f32]) {
    let (source, target) = (window.input_len(), window.output_len());
    let factor = 1.0 / (window.side * window.side) as f32;
    for_rows(out, target, |first, out| {
        for (i, out) in out.chunks_exact_mut(target).enumerate() {
            let x = &x[(first + i) * source..(first + i + 1) * source];
            for (index, out) in out.iter_mut().enumerate() {
                let [rows, columns] = window.covers(index);
                let row = |y: usize| {
                    x[y * window.input[1] + columns.start..][..columns.len()].iter().sum::<f32>()
                };
                *out = rows.map(row).sum::<f32>() * factor;
            }
        }
    });
}

/// Spreads each gradient over its window.
pub(super) fn mean_backward(window: &Window, grad: &[f32], dx: &mut [f32]) {
    let (source, target) = (window.input_len(), window.output_len());
    let factor = 1.0 / (window.side * window.side) as f32;
    for_rows(dx, source, |first, dx| {
        dx.fill(0.0);
        for (i, dx) in dx.chunks_exact_mut(source).enumerate() {
            let grad = &grad[(first + i) * target..(first + i + 1) * target];
            for (index, grad) in grad.iter().enumerate() {
                let [rows, columns] = window.covers(index);
                for y in rows {
                    let row = &mut dx[y * window.input[1] + columns.start..][..columns.len()];
                    row.iter_mut().for_each(|dx| *dx += grad * factor);
                }
            }
        }
    });
}
