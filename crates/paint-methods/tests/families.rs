//! What every method promises, on every relative of the ViT, on ConvNeXt and on Swin: it keeps the promises or refuses
//! the network with the reason. `contract.rs` has the whole contract on the plain ViT, with every preset.

#![expect(clippy::unwrap_used, reason = "a method that cannot be built or run breaks its contract")]

#[path = "../src/tiny_vit.rs"]
mod tiny_vit;

use std::collections::BTreeMap;
use std::path::Path;

use paint_methods::{BuildArgs, METHODS, Method, MethodEntry, Networks, SourceData};
use paint_nn::backbone::convnext::ConvnextConfig;
use paint_nn::backbone::swin::SwinConfig;
use paint_nn::backbone::vit::{HeadKind, Positioned, Variant, VitConfig};
use paint_nn::backbone::{Backbone, BuildOptions, Family, Weights};
use paint_nn::checkpoint::{self, Activation, Checkpoint, GlobalPool, Preprocess};
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};
use toml::{Table, toml};

const PLAIN: Variant = Variant::PLAIN;
const CLASSES: usize = tiny_vit::CONFIG.num_classes;

/// One network per part that a family adds, a ConvNeXt and a Swin.
fn families() -> Vec<(&'static str, Box<dyn Backbone>)> {
    let dinov2 = Variant { layer_scale: true, positioned: Positioned::Patches, ..PLAIN };
    let clip = Variant {
        norm_pre: true,
        patch_bias: false,
        norm_eps: 1e-5,
        activation: Activation::QuickGelu,
        ..PLAIN
    };
    let siglip = Variant {
        class_token: false,
        activation: Activation::GeluTanh,
        global_pool: GlobalPool::Map,
        ..PLAIN
    };
    let distilled = Variant { head: HeadKind::Distilled, positioned: Positioned::All, ..PLAIN };
    let zero_shot = HeadKind::Cosine { width: 6, projected: true };
    let both = Variant { global_pool: GlobalPool::TokenAvg, gated: true, ..dinov2 };
    let vits = [
        ("distilled DeiT", distilled),
        ("DINOv2 with registers", Variant { reg_tokens: 3, ..dinov2 }),
        ("DINOv2, two vectors", both),
        ("CLIP, classifier", Variant { global_pool: GlobalPool::AvgRaw, ..clip }),
        ("CLIP, zero-shot", Variant { head: zero_shot, ..clip }),
        ("SigLIP", siglip),
        ("mean with fc_norm", Variant { global_pool: GlobalPool::Avg, fc_norm: true, ..PLAIN }),
    ];
    let vits = vits.into_iter().map(|(family, variant)| (family, vit(variant)));
    vits.chain([("ConvNeXt", convnext()), ("Swin", swin())]).collect()
}

/// Why a method for convolutional networks refuses the others.
const CONVOLUTIONS: &str = "inside a convolutional network";

/// Why a method refuses a network; the README says the same.
fn refusal(entry: &MethodEntry, model: &dyn Backbone) -> Option<&'static str> {
    let Some(vit) = model.vit_config() else {
        let refused = match entry.runs_on {
            Networks::Transformers => Some("of a vision transformer"),
            Networks::Convolutional if model.family() != Family::Convolutional => {
                Some(CONVOLUTIONS)
            }
            _ => None,
        };
        return refused;
    };
    if entry.runs_on == Networks::Convolutional {
        return Some(CONVOLUTIONS);
    }
    if !["gain", "neo", "t3a", "zerosiam"].contains(&entry.name) {
        return None;
    }
    match vit.variant.head {
        HeadKind::Linear if vit.variant.global_pool == GlobalPool::TokenAvg => {
            Some("the classifier reads 32 channels, the features have 16")
        }
        HeadKind::Linear => None,
        _ => Some("it needs one linear classifier"),
    }
}

/// Four blocks, as SAR leaves the last three alone.
fn vit(variant: Variant) -> Box<dyn Backbone> {
    let config = VitConfig { variant, depth: 4, ..tiny_vit::CONFIG };
    let mut larger = vec![("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
    let scales = ["blocks.0.ls1.gamma", "blocks.0.ls2.gamma", "blocks.3.ls1.gamma"];
    if variant.layer_scale {
        larger.extend(scales.map(|name| (name, 1e5)));
    }
    if variant.global_pool == GlobalPool::Map {
        larger.extend([("attn_pool.proj.weight", 25.0), ("attn_pool.mlp.fc2.weight", 25.0)]);
    }
    Box::new(tiny_vit::build(config, 3, &larger, &Device::cpu()))
}

/// The network of a golden file; the scales of a drawn one are so small that its blocks do nothing.
fn convnext() -> Box<dyn Backbone> {
    let config = ConvnextConfig { depths: [1, 2, 1, 1], dims: [4, 6, 8, 10], num_classes: CLASSES };
    let (weights, options) = golden("timm_convnext", [32, 48]);
    Box::new(config.build("convnext", weights, &options).unwrap())
}

/// Two stages whose grids are padded, and shifted windows in both.
fn swin() -> Box<dyn Backbone> {
    let config = SwinConfig {
        embed_dim: 8,
        depths: vec![2, 2],
        num_heads: vec![2, 4],
        window_size: 4,
        num_classes: CLASSES,
    };
    let (weights, options) = golden("timm_swin", [44, 36]);
    Box::new(config.build("swin", weights, &options).unwrap())
}

/// The weights of a golden file, for images of this size.
fn golden(case: &str, size: [usize; 2]) -> (Weights, BuildOptions) {
    let path = format!("../../fixtures/families/{case}.safetensors");
    let golden = checkpoint::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut weights = Checkpoint::new(golden.format);
    for (name, array) in golden {
        if let Some(name) = name.strip_prefix("param.") {
            weights.insert(name.to_owned(), array).unwrap();
        }
    }
    let preprocess = Some(Preprocess::usual(size));
    let options = BuildOptions { preprocess, ..BuildOptions::new(&Device::cpu()) };
    (Weights::Checkpoint(weights), options)
}

fn images(model: &dyn Backbone, seed: u64, b: usize) -> Tensor {
    let mut rng = Seed(seed).derive("families/images", &[]);
    let [height, width] = model.spec().image_size;
    let data = (0..b * 3 * height * width).map(|_| rng.uniform() as f32).collect();
    Tensor::from_vec(data, [b, 3, height, width], &Device::cpu()).unwrap()
}

/// What a tiny drawn model needs to learn at all.
fn settings(name: &str) -> Table {
    match name {
        "sar" | "eta" | "eata" => toml! { e0 = 0.9 },
        "cotta" => toml! { views = 2 },
        "rmt" | "ecotta" => toml! { warmup_images = 0 source_batch = 4 },
        "keel" => toml! { memory = 20 fewest_images = 2 first_block = 0 },
        "vdp" => toml! { threshold = 0.5 },
        "paint" => toml! { blocks = 2 },
        _ => Table::new(),
    }
}

fn build(
    entry: &MethodEntry,
    model: &dyn Backbone,
    classes: Option<&[usize]>,
) -> Result<Box<dyn Method>, String> {
    let source = images(model, 77, 9).scale(0.4).unwrap();
    let count = classes.map_or(CLASSES, <[_]>::len);
    let labels = [0, 1, 2, 3, 4, 0, 1, 2, 3].map(|label| label % count);
    let source = Some(SourceData { images: &source, labels: Some(&labels) });
    let args = BuildArgs { source, classes, ..BuildArgs::new(model, Seed(1)) };
    entry.build(&args, &settings(entry.name)).map_err(|error| error.to_string())
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

fn state(method: &dyn Method) -> (BTreeMap<String, Vec<u32>>, BTreeMap<String, u64>) {
    let state = method.save().unwrap();
    let tensors = state.tensors.iter().map(|(name, tensor)| (name.clone(), bits(tensor)));
    (tensors.collect(), state.counters)
}

/// Two whole batches and a last one of a single image.
fn steps(method: &mut dyn Method, model: &dyn Backbone) -> Vec<Vec<u32>> {
    let batches = [(0, 5), (1, 5), (2, 1)];
    batches.map(|(seed, b)| bits(&method.step(&images(model, seed, b)).unwrap().logits)).into()
}

/// Runs `check` for every method and every network that it does not refuse.
fn for_each(check: impl Fn(&str, &MethodEntry, &dyn Backbone)) {
    for (family, model) in families() {
        for entry in METHODS.iter().filter(|entry| refusal(entry, &*model).is_none()) {
            check(&format!("{} on {family}", entry.name), entry, &*model);
        }
    }
}

#[test]
fn a_network_that_a_method_cannot_work_with_is_refused_with_the_reason() {
    for (family, model) in families() {
        for entry in METHODS {
            let found = build(entry, &*model, None).err();
            match (refusal(entry, &*model), &found) {
                (None, None) => {}
                (Some(why), Some(found)) if found.contains(why) => {}
                (expected, _) => panic!("{} on {family}: {found:?}, not {expected:?}", entry.name),
            }
        }
    }
}

#[test]
fn logits_are_finite_and_reset_restores_every_bit() {
    for_each(|what, entry, model| {
        let mut method = build(entry, model, None).unwrap();
        let fresh = state(&*method);
        let first = steps(&mut *method, model);
        assert_eq!(first.concat().len(), 11 * CLASSES, "{what}");
        assert!(first.concat().iter().all(|logit| f32::from_bits(*logit).is_finite()), "{what}");
        method.reset().unwrap();
        assert_eq!(state(&*method), fresh, "{what}");
        assert_eq!(steps(&mut *method, model), first, "{what}");
    });
}

#[test]
fn a_loaded_state_predicts_and_continues_with_the_same_bits() {
    for_each(|what, entry, model| {
        let images = |seed, b| images(model, seed, b);
        let mut method = build(entry, model, None).unwrap();
        method.step(&images(0, 5)).unwrap();
        let mut other = build(entry, model, None).unwrap();
        other.load(&method.save().unwrap()).unwrap();
        let before = state(&*method);
        let [a, b] = [&method, &other].map(|method| bits(&method.predict(&images(9, 2)).unwrap()));
        assert_eq!(a, b, "{what}");
        assert_eq!(state(&*method), before, "{what}: predicting changes nothing");
        let [a, b] =
            [&mut method, &mut other].map(|m| bits(&m.step(&images(1, 5)).unwrap().logits));
        assert_eq!(a, b, "{what}");
    });
}

#[test]
fn images_that_are_not_finite_are_refused_and_change_nothing() {
    for_each(|what, entry, model| {
        let mut method = build(entry, model, None).unwrap();
        let before = state(&*method);
        let [height, width] = model.spec().image_size;
        let nothing = Tensor::full([2, 3, height, width], f32::NAN, &Device::cpu()).unwrap();
        assert!(method.step(&nothing).is_err(), "{what}");
        assert_eq!(state(&*method), before, "{what}");
    });
}

#[test]
fn only_the_classes_that_were_asked_for_compete() {
    for_each(|what, entry, model| {
        let mut method = build(entry, model, Some(&[4, 0, 2])).unwrap();
        let logits = method.step(&images(model, 0, 5)).unwrap().logits;
        assert_eq!(logits.shape(), [5, 3], "{what}");
    });
}

#[test]
fn what_learns_changes_something_in_every_family() {
    for_each(|what, entry, model| {
        if !["tent", "paint", "cotta"].contains(&entry.name) {
            return;
        }
        let mut method = build(entry, model, None).unwrap();
        let before = bits(&method.predict(&images(model, 9, 2)).unwrap());
        steps(&mut *method, model);
        assert_ne!(bits(&method.predict(&images(model, 9, 2)).unwrap()), before, "{what}");
    });
}
