//! The step of one parameter.

use super::elementwise::{self, fill_with};
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
        build(param.len(), |out| fill_with(out, |i| d * average[i] + (1.0 - d) * param[i]))
    });
    SteppedSlot { param, first, second, average }
}

/// Parameter and velocity. The first velocity is the gradient itself, as in PyTorch.
fn sgd(slot: &StepSlot, momentum: f32, nesterov: bool) -> (Storage, Storage, Option<Storage>) {
    let (param, grad, lr) = (host(slot.param), host(slot.grad), slot.lr);
    let decayed = |i: usize| grad[i] + slot.weight_decay * param[i];
    let old = slot.first.map(host);
    let (param, velocity) = build2([param.len(); 2], |new_param, velocity| {
        fill_with(
            velocity,
            #[inline(always)]
            |i| old.map_or(0.0, |old| momentum * old[i]) + decayed(i),
        );
        let velocity = &*velocity;
        fill_with(
            new_param,
            #[inline(always)]
            |i| {
                let ahead = decayed(i) + momentum * velocity[i];
                param[i] - lr * if nesterov { ahead } else { velocity[i] }
            },
        );
    });
    (param, velocity, None)
}

/// Parameter, first and second moment.
fn adam(slot: &StepSlot, rule: StepRule) -> (Storage, Storage, Option<Storage>) {
    let StepRule::Adam { beta1, beta2, eps, t, decoupled } = rule else {
        unreachable!("called for Adam alone")
    };
    let (param, grad, decay) = (host(slot.param), host(slot.grad), slot.weight_decay);
    let inside = if decoupled { 0.0 } else { decay };
    let keep = if decoupled { 1.0 - slot.lr * decay } else { 1.0 };
    let gradient = |i: usize| grad[i] + inside * param[i];
    let old = (slot.first.map(host), slot.second.map(host));
    let (m, v) = build2([param.len(); 2], |m, v| {
        fill_with(
            m,
            #[inline(always)]
            |i| old.0.map_or(0.0, |m| beta1 * m[i]) + (1.0 - beta1) * gradient(i),
        );
        fill_with(
            v,
            #[inline(always)]
            |i| old.1.map_or(0.0, |v| beta2 * v[i]) + (1.0 - beta2) * (gradient(i) * gradient(i)),
        );
    });
    let correction = |beta: f32| 1.0 - f64::from(beta).powi(t as i32);
    let rate = (f64::from(slot.lr) / correction(beta1)) as f32;
    let root = (1.0 / correction(beta2).sqrt()) as f32;
    let param = build(param.len(), |out| {
        let (m, v) = (host(&m), host(&v));
        fill_with(
            out,
            #[inline(always)]
            |i| param[i] * keep - rate * m[i] / (v[i].sqrt() * root + eps),
        );
    });
    (param, m, Some(v))
}
