//! What every method promises, on every relative of the ViT: it keeps the promises or refuses the network with the reason.
//! `contract.rs` has the whole contract on the plain ViT, with every preset.

#![expect(clippy::unwrap_used, reason = "a method that cannot be built or run breaks its contract")]

#[path = "../src/tiny_vit.rs"]
mod tiny_vit;

use std::collections::BTreeMap;

use paint_methods::{BuildArgs, METHODS, Method, MethodEntry, SourceData};
use paint_nn::backbone::vit::{HeadKind, Positioned, Variant, Vit, VitConfig};
use paint_nn::checkpoint::{Activation, GlobalPool};
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};
use toml::{Table, toml};

const PLAIN: Variant = Variant::PLAIN;
const CLASSES: usize = tiny_vit::CONFIG.num_classes;

/// One network per part that a family adds.
fn families() -> [(&'static str, Variant); 7] {
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
    [
        ("distilled DeiT", distilled),
        ("DINOv2 with registers", Variant { reg_tokens: 3, ..dinov2 }),
        ("DINOv2, two vectors", both),
        ("CLIP, classifier", Variant { global_pool: GlobalPool::AvgRaw, ..clip }),
        ("CLIP, zero-shot", Variant { head: zero_shot, ..clip }),
        ("SigLIP", siglip),
        ("mean with fc_norm", Variant { global_pool: GlobalPool::Avg, fc_norm: true, ..PLAIN }),
    ]
}

/// Why a method refuses a family; the README says the same.
fn refusal(method: &str, variant: &Variant) -> Option<&'static str> {
    if !["gain", "neo", "t3a", "zerosiam"].contains(&method) {
        return None;
    }
    match variant.head {
        HeadKind::Linear if variant.global_pool == GlobalPool::TokenAvg => {
            Some("the classifier reads 32 channels, the features have 16")
        }
        HeadKind::Linear => None,
        _ => Some("it needs one linear classifier"),
    }
}

/// Four blocks, as SAR leaves the last three alone.
fn model(variant: Variant) -> Vit {
    let config = VitConfig { variant, depth: 4, ..tiny_vit::CONFIG };
    let mut larger = vec![("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
    let scales = ["blocks.0.ls1.gamma", "blocks.0.ls2.gamma", "blocks.3.ls1.gamma"];
    if variant.layer_scale {
        larger.extend(scales.map(|name| (name, 1e5)));
    }
    if variant.global_pool == GlobalPool::Map {
        larger.extend([("attn_pool.proj.weight", 25.0), ("attn_pool.mlp.fc2.weight", 25.0)]);
    }
    tiny_vit::build(config, 3, &larger, &Device::cpu())
}

fn images(seed: u64, b: usize) -> Tensor {
    let mut rng = Seed(seed).derive("families/images", &[]);
    let data = (0..b * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
    Tensor::from_vec(data, [b, 3, 8, 12], &Device::cpu()).unwrap()
}

/// What a tiny drawn model needs to learn at all.
fn settings(name: &str) -> Table {
    match name {
        "sar" | "eta" | "eata" => toml! { e0 = 0.9 },
        "cotta" => toml! { views = 2 },
        "rmt" => toml! { warmup_images = 0 source_batch = 4 },
        "keel" => toml! { memory = 20 fewest_images = 2 first_block = 0 },
        "vdp" => toml! { threshold = 0.5 },
        "paint" => toml! { blocks = 2 },
        _ => Table::new(),
    }
}

fn build(
    entry: &MethodEntry,
    model: &Vit,
    classes: Option<&[usize]>,
) -> Result<Box<dyn Method>, String> {
    let source = images(77, 9).scale(0.4).unwrap();
    let labels =
        [0, 1, 2, 3, 4, 0, 1, 2, 3].map(|label| label % classes.map_or(CLASSES, <[_]>::len));
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

/// Whole batches and a last one of a single image.
fn steps(method: &mut dyn Method) -> Vec<Vec<u32>> {
    let batches = [(0, 5), (1, 5), (2, 1)];
    batches.map(|(seed, b)| bits(&method.step(&images(seed, b)).unwrap().logits)).into()
}

/// Runs `check` for every method and every family that it does not refuse.
fn for_each(check: impl Fn(&str, &dyn Fn() -> Box<dyn Method>)) {
    for entry in METHODS {
        for (family, variant) in families() {
            if refusal(entry.name, &variant).is_none() {
                let what = format!("{} on {family}", entry.name);
                check(&what, &|| build(entry, &model(variant), None).unwrap());
            }
        }
    }
}

#[test]
fn a_classifier_that_a_method_cannot_work_with_is_refused_with_the_reason() {
    for entry in METHODS {
        for (family, variant) in families() {
            let found = build(entry, &model(variant), None).err();
            match (refusal(entry.name, &variant), &found) {
                (None, None) => {}
                (Some(why), Some(found)) if found.contains(why) => {}
                (expected, _) => panic!("{} on {family}: {found:?}, not {expected:?}", entry.name),
            }
        }
    }
}

#[test]
fn logits_are_finite_and_reset_restores_every_bit() {
    for_each(|what, build| {
        let mut method = build();
        let fresh = state(&*method);
        let first = steps(&mut *method);
        assert_eq!(first.concat().len(), 11 * CLASSES, "{what}");
        assert!(first.concat().iter().all(|logit| f32::from_bits(*logit).is_finite()), "{what}");
        method.reset().unwrap();
        assert_eq!(state(&*method), fresh, "{what}");
        assert_eq!(steps(&mut *method), first, "{what}");
    });
}

#[test]
fn a_loaded_state_predicts_and_continues_with_the_same_bits() {
    for_each(|what, build| {
        let mut method = build();
        method.step(&images(0, 5)).unwrap();
        let mut other = build();
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
    for_each(|what, build| {
        let mut method = build();
        let before = state(&*method);
        let nothing = Tensor::full([2, 3, 8, 12], f32::NAN, &Device::cpu()).unwrap();
        assert!(method.step(&nothing).is_err(), "{what}");
        assert_eq!(state(&*method), before, "{what}");
    });
}

#[test]
fn only_the_classes_that_were_asked_for_compete() {
    let classes = [4, 0, 2];
    for entry in METHODS {
        for (family, variant) in families() {
            if refusal(entry.name, &variant).is_none() {
                let mut method = build(entry, &model(variant), Some(&classes)).unwrap();
                let logits = method.step(&images(0, 5)).unwrap().logits;
                assert_eq!(logits.shape(), [5, 3], "{} on {family}", entry.name);
            }
        }
    }
}

#[test]
fn what_learns_changes_something_in_every_family() {
    for name in ["tent", "paint", "cotta"] {
        let entry = METHODS.iter().find(|entry| entry.name == name).unwrap();
        for (family, variant) in families() {
            let mut method = build(entry, &model(variant), None).unwrap();
            let before = bits(&method.predict(&images(9, 2)).unwrap());
            steps(&mut *method);
            assert_ne!(bits(&method.predict(&images(9, 2)).unwrap()), before, "{name} on {family}");
        }
    }
}
