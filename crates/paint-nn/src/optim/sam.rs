//! Sharpness-aware minimisation (Foret et al. 2021), as SAR uses it: climb, take the gradient there, descend.

use paint_tensor::{Gradients, Tensor};

use super::Optimizer;
use crate::error::{Error, Result};
use crate::params::{ParamId, Params};

/// An optimizer that steps with the gradient found at the top of a climb of length `ρ`.
#[derive(Debug, Clone)]
pub struct Sam {
    rho: f32,
    inner: Optimizer,
    /// The values before the climb, one list per parameter set.
    origin: Option<Vec<Vec<(ParamId, Tensor)>>>,
}

impl Sam {
    /// Wraps `inner`, which makes the step itself; `rho` is the length of the climb.
    pub fn new(rho: f32, inner: Optimizer) -> Self {
        Self { rho, inner, origin: None }
    }

    /// The wrapped optimizer.
    pub fn inner(&self) -> &Optimizer {
        &self.inner
    }

    /// `θ ← θ + ρ g / (‖g‖₂ + 1e-12)`, with the norm over the gradients of all `sets`. Without any gradient the
    /// parameters stay.
    pub fn ascend(&mut self, sets: &mut [&mut Params], gradients: &Gradients) -> Result<()> {
        let trainable = self.inner.trainable();
        let reached = |params: &Params| -> Vec<(ParamId, Tensor)> {
            let mut reached = params.gradients(gradients);
            reached.retain(|(id, _)| trainable.covers(params.param(*id).role()));
            reached
        };
        let climbs: Vec<Vec<(ParamId, Tensor)>> =
            sets.iter().map(|params| reached(params)).collect();
        let mut square: Option<Tensor> = None;
        for (_, g) in climbs.iter().flatten() {
            let own = g.mul(g)?.sum_all()?;
            square = Some(match square {
                Some(square) => square.add(&own)?,
                None => own,
            });
        }
        let square = square.map_or(Ok(0.0), |square| square.item())?;
        let scale = (f64::from(self.rho) / (f64::from(square).sqrt() + 1e-12)) as f32;
        let mut origin = Vec::with_capacity(sets.len());
        for (params, climb) in sets.iter_mut().zip(climbs) {
            let mut begin = Vec::with_capacity(climb.len());
            for (id, g) in climb {
                let w = params[id].detach();
                params.set(id, &w.add(&g.scale(scale)?)?)?;
                begin.push((id, w));
            }
            origin.push(begin);
        }
        self.origin = Some(origin);
        Ok(())
    }

    /// Restores the values from before the climb of the same `sets`, and steps there with the gradients of the top.
    pub fn descend(&mut self, sets: &mut [&mut Params], gradients: &Gradients) -> Result<()> {
        let origin =
            self.origin.take().filter(|origin| origin.len() == sets.len()).ok_or_else(|| {
                Error::Argument {
                    what: "SAM step",
                    expected: "a climb of the same parameters before each descent".into(),
                    got: "none".into(),
                }
            })?;
        for (params, begin) in sets.iter_mut().zip(origin) {
            let reached = params.gradients(gradients);
            for (id, w) in &begin {
                params.set(*id, w)?;
            }
            self.inner.apply(params, &reached)?;
        }
        Ok(())
    }
}
