//! The images of a training: read once, kept on the device as bytes.
//!
//! Images that all have one size, of the shape of the network's input and no larger, stay as they are stored and are
//! stretched while a batch is made; others are brought to the input on the way in.

use std::collections::HashSet;

use paint_data::image::{Filter, Preprocess};
use paint_data::{Dataset, Image};
use paint_rng::Fnv;
use paint_tensor::{Device, Draw, Edge, Images, Tensor, View};

use crate::error::{Error, Result};

/// Labelled images on a device.
#[derive(Debug, Clone)]
pub struct LabelledImages {
    /// The pixels.
    pub images: Images,
    /// The class of each.
    pub labels: Vec<usize>,
    /// `C`.
    pub num_classes: usize,
    /// A hash of every pixel and label, in order, and of the size.
    pub fingerprint: u64,
    /// A hash of the pixels of each image.
    pub hashes: Vec<u64>,
}

impl LabelledImages {
    /// The images at these places, stretched to the size of a network's input and not augmented.
    pub fn stretched(&self, places: &[usize], size: [usize; 2]) -> Result<Tensor> {
        let stored = self.images.size();
        let draw = |&place: &usize| Draw::plain(View::stretched(place, stored, size));
        let draws: Vec<Draw> = places.iter().map(draw).collect();
        Ok(self.images.compose(&draws, size, Edge::Zeros)?)
    }

    /// Reads the first `limit` images (all, if none) of a dataset with one domain, for a network that takes `input`.
    pub fn read(
        dataset: &dyn Dataset,
        limit: Option<usize>,
        input: [usize; 2],
        device: &Device,
    ) -> Result<Self> {
        let read = Self::read_except(dataset, limit, input, device, &HashSet::new())?;
        read.ok_or_else(|| Error::Images {
            expected: "at least one image".to_owned(),
            found: "none".to_owned(),
        })
    }

    /// The same without images whose hash is among `known`; `None` if no other is there.
    pub fn read_except(
        dataset: &dyn Dataset,
        limit: Option<usize>,
        input: [usize; 2],
        device: &Device,
        known: &HashSet<u64>,
    ) -> Result<Option<Self>> {
        let refuse = |expected: &str, found: String| {
            Err(Error::Images { expected: expected.to_owned(), found })
        };
        if dataset.domains().len() != 1 {
            return refuse("one domain", format!("{} domains", dataset.domains().len()));
        }
        let count = limit.unwrap_or(usize::MAX).min(dataset.len(0));
        if count == 0 {
            return Ok(None);
        }
        let num_classes = dataset.info().num_classes;
        let size = |image: &Image| [image.height(), image.width()];
        let first = size(&dataset.sample(0, 0)?.image);
        // Only what has the shape of the input is stretched later as the deployed network's preprocessing would do it.
        let mut fits = first[0] <= input[0] && first[0] * input[1] == first[1] * input[0];
        let (mut bytes, mut labels) = (Vec::new(), Vec::with_capacity(count));
        let mut hashes = Vec::with_capacity(count);
        let mut index = 0;
        while index < count {
            let sample = dataset.sample(0, index)?;
            let Some(label) = sample.label.filter(|label| *label < num_classes) else {
                let expected = format!("a class below {num_classes} for every image");
                return refuse(&expected, format!("{:?} for image {index}", sample.label));
            };
            if fits && size(&sample.image) != first {
                // Only now known: begin again, with every image brought to the input.
                (fits, index) = (false, 0);
                bytes.clear();
                labels.clear();
                hashes.clear();
                continue;
            }
            index += 1;
            let image = if fits { sample.image } else { fitted(sample.image, input)? };
            let hash = Fnv::of(image.pixels().iter().map(|&byte| u64::from(byte)));
            if known.contains(&hash) {
                continue;
            }
            planes(&image, &mut bytes);
            labels.push(label);
            hashes.push(hash);
        }
        if labels.is_empty() {
            return Ok(None);
        }
        let size = if fits { first } else { input };
        let numbers = size.iter().chain(&labels).map(|&number| number as u64);
        let fingerprint = Fnv::of(bytes.iter().map(|&byte| u64::from(byte)).chain(numbers));
        let images = Images::new(&bytes, size, device)?;
        Ok(Some(Self { images, labels, num_classes, fingerprint, hashes }))
    }
}

/// The middle of the image, resized so that it fills the input.
fn fitted(image: Image, size: [usize; 2]) -> Result<Image> {
    Ok(Preprocess::cover_and_crop(size, size, Filter::Bilinear).apply(image)?)
}

/// Appends the three colour planes, one after the other.
fn planes(image: &Image, out: &mut Vec<u8>) {
    for channel in 0..3 {
        out.extend(image.pixels().iter().skip(channel).step_by(3));
    }
}

#[cfg(test)]
mod tests {
    use paint_data::dataset::Memory;
    use paint_data::{Domain, Info, Sample};
    use paint_tensor::{Draw, Edge, View};

    use super::*;

    fn dataset(sizes: &[[usize; 2]], label: Option<usize>) -> Memory {
        let info = Info { name: "memory", num_classes: 3, class_indices: None, class_names: None };
        let sample = |(i, &[height, width]): (usize, &[usize; 2])| {
            let pixels = (0..height * width * 3).map(|at| (7 * at + 50 * i) as u8).collect();
            Sample { image: Image::new(width, height, pixels).unwrap(), label }
        };
        let samples = sizes.iter().enumerate().map(sample).collect();
        Memory::new(info, vec![(Domain::clean(), samples)]).unwrap()
    }

    #[test]
    fn small_images_keep_their_size_and_pixels() {
        let data = dataset(&[[4, 5], [4, 5], [4, 5]], Some(2));
        let read = LabelledImages::read(&data, Some(2), [8, 10], &Device::cpu()).unwrap();
        assert_eq!((read.images.len(), read.images.size()), (2, [4, 5]));
        let draw = Draw::plain(View::new(1));
        let got = read.images.compose(&[draw], [4, 5], Edge::Zeros).unwrap().to_vec().unwrap();
        let mut expected = vec![0.0; 60];
        data.sample(0, 1).unwrap().image.to_chw(&mut expected);
        assert_eq!(got, expected);
    }

    #[test]
    fn large_or_unequal_images_are_brought_to_the_input() {
        for sizes in [&[[4, 4], [4, 6]][..], &[[20, 30]], &[[4, 6]]] {
            let read = LabelledImages::read(&dataset(sizes, Some(0)), None, [8, 8], &Device::cpu());
            let read = read.unwrap();
            assert_eq!((read.images.len(), read.images.size()), (sizes.len(), [8, 8]));
        }
    }

    #[test]
    fn an_image_without_a_class_is_refused_by_number() {
        let read = LabelledImages::read(&dataset(&[[4, 4]], None), None, [8, 8], &Device::cpu());
        let error = read.unwrap_err().to_string();
        assert!(error.contains("None for image 0"), "{error}");
    }

    #[test]
    fn images_that_are_known_are_left_out() {
        let data = dataset(&[[4, 4], [4, 4], [4, 4]], Some(1));
        let trained = LabelledImages::read(&data, Some(1), [8, 8], &Device::cpu()).unwrap();
        let known: HashSet<u64> = trained.hashes.iter().copied().collect();
        let rest = LabelledImages::read_except(&data, None, [8, 8], &Device::cpu(), &known);
        let rest = rest.unwrap().unwrap();
        assert_eq!((rest.labels.len(), rest.images.len()), (2, 2));
        let none = LabelledImages::read_except(&data, Some(1), [8, 8], &Device::cpu(), &known);
        assert!(none.unwrap().is_none());
    }

    #[test]
    fn the_fingerprint_sees_pixels_and_labels() {
        let read = |data: &Memory, limit| {
            LabelledImages::read(data, limit, [8, 8], &Device::cpu()).unwrap().fingerprint
        };
        let a = dataset(&[[4, 4], [4, 4]], Some(1));
        assert_eq!(read(&a, None), read(&a, None));
        assert_ne!(read(&a, None), read(&a, Some(1)));
        assert_ne!(read(&a, None), read(&dataset(&[[4, 4], [4, 4]], Some(2)), None));
    }
}
