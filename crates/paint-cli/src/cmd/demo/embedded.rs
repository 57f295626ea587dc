//! The model and the images that travel inside the program. `assets/PROVENANCE.md` says where they come from.

use std::path::Path;

use paint_data::dataset::Memory;
use paint_data::{Domain, Image, Info, Sample};
use paint_nn::backbone::{Backbone, BuildOptions, Weights, find};
use paint_nn::checkpoint::{self, CropMode, Interpolation, Preprocess};
use paint_tensor::Device;

const WEIGHTS: &[u8] =
    include_bytes!("../../../../../assets/vit_tiny_patch4_32_cifar10/model.safetensors");
/// 25 rows of 40 images, lossless.
const IMAGES: &[u8] = include_bytes!("../../../../../assets/cifar10_test_1000/images.webp");
const LABELS: &[u8] = include_bytes!("../../../../../assets/cifar10_test_1000/labels.bin");

const SIDE: usize = 32;
const COLUMNS: usize = 40;

/// The names of CIFAR-10's classes.
pub(super) const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The embedded ViT. Its preprocessing is that of `config.json` beside the weights.
pub(super) fn model(device: &Device) -> anyhow::Result<Box<dyn Backbone>> {
    let weights = checkpoint::decode(WEIGHTS, Path::new("embedded weights"))?;
    let preprocess = Preprocess {
        mean: [0.5; 3],
        std: [0.5; 3],
        input_size: [SIDE, SIDE],
        crop_pct: 1.0,
        crop_mode: CropMode::Center,
        interpolation: Interpolation::Bilinear,
    };
    let options = BuildOptions { preprocess: Some(preprocess), ..BuildOptions::new(device) };
    Ok(find("vit_tiny_patch4_32")?.build(Weights::Checkpoint(weights), &options)?)
}

/// The first 1,000 test images of CIFAR-10.
pub(super) fn images() -> anyhow::Result<Memory> {
    let mosaic = Image::decode(IMAGES, Path::new("embedded images"))?;
    let row = mosaic.width() * 3;
    let tile = |index: usize| {
        let corner = index / COLUMNS * SIDE * row + index % COLUMNS * SIDE * 3;
        let lines = (0..SIDE).map(|y| corner + y * row);
        let pixels = lines.flat_map(|at| &mosaic.pixels()[at..at + SIDE * 3]).copied().collect();
        Image::new(SIDE, SIDE, pixels)
    };
    let samples = LABELS
        .iter()
        .enumerate()
        .map(|(index, label)| Ok(Sample { image: tile(index)?, label: Some(usize::from(*label)) }));
    let samples = samples.collect::<paint_data::Result<Vec<_>>>()?;
    let info = Info { name: "cifar10", num_classes: CLASSES.len(), class_indices: None };
    Ok(Memory::new(info, vec![(Domain::clean(), samples)])?)
}

#[cfg(test)]
mod tests {
    use paint_data::Dataset as _;
    use paint_nn::backbone::Request;
    use paint_tensor::Tensor;

    use super::*;

    #[test]
    fn the_embedded_model_knows_the_embedded_images() {
        let (device, data) = (Device::cpu(), images().unwrap());
        assert_eq!(data.len(0), 1000);
        let mut pixels = vec![0.0; 100 * 3 * SIDE * SIDE];
        for (i, out) in pixels.chunks_exact_mut(3 * SIDE * SIDE).enumerate() {
            data.sample(0, i).unwrap().image.to_chw(out);
        }
        let images = Tensor::from_vec(pixels, [100, 3, SIDE, SIDE], &device).unwrap();
        let model = model(&device).unwrap();
        let logits = model.forward(&images, &Request::default()).unwrap().logits;
        let right = logits.argmax().unwrap().into_iter().enumerate();
        let right = right.filter(|(i, class)| data.label(0, *i) == Some(*class)).count();
        // 91.2 % over the whole test set; a wrong mean, channel order or tile order falls far below.
        assert!(right >= 85, "{right} of 100");
    }

    #[test]
    fn the_preprocessing_is_the_one_beside_the_weights() {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/vit_tiny_patch4_32_cifar10");
        let beside = checkpoint::read_model_config(folder.join("model.safetensors")).unwrap();
        let model = model(&Device::cpu()).unwrap();
        assert_eq!(beside.preprocess.as_ref(), Some(&model.spec().preprocess));
        assert_eq!(beside.label_names.unwrap(), CLASSES);
    }
}
