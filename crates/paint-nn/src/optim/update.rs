//! The update rules. Symbols as in Kingma & Ba: `θ` (here `w`), gradient `g`, moments `m` and `v`, `β₁`, `β₂`, `ε`.

use paint_tensor::{AdamStep, Tensor};

use crate::error::Result;

/// Stochastic gradient descent as PyTorch defines it, dampening 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sgd {
    /// Factor of the velocity; 0 is plain descent.
    pub momentum: f32,
    /// Looks one step ahead along the velocity.
    pub nesterov: bool,
    /// Added to the gradient as `weight_decay · w`.
    pub weight_decay: f32,
}

/// Adam's constants; the default is PyTorch's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// `β₁`.
    pub beta1: f32,
    /// `β₂`.
    pub beta2: f32,
    /// `ε`, outside the root.
    pub eps: f32,
    /// Added to the gradient by [`Rule::Adam`], taken off the weight by [`Rule::AdamW`].
    pub weight_decay: f32,
}

impl Default for Adam {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 }
    }
}

/// How a gradient becomes an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// With momentum, Nesterov's or none.
    Sgd(Sgd),
    /// Weight decay inside the gradient.
    Adam(Adam),
    /// Weight decay beside the gradient.
    AdamW(Adam),
    /// Adam made anew for each step, as PAINT's released code does: the moments of a first step cancel, and the
    /// update is `−lr · g / (|g| + ε)`, whatever the betas.
    FreshAdam {
        /// `ε`.
        eps: f32,
    },
}

/// What a rule remembers of one parameter.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) step: u64,
    /// Velocity of SGD, `m` of Adam.
    pub(super) first: Option<Tensor>,
    /// `v` of Adam.
    pub(super) second: Option<Tensor>,
}

impl Rule {
    /// The new value of `w`, in one fused pass.
    pub(super) fn update(
        &self,
        w: &Tensor,
        g: &Tensor,
        lr: f32,
        memory: &mut Memory,
    ) -> Result<Tensor> {
        memory.step += 1;
        match self {
            Self::Sgd(Sgd { momentum, nesterov, weight_decay }) => {
                let velocity = memory.first.take();
                let (next, velocity) =
                    w.sgd_step(g, velocity.as_ref(), lr, *momentum, *weight_decay, *nesterov)?;
                memory.first = (*momentum != 0.0).then_some(velocity);
                Ok(next)
            }
            Self::Adam(adam) => adam.update(w, g, lr, Decay::Coupled, memory),
            Self::AdamW(adam) => adam.update(w, g, lr, Decay::Decoupled, memory),
            Self::FreshAdam { eps } => {
                let adam = Adam { eps: *eps, ..Adam::default() };
                adam.update(w, g, lr, Decay::Coupled, &mut Memory { step: 1, ..Memory::default() })
            }
        }
    }
}

/// Where weight decay acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decay {
    /// On the gradient.
    Coupled,
    /// On the weight.
    Decoupled,
}

impl Adam {
    fn update(
        &self,
        w: &Tensor,
        g: &Tensor,
        lr: f32,
        decay: Decay,
        memory: &mut Memory,
    ) -> Result<Tensor> {
        let moments = memory.first.take().zip(memory.second.take());
        let step = AdamStep {
            lr,
            beta1: self.beta1,
            beta2: self.beta2,
            eps: self.eps,
            weight_decay: self.weight_decay,
            decoupled: decay == Decay::Decoupled,
            t: u32::try_from(memory.step).unwrap_or(u32::MAX),
        };
        let (next, m, v) = w.adam_step(g, moments.as_ref().map(|(m, v)| (m, v)), step)?;
        (memory.first, memory.second) = (Some(m), Some(v));
        Ok(next)
    }
}
