//! What the golden steps of `tests/golden_paint.rs` do not show: mixing, ablations, edges and settings.

use paint_nn::backbone::cifar_resnet::CifarResnetConfig;
use paint_nn::backbone::vit::Vit;
use paint_nn::backbone::{BuildOptions, Weights};
use paint_rng::Seed;
use paint_tensor::Device;
use toml::{Table, toml};

use paint_nn::backbone::Backbone as _;
use paint_nn::params::Trainable;
use paint_tensor::Tensor;

use super::mixing::{Mix, PseudoLabels};
use super::networks::Routines;
use super::quirks::Quirks;
use super::*;
use crate::draws::{Draws, PromptDraws as _, Seeded};
use crate::wrap::Wrap;
use crate::{BuildArgs, Error, Method as _, SourceData, State, guard, stream, tiny_vit};

mod keys;
mod settings;

fn vit() -> Vit {
    vit_on(&Device::cpu())
}

fn vit_on(device: &Device) -> Vit {
    tiny_vit::build(tiny_vit::CONFIG, 3, &[("head.weight", 30.0)], device)
}

fn paint(settings: &Table) -> Paint {
    let config = Config::read(settings).unwrap();
    let (model, clean) = (vit(), images(70, 12));
    let source = Some(SourceData { images: &clean, labels: None });
    Paint::new(&BuildArgs { source, ..BuildArgs::new(&model, Seed(5)) }, config).unwrap()
}

fn images(seed: u64, b: usize) -> Tensor {
    images_on(seed, b, &Device::cpu())
}

fn images_on(seed: u64, b: usize, device: &Device) -> Tensor {
    let mut rng = Seed(seed).derive("images", &[]);
    let data = (0..b * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
    Tensor::from_vec(data, [b, 3, 8, 12], device).unwrap()
}

fn logits(rows: &[[f32; 3]]) -> Tensor {
    Tensor::from_vec(rows.concat(), [rows.len(), 3], &Device::cpu()).unwrap()
}

fn fingerprint(paint: &Paint, choice: &Trainable) -> u64 {
    paint.networks.model.params().fingerprint(choice).unwrap()
}

/// The names and bits of a saved state.
fn saved(paint: &Paint) -> Vec<(String, Vec<u32>)> {
    let bits = |t: &Tensor| t.to_vec().unwrap().into_iter().map(f32::to_bits).collect();
    paint.save().unwrap().tensors.iter().map(|(name, t)| (name.clone(), bits(t))).collect()
}

#[test]
fn a_domain_not_met_before_is_probed_with_a_prompt_of_its_own_that_is_not_kept() {
    let strange = images(7, 6);
    for (eta, met) in [(1.0, false), (-1.0, true)] {
        let mut paint = paint(&toml! { preset = "paper_adam" eta = eta lr_prompts = 0.5 });
        paint.step(&images(1, 6)).unwrap();
        let before = saved(&paint);
        let [probed, predicted] = [paint.probe(&strange), paint.predict(&strange)]
            .map(|logits| logits.unwrap().to_vec().unwrap());
        assert_eq!(probed == predicted, met);
        assert!(saved(&paint) == before && paint.memory().len() == 1);
        // What a step without a rate would predict.
        let mut still = self::paint(
            &toml! { preset = "paper_adam" eta = eta lr_prompts = 0.0 lr_blocks = 0.0 },
        );
        still.load(&paint.save().unwrap()).unwrap();
        assert_eq!(still.step(&strange).unwrap().logits.to_vec().unwrap(), probed);
    }
}

#[test]
fn a_copy_learns_a_prompt_and_leaves_the_network_and_the_method_alone() {
    let strange = images(7, 6);
    for preset in ["paper_adam", "reference_cifar10_c"] {
        let mut paint = paint(&toml! { preset = preset oracle = true lr_prompts = 0.5 });
        paint.set_domain(Some(0));
        paint.step(&images(1, 6)).unwrap();
        paint.set_domain(Some(9));
        let (before, probed) = (saved(&paint), paint.probe(&strange).unwrap().to_vec().unwrap());
        let mut copy = paint.with_frozen_network();
        copy.step(&strange).unwrap();
        assert_ne!(copy.probe(&strange).unwrap().to_vec().unwrap(), probed, "{preset}");
        assert_eq!(fingerprint(&copy, &Trainable::All), fingerprint(&paint, &Trainable::All));
        assert!(copy.memory().len() == 2 && saved(&paint) == before, "{preset}");
        assert_eq!(paint.probe(&strange).unwrap().to_vec().unwrap(), probed, "{preset}");
    }
    let bare = paint(&toml! { preset = "paper_adam" prompt_length = 0 });
    assert!(bare.prompt_learner().is_none());
    let (model, inner) = (vit(), paint(&toml! { preset = "paper_adam" }));
    let wrap =
        Wrap { stream: Some(stream::Config::default()), guard: Some(guard::Config::default()) };
    let wrapped = wrap.around(Box::new(inner), &BuildArgs::new(&model, Seed(5))).unwrap();
    assert!(wrapped.prompt_learner().is_some());
}

/// On the device that `PAINT_TEST_DEVICE` names: a GPU records these passes, the CPU computes them every time.
#[test]
fn passes_that_were_recorded_change_no_bit() {
    let device = std::env::var("PAINT_TEST_DEVICE")
        .map_or_else(|_| Device::cpu(), |name| Device::from_name(&name).unwrap());
    for settings in [toml! { preset = "paper_adam" }, toml! { preset = "reference" eta = -1.0 }] {
        let make = || {
            let config = Config::read(&settings).unwrap();
            Paint::new(&BuildArgs::new(&vit_on(&device), Seed(5)), config).unwrap()
        };
        let (mut recorded, mut plain) = (make(), make());
        for (step, b) in [6, 6, 6, 4, 6, 6].into_iter().enumerate() {
            let images = images_on(step as u64, b, &device);
            plain.networks.routines = Routines::default();
            let pair = [&mut recorded, &mut plain]
                .map(|paint| paint.adapt(&images).unwrap().logits.to_vec().unwrap());
            assert_eq!(pair[0], pair[1], "step {step}");
            assert_eq!(
                recorded.networks.routines.are_recorded(),
                device.memory().is_some() && step > 0 && b == 6
            );
        }
        assert_eq!(saved(&recorded), saved(&plain));
    }
}

#[test]
fn mixing_embeddings_equals_mixing_pixels() {
    let (vit, images) = (vit(), images(1, 4));
    let pseudo = PseudoLabels { labels: vec![0; 4], confident: (0..4).collect() };
    let mix = Mix::draw(&pseudo, &Seeded(Seed(2)), 0, 1.0);
    let embedded = mix.blend(&vit.embed(&images).unwrap()).unwrap().to_vec().unwrap();
    let pixels = vit.embed(&mix.blend(&images).unwrap()).unwrap().to_vec().unwrap();
    assert_eq!(embedded.len(), pixels.len());
    for (a, b) in embedded.iter().zip(&pixels) {
        // 1e-6: values of about 0.1 in float32, two roundings more on one side.
        assert!((a - b).abs() < 1e-6, "{a} and {b}");
    }
}

#[test]
fn a_sample_is_confident_above_phi_and_with_a_weak_second() {
    // p = [0.75, 0.25 - tiny, tiny], [0.5, 0.5], [0.75, 0.125, 0.125].
    let z = logits(&[[3f32.ln(), 0.0, -30.0], [0.0, 0.0, -30.0], [6f32.ln(), 0.0, 0.0]]);
    let confident = |settings: &Table| {
        let config = Config::read(settings).unwrap();
        let evidence = PseudoLabels::evidence(&z).unwrap().to_vec().unwrap();
        PseudoLabels::of(&evidence, 3, config.phi, Quirks::of(&config)).confident
    };
    assert_eq!(confident(&toml! { phi = 0.6 }), [0, 2]);
    assert_eq!(confident(&toml! { phi = 0.6 phi_second = 0.2 }), [2]);
    assert_eq!(confident(&toml! { phi = 0.5 phi_bound = "strict" }), [0, 2]);
    assert_eq!(confident(&toml! { phi = 0.5 phi_bound = "inclusive" }), [0, 1, 2]);
    assert!(confident(&toml! { phi = 1.0 }).is_empty());
}

#[test]
fn without_prompts_there_is_no_memory_and_the_blocks_train() {
    let mut paint = paint(&toml! { prompt_length = 0 });
    let before = fingerprint(&paint, &Trainable::Blocks(0..3));
    let step = paint.step(&images(1, 6)).unwrap();
    assert!(step.prompt.is_none() && paint.memory().is_empty());
    assert_ne!(fingerprint(&paint, &Trainable::Blocks(0..3)), before);
}

#[test]
fn without_blocks_only_the_prompt_trains() {
    let mut paint = paint(&toml! { blocks = 0 });
    let before = fingerprint(&paint, &Trainable::All);
    paint.adapt(&images(1, 6)).unwrap();
    assert_eq!(fingerprint(&paint, &Trainable::All), before);
    let drawn = Seeded(Seed(5)).prompt(0, 32);
    assert_ne!(paint.memory().prompt(0).unwrap().to_vec().unwrap(), drawn);
    assert_eq!(paint.trainable(), ["prompts.0"]);
}

#[test]
fn beta_zero_mixes_nothing_and_diversity_zero_minimises_entropy_alone() {
    let found =
        paint(&toml! { beta = 0 diversity_weight = 0 phi = 0.0 }).adapt(&images(1, 6)).unwrap();
    assert!(found.mixed.is_none() && found.losses.consistency.is_none());
    assert_eq!(found.losses.total, found.losses.entropy);
    assert_eq!(found.confident.len(), 6);
}

#[test]
fn a_single_image_without_confidence_moves_nothing_but_the_memory() {
    for &preset in Preset::NAMES {
        let mut paint = paint(&toml! { preset = preset phi = 1.0 phi_bound = "strict" });
        let before = fingerprint(&paint, &Trainable::All);
        let length = paint.config().prompt_length * 16;
        let found = paint.adapt(&images(1, 1)).unwrap();
        assert_eq!(found.losses.total, 0.0, "{preset}");
        assert_eq!(fingerprint(&paint, &Trainable::All), before, "{preset}");
        let prompt = paint.memory().prompt(0).unwrap().to_vec().unwrap();
        assert_eq!(prompt, Seeded(Seed(5)).prompt(0, length), "{preset}");
    }
}

#[test]
fn entropy_without_diversity_is_lowered_for_a_single_image_too() {
    let settings = toml! { diversity_weight = 0 phi = 1.0 phi_bound = "strict" };
    let mut paint = paint(&settings);
    let [first, second] = [0, 1].map(|_| paint.adapt(&images(1, 1)).unwrap().losses);
    assert_eq!(first.total, first.entropy);
    assert!(second.entropy < first.entropy, "{first:?} and {second:?}");
}

#[test]
fn without_mixing_the_keys_move_as_often_and_as_far() {
    for (preset, retrievals) in [("reference", 3), ("reference_imagenet_r", 4)] {
        let keys = |beta: f64| {
            let mut paint = paint(&toml! { preset = preset eta = -1.0 beta = beta });
            for seed in 0..3 {
                let found = paint.adapt(&images(seed, 6)).unwrap();
                assert_eq!(found.selections.len(), retrievals, "{preset} {beta}");
            }
            paint.memory().key(0).unwrap().to_vec()
        };
        assert_eq!(keys(0.0), keys(1.0), "{preset}");
    }
}

/// The direction at `angle` from `x` in the plane of `x` and `y`, and the angle from `x` to `y`.
fn turned(x: &[f32], y: &[f32], angle: f64) -> (Vec<f64>, f64) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let unit = |v: Vec<f64>| {
        let length = dot(&v, &v).sqrt();
        v.into_iter().map(|v| v / length).collect::<Vec<f64>>()
    };
    let [x, y] = [x, y].map(|v| unit(v.iter().map(|&v| f64::from(v)).collect()));
    let cos = dot(&x, &y);
    let across = unit(x.iter().zip(&y).map(|(x, y)| y - cos * x).collect());
    let at = |(x, across): (&f64, &f64)| angle.cos() * x + angle.sin() * across;
    (x.iter().zip(&across).map(at).collect(), cos.acos())
}

/// Four images of one kind and two of another, `θ` apart, and two keys in their plane: the first is nearer to the four
/// until it has moved towards the mean, then the second is, which is not reliable. `η` lies between the two.
#[test]
fn the_prompt_reported_is_the_one_that_predicted_and_every_prompt_made_is_counted() {
    let [x, y] = [images(1, 1), images(2, 1)];
    let batch = Tensor::concat(&[&x, &x, &x, &x, &y, &y], 0).unwrap();
    let query = |image: &Tensor| {
        let (_, q) = paint(&Table::new()).networks.look_up(image, None, true).unwrap();
        q.unwrap().mean().to_vec()
    };
    let (x, y) = (query(&x), query(&y));
    let (_, theta) = turned(&x, &y, 0.0);
    let [near, far] = [0.08 * theta, -0.1 * theta];
    let reliability = |angle: f64| (4.0 * angle.cos() + 2.0 * (theta - angle).cos()) / 6.0;
    // Once moved, the second key lies at about -0.013 of the angle.
    let eta = f64::midpoint(reliability(near), reliability(-0.013 * theta));
    let mut paint = paint(&toml! { preset = "reference" eta = eta });
    let mut state = State::default();
    state.counters.insert("next_id".into(), 2);
    for (position, angle) in [near, far].into_iter().enumerate() {
        let key = turned(&x, &y, angle).0.iter().map(|&k| 4.0 * k as f32).collect();
        let key = Tensor::from_vec(key, [16], &Device::cpu()).unwrap();
        let prompt = Tensor::zeros([2, 16], &Device::cpu()).unwrap();
        state.tensors.insert(format!("{position:06}/key"), key);
        state.tensors.insert(format!("{position:06}/prompt"), prompt);
        state.counters.insert(format!("{position:06}/id"), position as u64);
        state.counters.insert(format!("{position:06}/uses"), 1);
    }
    paint.memory.load(&state).unwrap();
    let used = paint.step(&batch).unwrap().prompt.unwrap();
    assert_eq!((used.index, used.allocated, used.made.as_slice()), (2, true, [2].as_slice()));
    assert_eq!((paint.memory().len(), paint.memory().allocated()), (3, 3));
    let again = paint.step(&batch).unwrap().prompt.unwrap();
    assert_eq!(paint.memory().allocated() as usize, 3 + again.made.len());
    assert_eq!(again.allocated, again.made.contains(&again.index));
}

#[test]
fn a_step_that_diverges_is_undone_and_says_so() {
    let mut paint = paint(&toml! { lr_blocks = 1e30 eta = 1.0 });
    paint.config.lr_blocks = 0.01;
    paint.adapt(&images(1, 6)).unwrap();
    let before = saved(&paint);
    paint.config.lr_blocks = 1e30;
    let error = paint.adapt(&images(2, 6)).unwrap_err();
    assert!(matches!(error, Error::Diverged { step: 1, .. }), "{error}");
    assert_eq!(saved(&paint), before);
    assert!(paint.networks.model.params().iter().all(|param| !param.tensor().requires_grad()));
    paint.config.lr_blocks = 0.01;
    assert!(paint.adapt(&images(2, 6)).is_ok());
}

#[test]
fn a_loss_that_is_not_finite_is_named_and_its_step_undone() {
    let mut paint = paint(&toml! { eta = 1.0 });
    paint.adapt(&images(1, 6)).unwrap();
    let params = paint.networks.params_mut();
    let id = params.id("blocks.0.mlp.fc1.weight").unwrap();
    let bad = Tensor::full(params[id].shape(), f32::NAN, &Device::cpu()).unwrap();
    params.set(id, &bad).unwrap();
    let before = saved(&paint);
    let error = paint.adapt(&images(2, 6)).unwrap_err();
    let named = matches!(error, Error::Diverged { what: "the mean entropy", step: 1, .. });
    assert!(named, "{error}");
    assert_eq!(saved(&paint), before);
}

#[test]
fn the_oracle_takes_the_prompt_of_the_domain_and_needs_to_know_it() {
    let mut paint = paint(&toml! { oracle = true });
    assert!(matches!(paint.step(&images(1, 6)), Err(Error::NoDomain)));
    for (domain, allocated) in [(3, true), (0, true), (3, false)] {
        paint.set_domain(Some(domain));
        let used = paint.step(&images(1, 6)).unwrap().prompt.unwrap();
        assert_eq!((used.index, used.allocated), (domain, allocated));
    }
    assert_eq!(paint.memory().ids(), [3, 0]);
}

#[test]
fn a_reliability_below_eta_allocates_a_prompt_for_each_batch() {
    let mut paint = paint(&toml! { eta = 1.0 capacity = 3 });
    for seed in 0..5 {
        assert!(paint.step(&images(seed, 6)).unwrap().prompt.unwrap().allocated);
    }
    assert_eq!((paint.memory().len(), paint.memory().allocated()), (3, 5));
}

#[test]
fn a_key_moves_once_a_batch_three_times_in_the_code_and_four_times_on_imagenet_r() {
    for (preset, kept) in [("paper", 0.8), ("reference", 0.512), ("reference_imagenet_r", 0.4096)] {
        let mut settings = toml! { eta = -1.0 };
        settings.insert("preset".into(), preset.into());
        let mut paint = paint(&settings);
        paint.adapt(&images(1, 6)).unwrap();
        let key = paint.memory().key(0).unwrap().to_vec();
        let second = images(2, 6);
        let q = paint.networks.look_up(&second, None, true).unwrap().1.unwrap();
        paint.adapt(&second).unwrap();
        for ((k, old), mean) in paint.memory().key(0).unwrap().iter().zip(&key).zip(q.mean()) {
            let expected = kept * old + (1.0 - kept) * mean;
            assert!((k - expected).abs() < 1e-5, "{preset}: {k} and {expected}");
        }
    }
}

#[test]
fn each_preset_trains_what_its_script_names() {
    let trains = |preset: &str, name: &str| {
        let settings = Table::from_iter([("preset".to_owned(), preset.into())]);
        paint(&settings).trainable().iter().any(|trained| trained == name)
    };
    for (preset, expected) in [
        ("paper", [true, true, true, false, false]),
        ("reference", [false, false, true, false, false]),
        ("reference_cifar10_c", [false, true, true, false, true]),
        ("reference_imagenet_r", [true, true, true, true, false]),
    ] {
        let names = [
            "blocks.0.norm1.weight",
            "blocks.0.norm1.bias",
            "blocks.2.mlp.fc2.weight",
            "blocks.3.attn.qkv.bias",
            "cls_token",
        ];
        assert_eq!(names.map(|name| trains(preset, name)), expected, "{preset}");
    }
}

#[test]
fn a_state_that_lacks_a_prompt_is_refused_and_nothing_changes() {
    let mut paint = paint(&toml! { eta = 1.0 });
    for seed in 0..3 {
        paint.adapt(&images(seed, 6)).unwrap();
    }
    let (before, mut damaged) = (saved(&paint), paint.save().unwrap());
    damaged.counters.remove("memory/000001/id");
    let error = paint.load(&damaged).unwrap_err().to_string();
    assert_eq!(error, "saved state: expected an entry \"000001/id\", found none");
    assert_eq!(saved(&paint), before);
}

#[test]
fn recorded_draws_take_the_place_of_the_seed() {
    let draws = Draws::seeded(Seed(9));
    let vit = vit();
    let args = BuildArgs { draws: Some(&draws), ..BuildArgs::new(&vit, Seed(5)) };
    let config = Config::read(&toml! { lr_prompts = 0.0 }).unwrap();
    let mut paint = Paint::new(&args, config).unwrap();
    paint.adapt(&images(1, 6)).unwrap();
    let drawn = Seeded(Seed(9)).prompt(0, 32);
    assert_eq!(paint.memory().prompt(0).unwrap().to_vec().unwrap(), drawn);
}
