//! Launches of the convolutions of each channel by itself.

use super::Cuda;
use super::param::structures;
use crate::Result;
use crate::backend::{self, Backend as _, DepthwiseKernels, Storage};

/// Partial sums of a weight gradient, each over every so many rows of images.
const PARTS: usize = 64;

structures! {
    /// Images with channels last, and the side of their kernels.
    struct Depthwise {
        rows: i32,
        height: i32,
        width: i32,
        channels: i32,
        side: i32,
        turned: i32,
    }
}

impl Depthwise {
    fn new(problem: &backend::Depthwise) -> Self {
        let backend::Depthwise { batch, size: [height, width], channels, side, turned } = *problem;
        let [rows, height, width, channels, side] =
            [batch * height, height, width, channels, side].map(|size| size as i32);
        Self { rows, height, width, channels, side, turned: i32::from(turned) }
    }
}

impl DepthwiseKernels for Cuda {
    fn depthwise(
        &self,
        problem: &backend::Depthwise,
        x: &Storage,
        weight: &Storage,
    ) -> Result<Storage> {
        let (x, weight) = (self.widened(x)?, self.widened(weight)?);
        self.map(&self.kernels.planes.depthwise, problem.len(), |out, n| {
            (Depthwise::new(problem), x.read(), weight.read(), out, n)
        })
    }

    fn depthwise_backward_weight(
        &self,
        problem: &backend::Depthwise,
        x: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        let (x, grad) = (self.widened(x)?, self.widened(grad)?);
        let parts = PARTS.min(problem.batch * problem.size[0]);
        let kernel = &self.kernels.planes.depthwise_backward_weight;
        let sums = self.map(kernel, parts * problem.weights(), |out, n| {
            (Depthwise::new(problem), x.read(), grad.read(), out, parts as i32, n)
        })?;
        self.sum(&sums, [1, parts, problem.weights()])
    }
}
