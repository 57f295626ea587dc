//! What training needs from a device: one step for all parameters, batches made of stored images, scaled branches.

use super::Storage;
use crate::Result;
use crate::op::images::{Draw, Edge};

/// Stored images on a device, and the batch to make of them.
#[derive(Clone, Copy)]
pub(crate) struct Compose<'a> {
    /// `[N, 3, H, W]` bytes, four in the bits of each element.
    pub(crate) bytes: &'a Storage,
    /// `[H, W]`.
    pub(crate) stored: [usize; 2],
    /// `[H', W']` of the batch.
    pub(crate) size: [usize; 2],
    pub(crate) edge: Edge,
    pub(crate) draws: &'a [Draw],
}

/// How a gradient becomes an update, the same for all parameters of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StepRule {
    /// `v' = mu v + g; p' = p - lr (g + mu v' if nesterov, else v')`, weight decay inside the gradient.
    Sgd {
        /// `mu`.
        momentum: f32,
        /// Evaluate the update one step ahead along the velocity.
        nesterov: bool,
    },
    /// Adam with bias correction.
    Adam {
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Added to the root of the second moment.
        eps: f32,
        /// The number of this step, from 1.
        t: u32,
        /// Apply weight decay to the weight (`AdamW`), not to the gradient.
        decoupled: bool,
    },
}

/// One parameter of a step.
#[derive(Clone, Copy)]
pub(crate) struct StepSlot<'a> {
    pub(crate) param: &'a Storage,
    pub(crate) grad: &'a Storage,
    pub(crate) first: Option<&'a Storage>,
    pub(crate) second: Option<&'a Storage>,
    /// The moving average of the parameter, if one is kept.
    pub(crate) average: Option<&'a Storage>,
    pub(crate) lr: f32,
    pub(crate) weight_decay: f32,
}

/// One step of all parameters together.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) rule: StepRule,
    /// The largest norm that all gradients may have together.
    pub(crate) clip: Option<f32>,
    /// `d` of `average' = d average + (1 - d) param'`.
    pub(crate) average_decay: f32,
    pub(crate) slots: &'a [StepSlot<'a>],
}

/// A parameter after a step.
pub(crate) struct SteppedSlot {
    pub(crate) param: Storage,
    pub(crate) first: Storage,
    /// Adam only.
    pub(crate) second: Option<Storage>,
    pub(crate) average: Option<Storage>,
}

/// The kernels of training. Nothing here waits for the device.
pub(crate) trait Training {
    /// `[B, 3, H', W']` in `[0, 1]`, one image for each draw.
    fn compose(&self, compose: &Compose) -> Result<Storage>;
    /// Every parameter after the step and, where gradients are clipped, the norm they had together.
    fn step(&self, step: &Step) -> Result<(Vec<SteppedSlot>, Option<Storage>)>;
    /// `residual + f_b x` (without a residual: `f_b x`), where `factors` has one `f_b` for each of equal parts of `x`.
    fn add_scaled(
        &self,
        residual: Option<&Storage>,
        x: &Storage,
        factors: &Storage,
    ) -> Result<Storage>;
}
