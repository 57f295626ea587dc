//! The network on which a method keeps its contract: the ViT, or a residual network where it takes no other.

use paint_methods::{MethodEntry, Networks};
use paint_nn::backbone::cifar_resnet::{CifarResnetConfig, CifarVariant};
use paint_nn::backbone::{Backbone, BuildOptions, Weights};
use paint_nn::checkpoint::Preprocess;
use paint_rng::Seed;
use paint_tensor::Device;

use crate::tiny_vit;

/// For images of 8x12 pixels.
pub(crate) fn model(entry: &MethodEntry) -> Box<dyn Backbone> {
    if entry.runs_on == Networks::Convolutional {
        return cnn();
    }
    // Its predictions range from unsure to confident: the head of a drawn one is too weak.
    let larger = [("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
    Box::new(tiny_vit::build(tiny_vit::CONFIG, 3, &larger, &Device::cpu()))
}

/// Six blocks, with batch norms.
fn cnn() -> Box<dyn Backbone> {
    let num_classes = tiny_vit::CONFIG.num_classes;
    let variant = CifarVariant::BatchNorm;
    let config = CifarResnetConfig { blocks: 2, width: 4, variant, num_classes };
    let preprocess = Some(Preprocess::usual([8, 12]));
    let options = BuildOptions { preprocess, ..BuildOptions::new(&Device::cpu()) };
    Box::new(config.build("resnet", Weights::Random(Seed(3)), &options).unwrap())
}
