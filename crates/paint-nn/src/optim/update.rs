//! The update rules. Symbols as in Kingma & Ba: `θ` (here `w`), gradient `g`, moments `m` and `v`, `β₁`, `β₂`, `ε`.

use paint_tensor::{StepRule, SteppedParam, Tensor};

/// Stochastic gradient descent as PyTorch defines it, dampening 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sgd {
    /// Factor of the velocity; 0 is plain gradient descent.
    pub momentum: f32,
    /// Nesterov momentum: looks one step ahead along the velocity.
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

/// An update rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// SGD with momentum, Nesterov momentum or none.
    Sgd(Sgd),
    /// Adam, with weight decay added to the gradient.
    Adam(Adam),
    /// AdamW, with weight decay applied to the weight.
    AdamW(Adam),
    /// Adam created afresh for each step, as PAINT's released code does: the moments of a first step cancel, and the
    /// update is `−lr · g / (|g| + ε)`, whatever the betas.
    FreshAdam {
        /// `ε`.
        eps: f32,
    },
}

/// The state of a rule for one parameter.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) step: u64,
    /// Velocity of SGD, `m` of Adam.
    pub(super) first: Option<Tensor>,
    /// `v` of Adam.
    pub(super) second: Option<Tensor>,
}

impl Rule {
    /// The rule of step `t`, counted from 1, as the engine takes it; and the weight decay.
    pub(super) fn step(&self, t: u64) -> (StepRule, f32) {
        let adam = |Adam { beta1, beta2, eps, weight_decay }: Adam, t: u64, decoupled| {
            let t = u32::try_from(t).unwrap_or(u32::MAX);
            (StepRule::Adam { beta1, beta2, eps, t, decoupled }, weight_decay)
        };
        match *self {
            Self::Sgd(Sgd { momentum, nesterov, weight_decay }) => {
                (StepRule::Sgd { momentum, nesterov }, weight_decay)
            }
            Self::Adam(constants) => adam(constants, t, false),
            Self::AdamW(constants) => adam(constants, t, true),
            Self::FreshAdam { eps } => adam(Adam { eps, ..Adam::default() }, 1, false),
        }
    }

    /// Whether the rule keeps a first and a second moment.
    pub(super) fn moments(&self) -> [bool; 2] {
        match self {
            Self::Sgd(sgd) => [sgd.momentum != 0.0, false],
            Self::FreshAdam { .. } => [false, false],
            Self::Adam(_) | Self::AdamW(_) => [true, true],
        }
    }

    /// The state of a parameter after step `step`.
    pub(super) fn memory(&self, step: u64, stepped: &SteppedParam) -> Memory {
        let [first, second] = self.moments();
        Memory {
            step,
            first: first.then(|| stepped.first.clone()),
            second: stepped.second.clone().filter(|_| second),
        }
    }
}
