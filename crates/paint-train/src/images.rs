//! The images of a training: read once, kept on the device as bytes.
//!
//! Images that all have one size no larger than the network's input stay as they are stored, and are stretched while a batch
//! is made; others are brought to the input on the way in.

use paint_data::image::{Filter, Preprocess};
use paint_data::{Dataset, Image};
use paint_tensor::{Device, Images};

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
    /// A hash of every pixel and label, in order.
    pub fingerprint: u64,
}

impl LabelledImages {
    /// Reads the first `limit` images (all, if none) of a dataset with one domain, for a network that takes `input`.
    pub fn read(
        dataset: &dyn Dataset,
        limit: Option<usize>,
        input: [usize; 2],
        device: &Device,
    ) -> Result<Self> {
        let refuse = |expected: &str, found: String| {
            Err(Error::Images { expected: expected.to_owned(), found })
        };
        if dataset.domains().len() != 1 {
            return refuse("one domain", format!("{} domains", dataset.domains().len()));
        }
        let count = limit.unwrap_or(usize::MAX).min(dataset.len(0));
        if count == 0 {
            return refuse("at least one image", "none".to_owned());
        }
        let num_classes = dataset.info().num_classes;
        let size = |image: &Image| [image.height(), image.width()];
        let first = size(&dataset.sample(0, 0)?.image);
        let mut fits = first[0] <= input[0] && first[1] <= input[1];
        let (mut bytes, mut labels) = (Vec::new(), Vec::with_capacity(count));
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
                continue;
            }
            let image = if fits { sample.image } else { fitted(sample.image, input)? };
            planes(&image, &mut bytes);
            labels.push(label);
            index += 1;
        }
        let fingerprint = fingerprint(&bytes, &labels);
        let images = Images::new(&bytes, if fits { first } else { input }, device)?;
        Ok(Self { images, labels, num_classes, fingerprint })
    }
}

/// The middle of the image, resized so that it fills the input.
fn fitted(image: Image, [height, width]: [usize; 2]) -> Result<Image> {
    let steps = if height == width {
        Preprocess::resize_and_crop(height, height, Filter::Bilinear)
    } else {
        Preprocess::exact(width, height, Filter::Bilinear)
    };
    Ok(steps.apply(image)?)
}

/// Appends the three colour planes, one after the other.
fn planes(image: &Image, out: &mut Vec<u8>) {
    for channel in 0..3 {
        out.extend(image.pixels().iter().skip(channel).step_by(3));
    }
}

/// FNV-1a.
fn fingerprint(bytes: &[u8], labels: &[usize]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut feed = |word: u64| hash = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().for_each(|&byte| feed(u64::from(byte)));
    labels.iter().for_each(|&label| feed(label as u64));
    hash
}

#[cfg(test)]
mod tests {
    use paint_data::dataset::Memory;
    use paint_data::{Domain, Info, Sample};
    use paint_tensor::{Draw, Edge, View};

    use super::*;

    fn dataset(sizes: &[[usize; 2]], label: Option<usize>) -> Memory {
        let info = Info { name: "memory", num_classes: 3, class_indices: None };
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
        let read = LabelledImages::read(&data, Some(2), [8, 8], &Device::cpu()).unwrap();
        assert_eq!((read.images.len(), read.images.size()), (2, [4, 5]));
        let draw = Draw::plain(View::new(1));
        let got = read.images.compose(&[draw], [4, 5], Edge::Zeros).unwrap().to_vec().unwrap();
        let mut expected = vec![0.0; 60];
        data.sample(0, 1).unwrap().image.to_chw(&mut expected);
        assert_eq!(got, expected);
    }

    #[test]
    fn large_or_unequal_images_are_brought_to_the_input() {
        for sizes in [&[[4, 4], [4, 6]][..], &[[20, 30]]] {
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
