//! Source images for the methods that look at them before they are deployed.

use paint_nn::backbone::Spec;
use paint_tensor::Tensor;

use crate::{Result, images};

/// Images of the source domain, given once, when a method is built.
#[derive(Debug, Clone, Copy)]
pub struct SourceData<'a> {
    /// `[M, 3, H, W]` in [0, 1], in the order they are to be used, where the model lives.
    pub images: &'a Tensor,
    /// `M` labels as columns of the logits, for the methods that need them.
    pub labels: Option<&'a [usize]>,
}

impl<'a> SourceData<'a> {
    /// The images, after a look at their size and range.
    pub(crate) fn images(&self, spec: &Spec) -> Result<&'a Tensor> {
        images::check(self.images, spec)?;
        Ok(self.images)
    }
}
