//! The step of one parameter.

use super::elementwise::{self, fill};
use super::storage::{build, build2, host};
use crate::backend::{Step, StepRule, StepSlot, SteppedSlot, Storage, Unary};

/// A parameter after its step, with its gradient multiplied by `factor`.
pub(super) fn stepped(step: &Step, slot: &StepSlot, factor: f32) -> SteppedSlot {
    let grad = if factor == 1.0 {
        slot.grad.clone()
    } else {
        build(slot.grad.len(), |out| elementwise::unary(Unary::Scale(factor), host(slot.grad), out))
    };
    let slot = StepSlot { grad: &grad, ..*slot };
    let (param, first, second) = match step.rule {
        StepRule::Sgd { momentum, nesterov } => sgd(&slot, momentum, nesterov),
        StepRule::Adam { .. } => adam(&slot, step.rule),
    };
    let d = step.average_decay;
    let average = slot.average.map(|average| {
        let (average, param) = (host(average), host(&param));
        build(param.len(), |out| {
            fill(
                out,
                [average, param],
                #[inline(always)]
                move |[average, param]| d * average + (1.0 - d) * param,
            );
        })
    });
    SteppedSlot { param, first, second, average }
}

/// Parameter and velocity. The first velocity is the gradient itself, as in PyTorch.
fn sgd(slot: &StepSlot, momentum: f32, nesterov: bool) -> (Storage, Storage, Option<Storage>) {
    let (param, grad) = (host(slot.param), host(slot.grad));
    let (lr, decay) = (slot.lr, slot.weight_decay);
    let (param, velocity) = build2([param.len(); 2], |new_param, velocity| {
        remembered(
            velocity,
            slot.first,
            [grad, param],
            #[inline(always)]
            move |velocity, grad, param| momentum * velocity + (grad + decay * param),
        );
        fill(
            new_param,
            [param, grad, velocity],
            #[inline(always)]
            move |[param, grad, velocity]| {
                let ahead = momentum * velocity + (grad + decay * param);
                param - lr * if nesterov { ahead } else { velocity }
            },
        );
    });
    (param, velocity, None)
}

/// `out = f(old, grad, param)`, element by element; before the first step `old` is zero.
fn remembered(
    out: &mut [f32],
    old: Option<&Storage>,
    [grad, param]: [&[f32]; 2],
    f: impl Fn(f32, f32, f32) -> f32 + Copy + Sync,
) {
    match old {
        Some(old) => fill(
            out,
            [host(old), grad, param],
            #[inline(always)]
            move |[old, grad, param]| f(old, grad, param),
        ),
        None => fill(
            out,
            [grad, param],
            #[inline(always)]
            move |[grad, param]| f(0.0, grad, param),
        ),
    }
}

/// Parameter, first and second moment.
fn adam(slot: &StepSlot, rule: StepRule) -> (Storage, Storage, Option<Storage>) {
    let StepRule::Adam { beta1, beta2, eps, t, decoupled } = rule else {
        unreachable!("called for Adam alone")
    };
    let (param, grad, decay) = (host(slot.param), host(slot.grad), slot.weight_decay);
    let inside = if decoupled { 0.0 } else { decay };
    let keep = if decoupled { 1.0 - slot.lr * decay } else { 1.0 };
    let (m, v) = build2([param.len(); 2], |m, v| {
        let operands = [grad, param];
        remembered(
            m,
            slot.first,
            operands,
            #[inline(always)]
            move |m, grad, param| beta1 * m + (1.0 - beta1) * (grad + inside * param),
        );
        remembered(
            v,
            slot.second,
            operands,
            #[inline(always)]
            move |v, grad, param| {
                let grad = grad + inside * param;
                beta2 * v + (1.0 - beta2) * (grad * grad)
            },
        );
    });
    let correction = |beta: f32| 1.0 - f64::from(beta).powi(t as i32);
    let rate = (f64::from(slot.lr) / correction(beta1)) as f32;
    let root = (1.0 / correction(beta2).sqrt()) as f32;
    let param = build(param.len(), |out| {
        fill(
            out,
            [param, host(&m), host(&v)],
            #[inline(always)]
            move |[param, m, v]| param * keep - rate * m / (v.sqrt() * root + eps),
        );
    });
    (param, m, Some(v))
}
