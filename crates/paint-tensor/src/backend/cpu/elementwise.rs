//! Functions of single elements.

use std::ops::{Add, Div, Mul, Sub};

use super::math;
use super::parallel::{for_rows, vectorized};
use crate::backend::{Binary, Unary};

/// `out[i] = f([a[i], b[i], ..])` in vector code over all threads. What `f` captures is moved into it: a number behind a
/// reference would be read again after every store, and the loop would be scalar.
pub(super) fn fill<const N: usize>(
    out: &mut [f32],
    operands: [&[f32]; N],
    f: impl Fn([f32; N]) -> f32 + Copy + Sync,
) {
    for_rows(out, 1, |first, out| {
        let operands = operands.map(|x| &x[first..]);
        vectorized(
            #[inline(always)]
            move || fill_part(out, operands, f),
        );
    });
}

#[inline(always)]
fn fill_part<const N: usize>(out: &mut [f32], operands: [&[f32]; N], f: impl Fn([f32; N]) -> f32) {
    let operands = operands.map(|x| &x[..out.len()]);
    for i in 0..out.len() {
        out[i] = f(std::array::from_fn(|k| operands[k][i]));
    }
}

/// `a + w (b - a)`.
pub(super) fn lerp(a: &[f32], b: &[f32], w: f32, out: &mut [f32]) {
    fill(
        out,
        [a, b],
        #[inline(always)]
        move |[a, b]| a + w * (b - a),
    );
}

macro_rules! apply {
    ($out:ident, $x:ident, $f:expr) => {
        fill(
            $out,
            [$x],
            #[inline(always)]
            move |[x]| $f(x),
        )
    };
}

pub(super) fn unary(op: Unary, x: &[f32], out: &mut [f32]) {
    match op {
        Unary::Exp => apply!(out, x, math::exp),
        Unary::Log => apply!(out, x, f32::ln),
        Unary::Sqrt => apply!(out, x, f32::sqrt),
        Unary::Relu => apply!(out, x, relu),
        Unary::Step => apply!(out, x, step),
        Unary::Gelu => apply!(out, x, |x| math::gelu(x).0),
        Unary::GeluSlope => apply!(out, x, |x| math::gelu(x).1),
        Unary::GeluTanh => apply!(out, x, |x| math::gelu_tanh(x).0),
        Unary::GeluTanhSlope => apply!(out, x, |x| math::gelu_tanh(x).1),
        Unary::Swish(rate) => apply!(out, x, |x| math::swish(x, rate).0),
        Unary::SwishSlope(rate) => apply!(out, x, |x| math::swish(x, rate).1),
        Unary::Scale(factor) => apply!(out, x, |x| x * factor),
        Unary::AddScalar(term) => apply!(out, x, |x| x + term),
    }
}

/// NaN passes this and [`step`], as in PyTorch: a model that diverged must not look healthy.
#[inline(always)]
pub(super) fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

/// The slope of [`relu`].
#[inline(always)]
pub(super) fn step(x: f32) -> f32 {
    if x.is_nan() { x } else { f32::from(x > 0.0) }
}

/// `grad step(y)`.
pub(super) fn relu_backward(y: &[f32], grad: &[f32], out: &mut [f32]) {
    fill(
        out,
        [grad, y],
        #[inline(always)]
        |[grad, y]| grad * step(y),
    );
}

/// `$body` with the function of an operation as `$f`: a choice inside of a loop would keep it scalar.
macro_rules! with_operation {
    ($op:expr, $f:ident => $body:expr) => {
        with_operation!($op, $f => $body, Add add, Sub sub, Mul mul, Div div)
    };
    ($op:expr, $f:ident => $body:expr, $($name:ident $function:ident),*) => {
        match $op {
            $(Binary::$name => {
                let $f = f32::$function;
                $body
            })*
        }
    };
}

pub(super) fn binary(op: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
    with_operation!(op, f => fill(
        out,
        [a, b],
        #[inline(always)]
        |[a, b]| f(a, b),
    ));
}

/// An axis of an output: its size, and the strides along it of both operands.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    strides: [usize; 2],
}

/// The axes of a broadcast, neighbours as one where both operands walk through them in even steps.
fn merged(shape: &[usize], strides: [&[usize]; 2]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::with_capacity(shape.len());
    let all =
        shape.iter().enumerate().map(|(i, &size)| Axis { size, strides: strides.map(|s| s[i]) });
    for axis in all.filter(|axis| axis.size != 1) {
        match axes.last_mut() {
            Some(last) if last.strides == axis.strides.map(|stride| stride * axis.size) => {
                *last = Axis { size: last.size * axis.size, ..axis };
            }
            _ => axes.push(axis),
        }
    }
    axes
}

/// Both operands are read through their strides inside the shape of the output; the last axis is the inner loop.
pub(super) fn binary_broadcast(
    op: Binary,
    shape: &[usize],
    (a, a_strides): (&[f32], &[usize]),
    (b, b_strides): (&[f32], &[usize]),
    out: &mut [f32],
) {
    let axes = merged(shape, [a_strides, b_strides]);
    let Some((inner, outer)) = axes.split_last() else {
        broadcast_row(op, out, [a, b], [0, 0]);
        return;
    };
    let offsets = |mut row: usize| {
        let mut offsets = [0; 2];
        for axis in outer.iter().rev() {
            let place = row % axis.size;
            offsets = [0, 1].map(|i| offsets[i] + place * axis.strides[i]);
            row /= axis.size;
        }
        offsets
    };
    let part = |[from_a, from_b]: [usize; 2], out: &mut [f32]| {
        let operands = [&a[from_a..], &b[from_b..]];
        vectorized(
            #[inline(always)]
            move || broadcast_row(op, out, operands, inner.strides),
        );
    };
    if outer.is_empty() {
        // One long row, cut so that every thread has a part.
        for_rows(out, 1, |first, out| part(inner.strides.map(|stride| stride * first), out));
    } else {
        for_rows(out, inner.size, |first, out| {
            for (row, out) in out.chunks_exact_mut(inner.size).enumerate() {
                part(offsets(first + row), out);
            }
        });
    }
}

/// One row; a step is 0 where the operand is the same for all elements of it, else 1.
#[inline(always)]
fn broadcast_row(op: Binary, out: &mut [f32], [a, b]: [&[f32]; 2], steps: [usize; 2]) {
    let (x, y) = (a[0], b[0]);
    with_operation!(op, f => match steps {
        [0, 0] => out.fill(f(x, y)),
        [0, _] => fill_part(out, [b], |[b]| f(x, b)),
        [_, 0] => fill_part(out, [a], |[a]| f(a, y)),
        _ => fill_part(out, [a, b], |[a, b]| f(a, b)),
    });
}

/// `a += b`.
pub(super) fn add_assign(a: &mut [f32], b: &[f32]) {
    for_rows(a, 1, |first, a| {
        let b = &b[first..first + a.len()];
        vectorized(
            #[inline(always)]
            || a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::broadcast_strides;

    /// Axes that become one, axes of one element in every place, and rows that are cut among threads.
    #[test]
    fn a_broadcast_reads_what_its_strides_say() {
        let shapes: [[&[usize]; 3]; 7] = [
            [&[3, 4, 5], &[3, 4, 5], &[3, 4, 5]],
            [&[1, 1, 1], &[2, 30_000, 1], &[2, 30_000, 1]],
            [&[2, 1, 1], &[2, 70, 1], &[2, 70, 1]],
            [&[1, 6, 1, 1], &[5, 6, 7, 8], &[5, 6, 7, 8]],
            [&[5, 1, 7, 1], &[1, 6, 1, 8], &[5, 6, 7, 8]],
            [&[4, 1], &[1, 9], &[4, 9]],
            [&[1, 1], &[1, 1], &[1, 1]],
        ];
        for [a_shape, b_shape, shape] in shapes {
            let values = |shape: &[usize], by: f32| -> Vec<f32> {
                (0..shape.iter().product()).map(|i: usize| (i as f32 + by) * 0.25).collect()
            };
            let (a, b) = (values(a_shape, 1.0), values(b_shape, 7.0));
            let strides = [a_shape, b_shape].map(|from| broadcast_strides(from, shape));
            let mut out = vec![0.0; shape.iter().product()];
            let operands = ((&a[..], &strides[0][..]), (&b[..], &strides[1][..]));
            binary_broadcast(Binary::Sub, shape, operands.0, operands.1, &mut out);
            for (i, found) in out.iter().enumerate() {
                let mut rest = i;
                let mut places = [0; 2];
                for axis in (0..shape.len()).rev() {
                    let at = rest % shape[axis];
                    places = [0, 1].map(|k| places[k] + at * strides[k][axis]);
                    rest /= shape[axis];
                }
                assert_eq!(*found, a[places[0]] - b[places[1]], "{a_shape:?} {b_shape:?} {i}");
            }
        }
    }
}
