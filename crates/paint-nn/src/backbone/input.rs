//! What happens to images on their way into a network: size checked, mean and standard deviation applied.

use paint_tensor::{Device, Tensor};

use super::{BuildOptions, Weights};
use crate::checkpoint::Preprocess;
use crate::error::{Error, Result};

/// The entrance of a network.
#[derive(Debug, Clone)]
pub(super) struct Input {
    /// `[1, 3, 1, 1]`.
    mean: Tensor,
    /// `[1, 3, 1, 1]`.
    std: Tensor,
    size: [usize; 2],
}

impl Input {
    pub(super) fn new(preprocess: &Preprocess, device: &Device) -> Result<Self> {
        let channels = |values: [f32; 3]| Tensor::from_vec(values.to_vec(), [1, 3, 1, 1], device);
        Ok(Self {
            mean: channels(preprocess.mean)?,
            std: channels(preprocess.std)?,
            size: preprocess.input_size,
        })
    }

    /// `(images - mean) / std`, `[B, 3, H, W]` of the network's size.
    pub(super) fn normalize(&self, images: &Tensor) -> Result<Tensor> {
        let [b, c, h, w] = images.dims4("images")?;
        let [height, width] = self.size;
        if [c, h, w] != [3, height, width] {
            return Err(Error::Shape {
                what: "images".into(),
                expected: vec![b, 3, height, width],
                got: images.shape().to_vec(),
            });
        }
        Ok(images.sub(&self.mean)?.div(&self.std)?)
    }
}

/// The preprocessing that was given; drawn weights have none of their own and take the middle of the range.
pub(super) fn preprocess(
    usual_size: [usize; 2],
    weights: &Weights,
    options: &BuildOptions,
) -> Result<Preprocess> {
    match (&options.preprocess, weights) {
        (Some(preprocess), _) => Ok(preprocess.clone()),
        (None, Weights::Random(_)) => Ok(Preprocess::usual(usual_size)),
        (None, Weights::Checkpoint(_)) => Err(Error::Argument {
            what: "preprocessing",
            expected: "mean and standard deviation of the weights".into(),
            got: "none".into(),
        }),
    }
}
