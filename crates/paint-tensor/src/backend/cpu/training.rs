//! What training asks of the CPU.

use super::parallel::for_rows;
use super::step::stepped;
use super::storage::{build, host};
use super::{Cpu, compose};
use crate::Result;
use crate::backend::{Compose, Step, SteppedSlot, Storage, Training};

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
            // Not `min`: gradients that hold a NaN must not look clipped.
            (Some(clip), Some(norm)) if clip / (norm + 1e-6) > 1.0 => 1.0,
            (Some(clip), Some(norm)) => clip / (norm + 1e-6),
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
