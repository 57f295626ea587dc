//! Every method on every relative of the ViT: it runs and keeps its promises, or refuses with the reason, which is the one
//! that it has on a plain ViT too, or the classifier. `contract.rs` has the whole contract on the plain one.

#![expect(clippy::unwrap_used, reason = "a method that cannot be built or run breaks its contract")]

#[path = "../src/tiny_vit.rs"]
mod tiny_vit;

use paint_methods::{BuildArgs, METHODS, Method, MethodEntry, SourceData};
use paint_nn::backbone::vit::{HeadKind, Positioned, Variant, Vit, VitConfig};
use paint_nn::checkpoint::{Activation, GlobalPool};
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};
use toml::{Table, toml};

const PLAIN: Variant = Variant::PLAIN;

/// One network per part that a family adds.
fn families() -> [(&'static str, Variant); 7] {
    let avg = GlobalPool::Avg;
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
    [
        ("distilled DeiT", distilled),
        ("DINOv2 with registers", Variant { reg_tokens: 3, ..dinov2 }),
        (
            "DINOv2, two vectors",
            Variant { global_pool: GlobalPool::TokenAvg, gated: true, ..dinov2 },
        ),
        ("CLIP, classifier", Variant { global_pool: GlobalPool::AvgRaw, ..clip }),
        ("CLIP, zero-shot", Variant { head: zero_shot, ..clip }),
        ("SigLIP", siglip),
        ("mean with fc_norm", Variant { global_pool: avg, fc_norm: true, ..PLAIN }),
    ]
}

fn model(variant: Variant) -> Vit {
    let config = VitConfig { variant, depth: 3, ..tiny_vit::CONFIG };
    let mut larger = vec![("head.weight", 25.0), ("patch_embed.proj.weight", 10.0)];
    let scales =
        ["blocks.0.ls1.gamma", "blocks.0.ls2.gamma", "blocks.1.ls1.gamma", "blocks.1.ls2.gamma"];
    if variant.layer_scale {
        larger.extend(scales.map(|name| (name, 1e5)));
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

fn build(entry: &MethodEntry, model: &Vit) -> Result<Box<dyn Method>, String> {
    let source = images(77, 9).scale(0.4).unwrap();
    let labels = [0, 1, 2, 3, 4, 0, 1, 2, 3];
    let source = Some(SourceData { images: &source, labels: Some(&labels) });
    let args = BuildArgs { source, ..BuildArgs::new(model, Seed(1)) };
    entry.build(&args, &settings(entry.name)).map_err(|error| error.to_string())
}

fn steps(method: &mut dyn Method) -> Vec<f32> {
    (0..2)
        .flat_map(|seed| method.step(&images(seed, 5)).unwrap().logits.to_vec().unwrap())
        .collect()
}

#[test]
fn every_method_runs_on_every_family_or_refuses_as_it_refuses_a_plain_vit() {
    for entry in METHODS {
        let plain = build(entry, &model(PLAIN)).err();
        for (family, variant) in families() {
            let what = format!("{} on {family}", entry.name);
            let mut method = match build(entry, &model(variant)) {
                Ok(method) => method,
                Err(why) => {
                    let is_told = plain.as_ref() == Some(&why) || why.contains("classifier");
                    assert!(is_told, "{what}: {why}");
                    continue;
                }
            };
            let first = steps(&mut *method);
            assert_eq!(first.len(), 2 * 5 * tiny_vit::CONFIG.num_classes, "{what}");
            assert!(first.iter().all(|logit| logit.is_finite()), "{what}");
            let saved = method.save().unwrap();
            let predicted = method.predict(&images(9, 2)).unwrap().to_vec().unwrap();
            let mut other = build(entry, &model(variant)).unwrap();
            other.load(&saved).unwrap();
            assert_eq!(
                other.predict(&images(9, 2)).unwrap().to_vec().unwrap(),
                predicted,
                "{what}"
            );
            method.reset().unwrap();
            assert_eq!(steps(&mut *method), first, "{what}: reset");
        }
    }
}

#[test]
fn what_learns_changes_something_in_every_family() {
    for name in ["tent", "paint", "cotta"] {
        let entry = METHODS.iter().find(|entry| entry.name == name).unwrap();
        for (family, variant) in families() {
            let mut method = build(entry, &model(variant)).unwrap();
            let before = method.predict(&images(9, 2)).unwrap().to_vec().unwrap();
            steps(&mut *method);
            let after = method.predict(&images(9, 2)).unwrap().to_vec().unwrap();
            assert_ne!(before, after, "{name} on {family}");
        }
    }
}
