//! Convolutions of each channel by itself.

use super::Storage;
use crate::Result;

/// Images `[batch, H, W, channels]` by kernels `[side, side, channels]`, padded so that the size stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depthwise {
    pub(crate) batch: usize,
    /// `[H, W]`.
    pub(crate) size: [usize; 2],
    pub(crate) channels: usize,
    /// Odd.
    pub(crate) side: usize,
    /// Whether kernels are turned by half a circle, which gives the gradient of the images.
    pub(crate) turned: bool,
}

impl Depthwise {
    /// Elements of the images.
    pub(crate) fn len(&self) -> usize {
        self.batch * self.size[0] * self.size[1] * self.channels
    }

    /// Elements of the kernels.
    pub(crate) fn weights(&self) -> usize {
        self.side * self.side * self.channels
    }
}

/// The kernels of a device for them.
pub(crate) trait DepthwiseKernels {
    fn depthwise(&self, problem: &Depthwise, x: &Storage, weight: &Storage) -> Result<Storage>;
    /// The gradient of the kernels.
    fn depthwise_backward_weight(
        &self,
        problem: &Depthwise,
        x: &Storage,
        grad: &Storage,
    ) -> Result<Storage>;
}
