//! Training on the processor, in terms of the kernels that adaptation uses.

use super::compose;
use super::parallel::for_rows;
use super::storage::{build, host};
use super::update::updated;
use super::{Cpu, elementwise};
use crate::backend::{
    Compose, Step, StepRule, StepSlot, SteppedSlot, Storage, Training, Unary, Update,
};
use crate::{AdamStep, Result};

impl Training for Cpu {
    fn compose(&self, compose: &Compose) -> Result<Storage> {
        let len = compose.draws.len() * 3 * compose.size[0] * compose.size[1];
        Ok(build(len, |out| compose::compose(compose, out)))
    }

    fn step(&self, step: &Step) -> Result<(Vec<SteppedSlot>, Option<Storage>)> {
        let norm = step.clip.map(|_| {
            let squares = step.slots.iter().flat_map(|slot| host(slot.grad));
            squares.map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt() as f32
        });
        let factor = match (step.clip, norm) {
            (Some(clip), Some(norm)) => (clip / (norm + 1e-6)).min(1.0),
            _ => 1.0,
        };
        let slots = step.slots.iter().map(|slot| stepped(step, slot, factor)).collect();
        Ok((slots, norm.map(|norm| build(1, |out| out[0] = norm))))
    }

    fn add_scaled(
        &self,
        residual: Option<&Storage>,
        x: &Storage,
        factors: &Storage,
    ) -> Result<Storage> {
        let (x, factors) = (host(x), host(factors));
        let width = x.len() / factors.len().max(1);
        let residual = residual.map(host);
        Ok(build(x.len(), |out| {
            for_rows(out, width, |first, out| {
                for (row, out) in out.chunks_exact_mut(width).enumerate() {
                    let (at, f) = ((first + row) * width, factors[first + row]);
                    let x = &x[at..at + width];
                    match residual {
                        Some(residual) => {
                            let residual = &residual[at..at + width];
                            let terms = residual.iter().zip(x);
                            out.iter_mut().zip(terms).for_each(|(out, (r, x))| *out = r + f * x);
                        }
                        None => out.iter_mut().zip(x).for_each(|(out, x)| *out = f * x),
                    }
                }
            });
        }))
    }
}

fn stepped(step: &Step, slot: &StepSlot, factor: f32) -> SteppedSlot {
    let grad = if factor < 1.0 {
        build(slot.grad.len(), |out| elementwise::unary(Unary::Scale(factor), host(slot.grad), out))
    } else {
        slot.grad.clone()
    };
    let StepSlot { lr, weight_decay, .. } = *slot;
    let update = match step.rule {
        StepRule::Sgd { momentum, nesterov } => {
            Update::Sgd { lr, momentum, weight_decay, nesterov, velocity: slot.first }
        }
        StepRule::AdamW { beta1, beta2, eps, t } => {
            let decoupled = true;
            let step = AdamStep { lr, beta1, beta2, eps, weight_decay, decoupled, t };
            Update::Adam { step, moments: slot.first.zip(slot.second) }
        }
    };
    let mut new = updated(slot.param, &grad, &update).into_iter();
    let mut next = || new.next().expect("an update returns the parameter and its state");
    let (param, first) = (next(), next());
    let second = matches!(step.rule, StepRule::AdamW { .. }).then(next);
    let d = step.average_decay;
    let average = slot.average.map(|average| {
        let (average, param) = (host(average), host(&param));
        build(param.len(), |out| {
            elementwise::fill_with(out, |i| d * average[i] + (1.0 - d) * param[i]);
        })
    });
    SteppedSlot { param, first, second, average }
}
