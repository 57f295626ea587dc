//! The check of a batch that every method makes before it touches the model. A method of your own calls [`check`]
//! first.

use paint_nn::backbone::Spec;
use paint_tensor::{Fetch, Tensor};

use crate::{Error, Result};

/// Refuses a batch that is empty, has another size than the model takes, holds NaN or infinity, or cannot lie in
/// [0, 1]. Returns `B`.
///
/// The mean is enough: it is not finite if any pixel is not, and far above 1 if pixels run from 0 to 255. The check
/// reads one number from the device.
pub fn check(images: &Tensor, spec: &Spec) -> Result<usize> {
    Check::begin(images, spec)?.finish()
}

/// [`check`] in two parts, between which a caller can queue what changes nothing.
pub(crate) struct Check {
    b: usize,
    mean: Tensor,
    /// The mean on its way to the host.
    coming: Option<Fetch>,
}

impl Check {
    /// Refuses the size, and queues the mean.
    pub(crate) fn begin(images: &Tensor, spec: &Spec) -> Result<Self> {
        let [height, width] = spec.image_size;
        let &[b, 3, h, w] = images.shape() else {
            return refuse("a batch [B, 3, H, W]".into(), format!("shape {:?}", images.shape()));
        };
        if b == 0 || [h, w] != spec.image_size {
            return refuse(
                format!("at least one image [3, {height}, {width}]"),
                format!("shape {:?}", images.shape()),
            );
        }
        let mean = images.detach().mean_all()?;
        Ok(Self { b, coming: mean.fetch()?, mean })
    }

    /// Refuses the pixels.
    pub(crate) fn finish(self) -> Result<usize> {
        let mean = match self.coming {
            Some(coming) => coming.finish()?[0],
            None => self.mean.item()?,
        };
        if !mean.is_finite() {
            return refuse("finite pixels".into(), "NaN or infinity".into());
        }
        if !(0.0..=1.0).contains(&mean) {
            return refuse("pixels in [0, 1]".into(), format!("a mean of {mean}"));
        }
        Ok(self.b)
    }
}

fn refuse<T>(expected: String, found: String) -> Result<T> {
    Err(Error::Images { expected, found })
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::Backbone as _;
    use paint_nn::backbone::vit::{Vit, VitConfig};
    use paint_nn::backbone::{BuildOptions, Weights};
    use paint_rng::Seed;
    use paint_tensor::Device;

    use super::*;

    fn message(shape: [usize; 4], pixels: &[f32]) -> Option<String> {
        let config = VitConfig { image_size: [4, 8], depth: 1, ..VitConfig::tiny_patch4_32() };
        let options = BuildOptions::new(&Device::cpu());
        let vit = Vit::build("test", config, Weights::Random(Seed(0)), &options).unwrap();
        let data = pixels.iter().copied().cycle().take(shape.iter().product()).collect();
        let images = Tensor::from_vec(data, shape, &Device::cpu()).unwrap();
        check(&images, vit.spec()).err().map(|error| error.to_string())
    }

    #[test]
    fn a_batch_of_the_models_size_in_range_passes() {
        assert_eq!(message([2, 3, 4, 8], &[0.0, 1.0]), None);
    }

    #[test]
    fn nan_and_infinite_pixels_are_refused() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let found = message([1, 3, 4, 8], &[0.5, 0.5, bad, 0.5, 0.5]).unwrap();
            assert_eq!(found, "images: expected finite pixels, found NaN or infinity");
        }
    }

    #[test]
    fn bytes_in_place_of_fractions_are_refused() {
        let found = message([1, 3, 4, 8], &[117.0]).unwrap();
        assert_eq!(found, "images: expected pixels in [0, 1], found a mean of 117");
    }

    #[test]
    fn another_size_or_no_image_is_refused_with_both_shapes() {
        let found = message([1, 3, 8, 4], &[0.5]).unwrap();
        assert_eq!(
            found,
            "images: expected at least one image [3, 4, 8], found shape [1, 3, 8, 4]"
        );
        assert!(message([0, 3, 4, 8], &[0.5]).is_some());
        assert!(message([1, 1, 4, 8], &[0.5]).is_some());
    }
}
