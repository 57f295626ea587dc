use paint_nn::backbone::cifar_resnet::CifarResnetConfig;
use paint_nn::backbone::{Backbone, BuildOptions, Weights};
use paint_nn::checkpoint::Preprocess;
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};
use toml::{Table, toml};

use super::*;
use crate::source_data::SourceData;
use crate::{Method, by_name};

const LABELS: [usize; 8] = [0, 1, 2, 3, 0, 1, 2, 3];

fn cnn(blocks: usize) -> Box<dyn Backbone> {
    let config =
        CifarResnetConfig { width: 4, num_classes: 4, ..CifarResnetConfig::batch_norm(blocks) };
    let preprocess = Some(Preprocess::usual([8, 12]));
    let options = BuildOptions { preprocess, ..BuildOptions::new(&Device::cpu()) };
    Box::new(config.build("tiny", Weights::Random(Seed(5)), &options).unwrap())
}

/// One colour a class.
fn images() -> Tensor {
    let pixel = |i: usize| [0.1, 0.4, 0.6, 0.9][LABELS[i / 288]] + 0.01 * (i % 7) as f32;
    Tensor::from_vec((0..8 * 288).map(pixel).collect(), [8, 3, 8, 12], &Device::cpu()).unwrap()
}

fn build(blocks: usize, settings: &Table) -> Result<Box<dyn Method>> {
    let (model, images) = (cnn(blocks), images());
    let source = Some(SourceData { images: &images, labels: Some(&LABELS) });
    let args = BuildArgs { source, ..BuildArgs::new(&*model, Seed(1)) };
    by_name(NAME).unwrap().build(&args, settings)
}

#[test]
fn the_warm_up_learns_the_labels_and_is_part_of_the_state() {
    let loss = |method: &dyn Method| {
        let z = method.predict(&images()).unwrap();
        loss::cross_entropy(&z, &LABELS).unwrap().mean_all().unwrap().item().unwrap()
    };
    let fresh = build(2, &toml! { warmup_images = 0 }).unwrap();
    let warm = build(2, &toml! { warmup_images = 240 source_batch = 8 }).unwrap();
    assert!(loss(&*warm) < 0.5 * loss(&*fresh), "{} {}", loss(&*warm), loss(&*fresh));
    let mut other = build(2, &toml! { warmup_images = 0 }).unwrap();
    other.load(&warm.save().unwrap()).unwrap();
    assert_eq!(loss(&*other).to_bits(), loss(&*warm).to_bits());
    assert!(warm.mixes_images());
}

#[test]
fn a_network_with_fewer_blocks_than_parts_is_refused() {
    let nothing = toml! { warmup_images = 0 };
    let message = build(1, &nothing).err().unwrap().to_string();
    assert_eq!(message, "settings of ecotta: parts: tiny has 3 blocks, too few for 5 parts");
    assert!(build(1, &toml! { warmup_images = 0 parts = 3 }).is_ok());
    let message = build(2, &toml! { kernel = 2 }).err().unwrap().to_string();
    assert!(message.ends_with("kernel must be an odd number"), "{message}");
}

#[test]
fn without_entropy_a_step_brings_the_parts_nearer_to_the_frozen_ones() {
    let mut method = build(2, &toml! { warmup_images = 0 e0 = 0.0 lr = 0.05 }).unwrap();
    let mut apart = || {
        let scalars = method.step(&images()).unwrap().scalars;
        scalars.iter().find(|(name, _)| *name == "apart").unwrap().1
    };
    let first = apart();
    let last = (0..20).map(|_| apart()).last().unwrap();
    assert!(last < 0.7 * first, "{first} {last}");
}
