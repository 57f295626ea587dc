//! The tiny ViT of the golden files, and how its movement is compared.

use paint_nn::backbone::vit::{Variant, Vit, VitConfig};
use paint_nn::backbone::{BuildOptions, Weights};
use paint_nn::checkpoint::{Checkpoint, CropMode, Format, Interpolation, Preprocess};

use crate::fixture::{Fixture, device, gap};

/// The model of a golden file.
pub(crate) fn model(fixture: &Fixture) -> Vit {
    let config = VitConfig {
        image_size: [12, 16],
        patch_size: 4,
        embed_dim: 20,
        depth: 4,
        num_heads: 2,
        mlp_ratio: 3.0,
        num_classes: 7,
        variant: Variant::PLAIN,
    };
    Vit::build("tiny", config, weights(fixture), &options()).unwrap()
}

/// The weights of a golden file.
pub(crate) fn weights(fixture: &Fixture) -> Weights {
    let mut weights = Checkpoint::new(Format::SafeTensors);
    for (name, array) in fixture.arrays.iter() {
        if let Some(name) = name.strip_prefix("param.") {
            weights.insert(name.to_owned(), array.clone()).unwrap();
        }
    }
    Weights::Checkpoint(weights)
}

/// The images of the golden files.
pub(crate) fn options() -> BuildOptions {
    let preprocess = Preprocess {
        mean: [0.5; 3],
        std: [0.5; 3],
        input_size: [12, 16],
        crop_pct: 1.0,
        crop_mode: CropMode::Center,
        interpolation: Interpolation::Bilinear,
    };
    BuildOptions { preprocess: Some(preprocess), ..BuildOptions::new(&device()) }
}

/// The expected and found numbers of one kind agree to `tolerance` of the largest expected.
pub(crate) fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    let scale = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let gap = gap(found, expected);
    assert!(gap <= tolerance * scale, "{what}: {gap:e} of {scale:e}");
}

/// The movement of each trained weight, without the key bias, whose gradient is rounding and nothing else.
pub(crate) fn movement(name: &str, after: &[f32], before: &[f32]) -> Vec<f32> {
    let mut moved: Vec<f32> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    if name.ends_with("attn.qkv.bias") {
        let third = moved.len() / 3;
        moved.drain(third..2 * third);
    }
    moved
}
