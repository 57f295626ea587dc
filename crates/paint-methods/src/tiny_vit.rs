//! The network of the unit tests, and of `tests/contract.rs`.

use paint_nn::backbone::vit::{Variant, Vit, VitConfig};
use paint_nn::backbone::{Backbone as _, BuildOptions, Weights};
use paint_rng::Seed;
use paint_tensor::Device;

/// Four blocks of width 16 on images of 8x12 pixels, five classes.
pub(crate) const CONFIG: VitConfig = VitConfig {
    image_size: [8, 12],
    patch_size: 4,
    embed_dim: 16,
    depth: 4,
    num_heads: 2,
    mlp_ratio: 2.0,
    num_classes: 5,
    variant: Variant::PLAIN,
};

/// A drawn network, with some parameters made larger: predictions of a drawn one are never sure.
pub(crate) fn build(config: VitConfig, seed: u64, larger: &[(&str, f32)], device: &Device) -> Vit {
    let weights = Weights::Random(Seed(seed));
    let mut vit = Vit::build("tiny", config, weights, &BuildOptions::new(device)).unwrap();
    for (name, factor) in larger {
        let id = vit.params().id(name).unwrap();
        let value = vit.params()[id].scale(*factor).unwrap();
        vit.params_mut().set(id, &value).unwrap();
    }
    vit
}
