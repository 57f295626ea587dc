//! Steps of the optimizers, one parameter at a time.

use super::elementwise::fill_with;
use super::storage::{build, build2, host};
use crate::AdamStep;
use crate::backend::{Storage, Update};

/// The new parameter, and the state that the next step takes.
pub(super) fn updated(param: &Storage, grad: &Storage, update: &Update) -> Vec<Storage> {
    let (len, param, grad) = (param.len(), host(param), host(grad));
    match *update {
        Update::Sgd { lr, momentum, weight_decay, nesterov, velocity } => {
            let step = SgdStep { lr, momentum, weight_decay, nesterov };
            let velocity = velocity.map(host);
            let (param, velocity) =
                build2([len, len], |p, v| sgd(step, param, grad, velocity, [p, v]));
            vec![param, velocity]
        }
        Update::Adam { step, moments } => {
            let moments = moments.map(|(m, v)| (host(m), host(v)));
            let mut rest = None;
            let param = build(len, |p| {
                rest = Some(build2([len, len], |m, v| {
                    adam(step, param, grad, moments, [p, m, v]);
                }));
            });
            let (m, v) = rest.expect("set while the parameter was written");
            vec![param, m, v]
        }
    }
}

/// The settings of a step of stochastic gradient descent.
#[derive(Clone, Copy)]
struct SgdStep {
    lr: f32,
    momentum: f32,
    weight_decay: f32,
    nesterov: bool,
}

/// Parameter and velocity after one step. The first velocity is the gradient itself, as in PyTorch.
fn sgd(step: SgdStep, param: &[f32], grad: &[f32], velocity: Option<&[f32]>, out: [&mut [f32]; 2]) {
    let [new_param, new_velocity] = out;
    let decayed = |i: usize| grad[i] + step.weight_decay * param[i];
    fill_with(
        new_velocity,
        #[inline(always)]
        |i| velocity.map_or(0.0, |velocity| step.momentum * velocity[i]) + decayed(i),
    );
    let velocity = &*new_velocity;
    fill_with(
        new_param,
        #[inline(always)]
        |i| {
            let direction =
                if step.nesterov { decayed(i) + step.momentum * velocity[i] } else { velocity[i] };
            param[i] - step.lr * direction
        },
    );
}

/// Parameter, first and second moment after one step.
fn adam(
    step: AdamStep,
    param: &[f32],
    grad: &[f32],
    moments: Option<(&[f32], &[f32])>,
    out: [&mut [f32]; 3],
) {
    let [new_param, new_m, new_v] = out;
    let AdamStep { lr, beta1, beta2, eps, weight_decay, decoupled, t } = step;
    let decay = if decoupled { 0.0 } else { weight_decay };
    let keep = if decoupled { 1.0 - lr * weight_decay } else { 1.0 };
    let gradient = |i: usize| grad[i] + decay * param[i];
    fill_with(
        new_m,
        #[inline(always)]
        |i| moments.map_or(0.0, |(m, _)| beta1 * m[i]) + (1.0 - beta1) * gradient(i),
    );
    fill_with(
        new_v,
        #[inline(always)]
        |i| {
            moments.map_or(0.0, |(_, v)| beta2 * v[i]) + (1.0 - beta2) * (gradient(i) * gradient(i))
        },
    );
    let correction1 = 1.0 - f64::from(beta1).powi(t as i32);
    let correction2 = 1.0 - f64::from(beta2).powi(t as i32);
    let (rate, root) = ((f64::from(lr) / correction1) as f32, (1.0 / correction2.sqrt()) as f32);
    let (m, v) = (&*new_m, &*new_v);
    fill_with(
        new_param,
        #[inline(always)]
        |i| param[i] * keep - rate * m[i] / (v[i].sqrt() * root + eps),
    );
}
