//! Trainings that begin with given weights: the embedded model's file.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::path::PathBuf;

use paint_nn::backbone::{Backbone, find};
use paint_nn::checkpoint;
use paint_rng::Seed;
use paint_tensor::Device;
use paint_train::Start;

fn file() -> PathBuf {
    let assets = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../paint-run/assets");
    assets.join("vit_tiny_patch4_32_cifar10/model.safetensors")
}

fn start(num_classes: usize, image_size: Option<[usize; 2]>) -> (Box<dyn Backbone>, String) {
    let start = Start { weights: Some(file()), image_size, num_classes, seed: Seed(0) };
    let (model, sha256) = start.build(find("vit_tiny_patch4_32").unwrap(), &Device::cpu()).unwrap();
    (model, sha256.unwrap())
}

fn values(model: &dyn Backbone, name: &str) -> Vec<f32> {
    model.params()[model.params().id(name).unwrap()].to_vec().unwrap()
}

#[test]
fn a_classifier_of_other_classes_is_replaced_and_everything_else_is_kept() {
    let given = checkpoint::read(file()).unwrap();
    let (same, sha256) = start(10, None);
    assert_eq!(sha256, checkpoint::sha256(file()).unwrap());
    let (other, _) = start(3, None);
    assert_eq!(other.spec().num_classes, 3);
    assert_eq!(values(&*other, "head.bias"), [0.0; 3]);
    assert_eq!(values(&*other, "head.weight").len(), 3 * 192);
    for name in ["blocks.11.mlp.fc2.weight", "pos_embed", "norm.bias"] {
        assert_eq!(values(&*other, name), given.get(name).unwrap().data, "{name}");
    }
    assert_eq!(values(&*same, "head.weight"), given.get("head.weight").unwrap().data);
}

#[test]
fn positions_are_resampled_for_another_image_size() {
    let (model, _) = start(10, Some([48, 48]));
    assert_eq!(model.spec().image_size, [48, 48]);
    let (large, given) = (values(&*model, "pos_embed"), checkpoint::read(file()).unwrap());
    let small = &given.get("pos_embed").unwrap().data;
    assert_eq!(large.len(), (1 + 12 * 12) * 192);
    assert_eq!(large[..192], small[..192], "the class token keeps its own");
    let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
    assert!((mean(&large[192..]) - mean(&small[192..])).abs() < 1e-3);
}

#[test]
fn drawn_weights_take_the_classes_and_size_of_the_images() {
    let start = Start { weights: None, image_size: Some([16, 24]), num_classes: 7, seed: Seed(3) };
    let (model, sha256) = start.build(find("vit_tiny_patch4_32").unwrap(), &Device::cpu()).unwrap();
    assert!(sha256.is_none());
    assert_eq!((model.spec().image_size, model.spec().num_classes), ([16, 24], 7));
    assert_eq!(values(&*model, "pos_embed").len(), (1 + 4 * 6) * 192);
}
