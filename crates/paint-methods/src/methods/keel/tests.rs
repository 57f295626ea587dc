//! What keel promises beyond the contract of all methods.

use paint_nn::backbone::vit::{Vit, VitConfig};
use paint_nn::backbone::{Backbone, BuildOptions, Request, Weights, find};
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};
use toml::toml;

use crate::statistics::{SourceStatistics, StatisticsFrom};
use crate::{BuildArgs, Method, by_name, tiny_vit};

pub(super) fn vit(seed: u64) -> Vit {
    tiny_vit::build(tiny_vit::CONFIG, seed, &[], &Device::cpu())
}

/// A network with batch norms.
fn resnet() -> Box<dyn Backbone> {
    let options = BuildOptions::new(&Device::cpu());
    find("cifar_resnet20").unwrap().build(Weights::Random(Seed(0)), &options).unwrap()
}

/// Random images `low + (high - low) u`.
fn images(seed: u64, b: usize, [low, high]: [f32; 2], [h, w]: [usize; 2]) -> Tensor {
    let mut rng = Seed(seed).derive("keel/images", &[]);
    let data = (0..b * 3 * h * w).map(|_| low + (high - low) * rng.uniform() as f32).collect();
    Tensor::from_vec(data, [b, 3, h, w], &Device::cpu()).unwrap()
}

pub(super) fn tiny(seed: u64, b: usize, range: [f32; 2]) -> Tensor {
    images(seed, b, range, [8, 12])
}

fn file(model: &Vit) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("statistics.safetensors");
    SourceStatistics::collect(model, &tiny(1, 60, [0.0, 1.0])).unwrap().save(&path).unwrap();
    (folder, path)
}

pub(super) fn keel(model: &Vit, settings: &toml::Table) -> Box<dyn Method> {
    let (_folder, path) = file(model);
    let args = BuildArgs {
        statistics: Some(StatisticsFrom::File(&path)),
        ..BuildArgs::new(model, Seed(0))
    };
    by_name("keel").unwrap().build(&args, settings).unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

pub(super) fn scalar(step: &crate::Step, name: &str) -> f64 {
    step.scalars.iter().find(|(key, _)| *key == name).unwrap().1
}

#[test]
fn clean_images_are_left_alone_and_shifted_ones_are_not() {
    let model = vit(3);
    for form in ["forward", "gradient"] {
        let mut method = keel(&model, &toml! { preset = "vit_cifar10" prior = false form = form });
        let clean = tiny(1, 60, [0.0, 1.0]);
        let frozen = bits(&model.forward(&clean, &Request::default()).unwrap().logits);
        let step = method.step(&clean).unwrap();
        assert_eq!((scalar(&step, "weight"), scalar(&step, "domain")), (0.0, -1.0));
        assert_eq!(bits(&step.logits), frozen);
        let step = method.step(&tiny(2, 60, [0.6, 1.0])).unwrap();
        assert!(scalar(&step, "weight") > 0.3, "{}", scalar(&step, "weight"));
        for logits in [method.predict(&clean), method.probe(&clean)] {
            assert_eq!(bits(&logits.unwrap()), frozen, "{form}");
        }
    }
}

#[test]
fn a_domain_that_comes_back_is_known_again_in_batches_of_any_size() {
    let model = vit(3);
    let ranges = [[0.0, 0.3], [0.7, 1.0]];
    for b in [50, 1] {
        let mut method = keel(&model, &toml! { prior = false });
        let mut met = Vec::new();
        for (turn, range) in ranges.into_iter().cycle().take(6).enumerate() {
            let mut domain = -1.0;
            for i in 0..120 / b {
                let seed = (turn * 1000 + i) as u64;
                domain = scalar(&method.step(&tiny(seed, b, range)).unwrap(), "domain");
            }
            met.push(domain);
        }
        assert_eq!(met[2..4], met[4..6], "batches of {b}: {met:?}");
        assert_ne!(met[2], met[3], "batches of {b}: {met:?}");
    }
}

#[test]
fn memory_and_state_stay_bounded_however_many_domains_come() {
    let mut method = keel(&vit(3), &toml! { prior = false capacity = 3 });
    let mut sizes = Vec::new();
    for i in 0..24_u64 {
        let low = (i % 8) as f32 / 10.0;
        let step =
            method.step(&tiny(i, 20, [low, low + 0.05 + 0.2 * (i % 3) as f32 / 3.0])).unwrap();
        assert!(scalar(&step, "domains") <= 3.0);
        sizes.push(method.save().unwrap().tensors.values().map(Tensor::elem_count).sum::<usize>());
    }
    assert_eq!(scalar(&method.step(&tiny(99, 20, [0.0, 0.1])).unwrap(), "domains"), 3.0);
    assert!(
        sizes[12..].iter().all(|&size| size <= sizes[..12].iter().copied().max().unwrap()),
        "{sizes:?}"
    );
}

#[test]
fn statistics_of_other_weights_or_another_network_are_refused() {
    let (_folder, path) = file(&vit(3));
    let settings =
        toml::Table::from_iter([("statistics".to_owned(), path.display().to_string().into())]);
    let refused = |model: &Vit| {
        by_name("keel")
            .unwrap()
            .build(&BuildArgs::new(model, Seed(0)), &settings)
            .err()
            .map(|e| e.to_string())
    };
    assert_eq!(refused(&vit(3)), None);
    let message = refused(&vit(4)).unwrap();
    assert!(message.contains("paint stats") && message.contains("other weights"), "{message}");
    let deep = VitConfig { depth: 5, ..*vit(3).config() };
    let deep =
        Vit::build("deep", deep, Weights::Random(Seed(3)), &BuildOptions::new(&Device::cpu()))
            .unwrap();
    let message = refused(&deep).unwrap();
    assert!(message.contains("5 blocks of width 16, as deep has, found 4"), "{message}");
}

#[test]
fn without_statistics_the_mean_logit_moves_to_the_bias() {
    let model = vit(3);
    let args = BuildArgs::new(&model, Seed(0));
    let mut method = by_name("keel").unwrap().build(&args, &toml! { prior = false }).unwrap();
    let batch = tiny(5, 90, [0.5, 1.0]);
    let plain = model.forward(&batch, &Request::default()).unwrap().logits.mean(0).unwrap();
    let moved = method.step(&batch).unwrap().logits.mean(0).unwrap().to_vec().unwrap();
    let bias = model.params()[model.params().id("head.bias").unwrap()].to_vec().unwrap();
    for ((plain, moved), bias) in plain.to_vec().unwrap().iter().zip(moved).zip(bias) {
        assert!((moved - (bias + 0.1 * (plain - bias))).abs() < 1e-5, "{plain} {moved} {bias}");
    }
}

#[test]
fn batch_norms_mix_training_and_stream() {
    let net = resnet();
    let args = BuildArgs::new(&*net, Seed(0));
    let batch = images(1, 6, [0.2, 0.9], [32, 32]);
    let build =
        |name: &str, settings: &toml::Table| by_name(name).unwrap().build(&args, settings).unwrap();
    let logits = |method: &mut dyn Method, batch: &Tensor| {
        method.step(batch).unwrap().logits.to_vec().unwrap()
    };
    // Without images of training the first batch has its own statistics, and with very many those of training.
    let none = &toml! { source_images = 0 prior = false };
    let batch_only = logits(build("bn_adapt", &toml::Table::new()).as_mut(), &batch);
    let first = logits(build("keel", none).as_mut(), &batch);
    assert!(first.iter().zip(&batch_only).all(|(a, b)| (a - b).abs() < 1e-4));
    let source = logits(build("source", &toml::Table::new()).as_mut(), &batch);
    let many = logits(
        build("keel", &toml! { source_images = 1_000_000_000 prior = false }).as_mut(),
        &batch,
    );
    assert!(many.iter().zip(&source).all(|(a, b)| (a - b).abs() < 1e-3));
    let mut method = build("keel", none);
    let fresh = bits(&method.predict(&batch).unwrap());
    (0..3).for_each(|seed| drop(method.step(&images(seed, 5, [0.0, 0.4], [32, 32])).unwrap()));
    let saved = method.save().unwrap();
    let next = logits(method.as_mut(), &batch);
    let mut other = build("keel", none);
    other.load(&saved).unwrap();
    assert_eq!(logits(other.as_mut(), &batch), next);
    method.reset().unwrap();
    assert_eq!(bits(&method.predict(&batch).unwrap()), fresh);
}

/// While classes are mixed the last fifty images count, so that nothing is left of the batch before one of fifty; where
/// they may come in runs, five hundred do. A probe knows nothing of the stream.
#[test]
fn statistics_of_batch_norms_follow_mixed_classes_faster() {
    let net = resnet();
    let args = BuildArgs::new(&*net, Seed(0));
    let batch = |seed, size, range| images(seed, size, range, [32, 32]);
    let (dark, bright, few) =
        (batch(1, 50, [0.0, 0.4]), batch(2, 50, [0.6, 1.0]), batch(3, 10, [0.6, 1.0]));
    let after = |prior: bool, first: Option<&Tensor>, next: &Tensor| {
        let settings = toml::Table::from_iter([("prior".into(), prior.into())]);
        let mut method = by_name("keel").unwrap().build(&args, &settings).unwrap();
        first.iter().for_each(|first| drop(method.step(first).unwrap()));
        let probe = bits(&method.probe(next).unwrap());
        (bits(&method.step(next).unwrap().logits), probe)
    };
    let fresh = after(false, None, &bright);
    assert_eq!(after(false, Some(&dark), &bright), fresh);
    let (small, probe) = after(false, Some(&dark), &few);
    assert!(small != after(false, None, &few).0 && probe == after(false, None, &few).1);
    // Random weights answer with one class, which is a run.
    assert_ne!(after(true, Some(&dark), &bright).0, after(true, None, &bright).0);
}

/// Whether classes are mixed becomes known with a batch, and what is saved after it predicts as what was not.
#[test]
fn a_state_of_batch_norms_predicts_as_before_it_was_saved() {
    let mut net = resnet();
    let batch = images(1, 50, [0.0, 1.0], [32, 32]);
    let build = |net: &dyn Backbone| {
        by_name("keel").unwrap().build(&BuildArgs::new(net, Seed(0)), &toml::Table::new()).unwrap()
    };
    let logits = build(&*net).step(&batch).unwrap().logits;
    // Without the mean logit the largest one varies from image to image.
    let id = net.params().id("linear.bias").unwrap();
    let centred = net.params()[id].sub(&logits.mean(0).unwrap()).unwrap();
    net.params_mut().set(id, &centred).unwrap();
    let mut method = build(&*net);
    let step = method.step(&batch).unwrap();
    assert_eq!(scalar(&step, "correlated"), 0.0);
    let mut other = build(&*net);
    let fresh = bits(&other.predict(&batch).unwrap());
    other.load(&method.save().unwrap()).unwrap();
    let saved = bits(&other.predict(&batch).unwrap());
    assert_eq!(saved, bits(&method.predict(&batch).unwrap()));
    assert_ne!(saved, fresh);
}

/// The gradient form, with steps from batches of any size.
fn learning(model: &Vit, more: &toml::Table) -> Box<dyn Method> {
    let mut settings = toml! { preset = "vit_cifar10" form = "gradient" trained_blocks = 2 };
    settings.extend(more.clone());
    keel(model, &settings)
}

fn weights(method: &dyn Method) -> Vec<u32> {
    let params = method.model().unwrap().params();
    let trained = method.trainable();
    trained.iter().flat_map(|name| bits(&params[params.id(name).unwrap()])).collect()
}

#[test]
fn a_step_that_poisons_the_weights_is_undone_and_says_so() {
    let mut method = learning(&vit(3), &toml! { lr = 1e300 });
    let batch = tiny(2, 20, [0.5, 1.0]);
    let (before, predicted) = (weights(method.as_ref()), bits(&method.predict(&batch).unwrap()));
    assert!(matches!(method.step(&batch), Err(crate::Error::Diverged { step: 0, .. })));
    assert_eq!(weights(method.as_ref()), before);
    assert_eq!(bits(&method.predict(&batch).unwrap()), predicted);
    assert_eq!(method.save().unwrap().counter("form/domains").unwrap(), 0);
}

#[test]
fn small_batches_classes_in_runs_and_probes_take_no_step() {
    let model = vit(3);
    let mut method = learning(&model, &toml! { fewest_images = 16 });
    let source = weights(method.as_ref());
    method.step(&tiny(2, 15, [0.5, 1.0])).unwrap();
    method.probe(&tiny(2, 30, [0.5, 1.0])).unwrap();
    assert_eq!(weights(method.as_ref()), source);
    method.reset().unwrap();
    // One image again and again is of one class.
    let one = tiny(4, 1, [0.5, 1.0]);
    let same = Tensor::concat(&[&one; 20], 0).unwrap();
    let runs: Vec<(f64, Vec<u32>)> = (0..6)
        .map(|_| {
            let step = method.step(&same).unwrap();
            (scalar(&step, "correlated"), weights(method.as_ref()))
        })
        .collect();
    let first = runs.iter().position(|(correlated, _)| *correlated == 1.0).unwrap();
    assert!(first < 3 && runs[first].1 != source);
    assert!(runs[first..].iter().all(|run| *run == runs[first]));
}

#[test]
fn the_pull_ends_at_the_source_and_each_loss_can_be_left_out() {
    let model = vit(3);
    let batch = tiny(2, 20, [0.5, 1.0]);
    let mut method = learning(&model, &toml! { pull = 1.0 });
    let source = weights(method.as_ref());
    method.step(&batch).unwrap();
    // Rounding of `a + (b - a)`.
    let apart = |(a, b): (&u32, &u32)| (f32::from_bits(*a) - f32::from_bits(*b)).abs();
    assert!(weights(method.as_ref()).iter().zip(&source).map(apart).all(|gap| gap < 1e-6));
    let names = |settings: &toml::Table| {
        let step = learning(&model, settings).step(&batch).unwrap();
        let losses = step.scalars.iter().filter(|(name, _)| name.starts_with("loss"));
        losses.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    // The tiny model is sure of nothing, so nothing is mixed.
    assert_eq!(names(&toml::Table::new()), ["loss_information", "loss_statistic"]);
    assert_eq!(names(&toml! { statistic_weight = 0.0 }), ["loss_information"]);
    assert_eq!(names(&toml! { information_weight = 0.0 }), ["loss_statistic"]);
    assert!(names(&toml! { information_weight = 0.0 statistic_weight = 0.0 }).is_empty());
}

#[test]
fn the_statistic_loss_brings_tokens_nearer_to_those_of_clean_images() {
    let settings = toml! {
        information_weight = 0.0 consistency_weight = 0.0 lr = 2e-4 pull = 0.0 prior = false
    };
    let mut method = learning(&vit(3), &settings);
    let losses: Vec<f64> = (0..10)
        .map(|_| scalar(&method.step(&tiny(2, 40, [0.6, 1.0])).unwrap(), "loss_statistic"))
        .collect();
    assert!(losses[9] < 0.8 * losses[0], "{losses:?}");
}
