//! What happens to an image between its file and the model: resize, then crop.
//!
//! Normalisation is not here: it belongs to the model's checkpoint and happens inside the model.

use serde::{Deserialize, Serialize};

use super::{Filter, Image};
use crate::Result;

/// One operation on an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// The short side to `size`, proportions kept.
    ResizeShortSide {
        /// The new short side.
        size: usize,
        /// The interpolation.
        filter: Filter,
    },
    /// The smallest size that covers `width` x `height`, proportions kept: one side fits, the other is as long or
    /// longer.
    ResizeToCover {
        /// The least number of pixels per row.
        width: usize,
        /// The least number of rows.
        height: usize,
        /// The interpolation.
        filter: Filter,
    },
    /// To exactly this size.
    Resize {
        /// Pixels per row.
        width: usize,
        /// Rows.
        height: usize,
        /// The interpolation.
        filter: Filter,
    },
    /// The middle.
    CentreCrop {
        /// Pixels per row.
        width: usize,
        /// Rows.
        height: usize,
    },
}

/// A sequence of operations; the default leaves an image as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Preprocess(pub Vec<Step>);

impl Preprocess {
    /// The short side to `resize`, then the `crop` x `crop` middle: (256, 224) is what ImageNet's validation images
    /// get, and what the ImageNet-C protocol of the field (224 to 256 to 224, bilinear) does to images that are 224 x
    /// 224 already.
    pub fn resize_and_crop(resize: usize, crop: usize, filter: Filter) -> Self {
        Self(vec![
            Step::ResizeShortSide { size: resize, filter },
            Step::CentreCrop { width: crop, height: crop },
        ])
    }

    /// Resized to cover `resize` with its proportions kept, then the middle of size `crop`, both `[height, width]`.
    /// For squares this is [`Self::resize_and_crop`].
    pub fn cover_and_crop([height, width]: [usize; 2], crop: [usize; 2], filter: Filter) -> Self {
        if height == width && crop[0] == crop[1] {
            return Self::resize_and_crop(height, crop[0], filter);
        }
        let cover = Step::ResizeToCover { width, height, filter };
        Self(vec![cover, Step::CentreCrop { width: crop[1], height: crop[0] }])
    }

    /// To exactly `width` x `height`, whatever the proportions.
    pub fn exact(width: usize, height: usize, filter: Filter) -> Self {
        Self(vec![Step::Resize { width, height, filter }])
    }

    /// The image after all steps.
    pub fn apply(&self, image: Image) -> Result<Image> {
        self.0.iter().try_fold(image, |image, step| match *step {
            Step::ResizeShortSide { size, filter } => image.resize_short_side(size, filter),
            Step::ResizeToCover { width, height, filter } => {
                image.resize_to_cover(width, height, filter)
            }
            Step::Resize { width, height, filter }
                if (width, height) != (image.width(), image.height()) =>
            {
                image.resize(width, height, filter)
            }
            Step::CentreCrop { width, height }
                if (width, height) != (image.width(), image.height()) =>
            {
                image.centre_crop(width, height)
            }
            Step::Resize { .. } | Step::CentreCrop { .. } => Ok(image),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_in_order() {
        let image = Image::new(30, 20, (0..1800).map(|i| (i % 251) as u8).collect()).unwrap();
        let expected = image.resize(36, 24, Filter::Bilinear).unwrap().centre_crop(22, 22).unwrap();
        assert_eq!(
            Preprocess::resize_and_crop(24, 22, Filter::Bilinear).apply(image.clone()).unwrap(),
            expected
        );
        assert_eq!(Preprocess::default().apply(image.clone()).unwrap(), image);
        // 30 x 20 to cover 24 x 18 is 27 x 18: the rows decide.
        let cover = image.resize(27, 18, Filter::Bilinear).unwrap().centre_crop(20, 16).unwrap();
        let steps = Preprocess::cover_and_crop([18, 24], [16, 20], Filter::Bilinear);
        assert_eq!(steps.apply(image.clone()).unwrap(), cover);
        let exact = Preprocess::exact(7, 9, Filter::Bicubic).apply(image.clone()).unwrap();
        assert_eq!(exact, image.resize(7, 9, Filter::Bicubic).unwrap());
    }
}
