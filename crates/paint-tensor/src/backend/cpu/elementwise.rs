//! Functions of single elements.

use super::math;
use super::parallel::{for_rows, vectorized};
use crate::backend::{Binary, Unary};

/// `a + w (b - a)`.
pub(super) fn lerp(a: &[f32], b: &[f32], w: f32, out: &mut [f32]) {
    zip(
        out,
        [a, b],
        #[inline(always)]
        |a, b| a + w * (b - a),
    );
}

/// `out[i] = f(i)` over all threads.
pub(super) fn fill_with(out: &mut [f32], f: impl Fn(usize) -> f32 + Sync) {
    for_rows(out, 1, |first, out| {
        vectorized(
            #[inline(always)]
            || {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = f(first + i);
                }
            },
        );
    });
}

/// `out[i] = f(x[i])` in vector code over all threads.
fn map(out: &mut [f32], x: &[f32], f: impl Fn(f32) -> f32 + Sync) {
    for_rows(out, 1, |first, out| {
        let x = &x[first..first + out.len()];
        vectorized(
            #[inline(always)]
            || map_part(out, x, &f),
        );
    });
}

#[inline(always)]
fn map_part(out: &mut [f32], x: &[f32], f: impl Fn(f32) -> f32) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = f(*x));
}

/// `out[i] = f(a[i], b[i])` in vector code over all threads.
fn zip(out: &mut [f32], [a, b]: [&[f32]; 2], f: impl Fn(f32, f32) -> f32 + Sync) {
    for_rows(out, 1, |first, out| {
        let [a, b] = [a, b].map(|x| &x[first..first + out.len()]);
        vectorized(
            #[inline(always)]
            || zip_part(out, [a, b], &f),
        );
    });
}

#[inline(always)]
fn zip_part(out: &mut [f32], [a, b]: [&[f32]; 2], f: impl Fn(f32, f32) -> f32) {
    out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = f(*a, *b));
}

macro_rules! apply {
    ($out:ident, $x:ident, $f:expr) => {
        map(
            $out,
            $x,
            #[inline(always)]
            |x| $f(x),
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
    zip(
        out,
        [grad, y],
        #[inline(always)]
        |grad, y| grad * step(y),
    );
}

#[inline(always)]
fn combine(op: Binary, a: f32, b: f32) -> f32 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
    }
}

pub(super) fn binary(op: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
    zip(
        out,
        [a, b],
        #[inline(always)]
        |a, b| combine(op, a, b),
    );
}

/// Both operands are read through their strides inside the shape of the output; the last axis is the inner loop.
pub(super) fn binary_broadcast(
    op: Binary,
    shape: &[usize],
    (a, a_strides): (&[f32], &[usize]),
    (b, b_strides): (&[f32], &[usize]),
    out: &mut [f32],
) {
    let rank = shape.len();
    let Some(&width) = shape.last() else {
        out[0] = combine(op, a[0], b[0]);
        return;
    };
    let steps = (a_strides[rank - 1], b_strides[rank - 1]);
    let offset = |mut row: usize, strides: &[usize]| {
        let mut offset = 0;
        for axis in (0..rank - 1).rev() {
            offset += row % shape[axis] * strides[axis];
            row /= shape[axis];
        }
        offset
    };
    for_rows(out, width, |first, out| {
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let (a, b) =
                (&a[offset(first + row, a_strides)..], &b[offset(first + row, b_strides)..]);
            vectorized(
                #[inline(always)]
                || broadcast_row(op, out, [a, b], steps),
            );
        }
    });
}

/// One row; a step is 0 where the operand is the same for all elements of it, else 1.
#[inline(always)]
fn broadcast_row(op: Binary, out: &mut [f32], [a, b]: [&[f32]; 2], steps: (usize, usize)) {
    let (len, x, y) = (out.len(), a[0], b[0]);
    match steps {
        (0, 0) => out.fill(combine(op, x, y)),
        (0, _) => map_part(out, &b[..len], |b| combine(op, x, b)),
        (_, 0) => map_part(out, &a[..len], |a| combine(op, a, y)),
        _ => zip_part(out, [&a[..len], &b[..len]], |a, b| combine(op, a, b)),
    }
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
