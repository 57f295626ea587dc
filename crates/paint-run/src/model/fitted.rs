//! Images at the size of a model: resize, crop, and a dataset that does both.

use std::sync::Arc;

use paint_data::image::{Filter, Preprocess, Step};
use paint_data::{Dataset, Domain, Image, Info, Sample};
use paint_nn::checkpoint::{self, CropMode, Interpolation};

use crate::config::Resize;
use crate::{Error, Result};

/// What brings an image to the input of a network: resized to `input_size / crop_pct`, with its proportions
/// ([`CropMode::Center`]) or without ([`CropMode::Squash`]), then the middle cut out.
///
/// As in timm, except that timm 1.0 resizes to a rectangle with bilinear weights whatever interpolation the weights
/// ask for.
pub fn image_steps(preprocess: &checkpoint::Preprocess) -> Result<Preprocess> {
    let [height, width] = preprocess.input_size;
    let filter = match preprocess.interpolation {
        Interpolation::Bilinear => Filter::Bilinear,
        Interpolation::Bicubic => Filter::Bicubic,
        other => {
            let name = other.name();
            return Err(Error::config(format!(
                "model.interpolation: images are resized with bilinear or bicubic, the weights ask for {name}"
            )));
        }
    };
    let grown = |size: usize| (size as f32 / preprocess.crop_pct).floor() as usize;
    let [grown_height, grown_width] = [grown(height), grown(width)];
    Ok(match preprocess.crop_mode {
        CropMode::Center => {
            Preprocess::cover_and_crop([grown_height, grown_width], [height, width], filter)
        }
        CropMode::Squash => {
            let mut steps = Preprocess::exact(grown_width, grown_height, filter);
            if (grown_width, grown_height) != (width, height) {
                steps.0.push(Step::CentreCrop { width, height });
            }
            steps
        }
    })
}

/// A dataset whose images all have the model's size: those that have it already are left alone (unless
/// [`Resize::Always`]), the others go through the preprocessing of the weights.
pub struct Fitted {
    inner: Arc<dyn Dataset>,
    fit: ImageFit,
}

/// What brings single images to a model's size, in the same way.
#[derive(Debug, Clone)]
pub struct ImageFit {
    size: [usize; 2],
    steps: Preprocess,
    resize: Resize,
}

impl ImageFit {
    /// For a model with this preprocessing.
    pub fn new(preprocess: &checkpoint::Preprocess, resize: Resize) -> Result<Self> {
        Ok(Self { size: preprocess.input_size, steps: image_steps(preprocess)?, resize })
    }

    /// The image at the model's size.
    pub fn apply(&self, image: Image) -> paint_data::Result<Image> {
        if self.resize == Resize::IfNeeded && [image.height(), image.width()] == self.size {
            return Ok(image);
        }
        self.steps.apply(image)
    }
}

impl Fitted {
    /// `inner` as a model with this preprocessing takes it.
    pub fn new(
        inner: Arc<dyn Dataset>,
        preprocess: &checkpoint::Preprocess,
        resize: Resize,
    ) -> Result<Self> {
        Ok(Self { inner, fit: ImageFit::new(preprocess, resize)? })
    }
}

impl Dataset for Fitted {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn domains(&self) -> &[Domain] {
        self.inner.domains()
    }

    fn len(&self, domain: usize) -> usize {
        self.inner.len(domain)
    }

    fn label(&self, domain: usize, index: usize) -> Option<usize> {
        self.inner.label(domain, index)
    }

    fn sample(&self, domain: usize, index: usize) -> paint_data::Result<Sample> {
        let Sample { image, label } = self.inner.sample(domain, index)?;
        Ok(Sample { image: self.fit.apply(image)?, label })
    }

    fn content(&self, domain: usize, index: usize) -> paint_data::Result<Vec<u8>> {
        self.inner.content(domain, index)
    }

    fn notes(&self) -> Vec<String> {
        self.inner.notes()
    }
}

#[cfg(test)]
mod tests {
    use paint_data::dataset::Memory;

    use super::*;

    fn preprocess(
        input_size: [usize; 2],
        crop_pct: f32,
        crop_mode: CropMode,
    ) -> checkpoint::Preprocess {
        let interpolation = Interpolation::Bicubic;
        let (mean, std) = ([0.5; 3], [0.5; 3]);
        checkpoint::Preprocess { mean, std, input_size, crop_pct, crop_mode, interpolation }
    }

    #[test]
    fn the_crop_fraction_decides_how_large_an_image_is_made() {
        // 224 / 0.9 = 248.9, rounded down as timm does.
        let steps = image_steps(&preprocess([224, 224], 0.9, CropMode::Center)).unwrap();
        assert_eq!(steps, Preprocess::resize_and_crop(248, 224, Filter::Bicubic));
        let steps = image_steps(&preprocess([32, 48], 1.0, CropMode::Center)).unwrap();
        assert_eq!(steps, Preprocess::cover_and_crop([32, 48], [32, 48], Filter::Bicubic));
        let steps = image_steps(&preprocess([32, 48], 1.0, CropMode::Squash)).unwrap();
        assert_eq!(steps, Preprocess::exact(48, 32, Filter::Bicubic));
        // timm squashes to 32 / 0.8 x 48 / 0.8 and cuts the middle out.
        let steps = image_steps(&preprocess([32, 48], 0.8, CropMode::Squash)).unwrap();
        let Preprocess(mut expected) = Preprocess::exact(60, 40, Filter::Bicubic);
        expected.push(Step::CentreCrop { width: 48, height: 32 });
        assert_eq!(steps, Preprocess(expected));
    }

    #[test]
    fn a_square_image_keeps_its_proportions_in_a_rectangular_input() {
        // A white disc of radius 20 in the middle of 64 x 64; 32 x 48 shows its middle rows at 48 / 64 of the size.
        let pixels = (0..64 * 64).flat_map(|i| {
            let (x, y) = (f64::from(i % 64) - 31.5, f64::from(i / 64) - 31.5);
            [if x * x + y * y < 400.0 { 255 } else { 0 }; 3]
        });
        let disc = Image::new(64, 64, pixels.collect()).unwrap();
        let steps = image_steps(&preprocess([32, 48], 1.0, CropMode::Center)).unwrap();
        let seen = steps.apply(disc).unwrap();
        assert_eq!((seen.width(), seen.height()), (48, 32));
        let is_white = |x: usize, y: usize| seen.pixels()[3 * (y * 48 + x)] > 127;
        let across = (0..48).filter(|&x| is_white(x, 16)).count();
        let down = (0..32).filter(|&y| is_white(24, y)).count();
        assert_eq!((across, down), (30, 30));
    }

    #[test]
    fn an_image_of_the_right_size_is_left_alone_and_others_are_brought_to_it() {
        let image = |width: usize, height: usize| Sample {
            image: Image::new(width, height, (0..width * height * 3).map(|i| i as u8).collect())
                .unwrap(),
            label: None,
        };
        let info = Info { name: "memory", num_classes: 1, class_indices: None, class_names: None };
        let samples = vec![image(6, 6), image(20, 12)];
        let inner = Arc::new(Memory::new(info, vec![(Domain::clean(), samples.clone())]).unwrap());
        let fit = |resize| {
            let preprocess = preprocess([6, 6], 0.75, CropMode::Center);
            Fitted::new(Arc::<Memory>::clone(&inner), &preprocess, resize).unwrap()
        };
        let fitted = fit(Resize::IfNeeded);
        assert_eq!(fitted.sample(0, 0).unwrap(), samples[0]);
        let always = fit(Resize::Always).sample(0, 0).unwrap();
        assert_ne!(always, samples[0]);
        assert_eq!((always.image.width(), always.image.height()), (6, 6));
        let other = fitted.sample(0, 1).unwrap().image;
        assert_eq!((other.width(), other.height()), (6, 6));
    }
}
