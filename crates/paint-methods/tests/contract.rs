//! What every method promises, with its default settings and with each of its presets: those of `METHODS`, and one of
//! another crate, which has none.

#![expect(clippy::unwrap_used, reason = "a method that cannot be built or run breaks its contract")]

mod networks;
mod outside;
#[path = "../src/tiny_vit.rs"]
mod tiny_vit;
mod variants;

use std::collections::BTreeMap;
use std::sync::Arc;

use networks::model;
use paint_methods::{
    BuildArgs, Error, METHODS, Method, MethodEntry, Predictor, Registry, SourceData, SourceNeed,
    State,
};
use paint_nn::params::{Params, Trainable};
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};
use toml::{Table, toml};
use variants::{begins_as_source, filter_that_nothing_passes, variants};

const CLASSES: usize = tiny_vit::CONFIG.num_classes;

fn images(seed: u64, b: usize) -> Tensor {
    let mut rng = Seed(seed).derive("contract/images", &[]);
    let data = (0..b * 3 * 8 * 12).map(|_| rng.uniform() as f32).collect();
    Tensor::from_vec(data, [b, 3, 8, 12], &Device::cpu()).unwrap()
}

fn build(entry: &MethodEntry, settings: &Table, seed: u64) -> Box<dyn Method> {
    // Darker than the stream, which is a domain of its own then.
    let images = images(77, 9).scale(0.4).unwrap();
    let (model, labels) = (model(entry), [0, 1, 2, 3, 4, 0, 1, 2, 3]);
    let source = Some(SourceData { images: &images, labels: Some(&labels) });
    entry.build(&BuildArgs { source, ..BuildArgs::new(&*model, Seed(seed)) }, settings).unwrap()
}

/// Runs `check` for every method and variant.
fn for_each(check: impl Fn(&MethodEntry, &Table)) {
    for entry in Registry::default().with(outside::ENTRY).unwrap().rows() {
        variants(entry).iter().for_each(|settings| check(entry, settings));
    }
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

fn tensor_bits(state: &State) -> BTreeMap<String, Vec<u32>> {
    state.tensors.iter().map(|(name, tensor)| (name.clone(), bits(tensor))).collect()
}

type StateBits = (BTreeMap<String, Vec<u32>>, BTreeMap<String, u64>);

fn state_bits(state: &State) -> StateBits {
    (tensor_bits(state), state.counters.clone())
}

/// The values that train, by name: of the model, and of what is saved beside it (`projector/params/fc1.weight` is
/// `projector.fc1.weight`).
fn trained_bits(method: &dyn Method) -> BTreeMap<String, Vec<u32>> {
    let trainable = method.trainable();
    let params = method.model().map(|model| model.params().iter()).into_iter().flatten();
    let of_model = params.filter(|param| trainable.iter().any(|name| name == param.name()));
    let of_model = of_model.map(|param| (param.name().to_owned(), bits(param.tensor())));
    let beside = tensor_bits(&method.save().unwrap()).into_iter().filter_map(|(key, bits)| {
        let (part, name) = key.split_once("/params/")?;
        Some((format!("{part}.{name}"), bits))
    });
    of_model.chain(beside).collect()
}

fn steps(method: &mut dyn Method, seeds: &[u64]) -> Vec<Vec<u32>> {
    seeds.iter().map(|&seed| bits(&method.step(&images(seed, 6)).unwrap().logits)).collect()
}

fn hash(params: &Params) -> u64 {
    params.fingerprint(&Trainable::All).unwrap()
}

#[test]
fn logits_have_one_row_an_image_and_are_finite() {
    for_each(|entry, settings| {
        let mut method = build(entry, settings, 1);
        for seed in 0..4 {
            let logits = method.step(&images(seed, 6)).unwrap().logits;
            assert_eq!(logits.shape(), [6, CLASSES], "{}", entry.name);
            assert!(logits.to_vec().unwrap().iter().all(|z| z.is_finite()), "{}", entry.name);
        }
    });
}

#[test]
fn reset_restores_every_bit() {
    for_each(|entry, settings| {
        let mut method = build(entry, settings, 1);
        let fresh = state_bits(&method.save().unwrap());
        let first = steps(method.as_mut(), &[0, 1, 2]);
        method.reset().unwrap();
        assert_eq!(state_bits(&method.save().unwrap()), fresh, "{} {settings}", entry.name);
        if let Some(adapted) = method.model() {
            let same = hash(adapted.params()) == hash(model(entry).params());
            assert_eq!(same, begins_as_source(entry, settings), "{} {settings}", entry.name);
        }
        assert_eq!(steps(method.as_mut(), &[0, 1, 2]), first, "{} {settings}", entry.name);
    });
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_changes_what_is_drawn() {
    for_each(|entry, settings| {
        let run = |seed| {
            let mut method = build(entry, settings, seed);
            (steps(method.as_mut(), &[0, 1, 2]), state_bits(&method.save().unwrap()))
        };
        let first = run(7);
        assert_eq!(first, run(7), "{} {settings}", entry.name);
        if ["cotta", "rmt", "santa", "ecotta", "dpcore", "paint"].contains(&entry.name) {
            assert_ne!(first, run(8), "{} {settings}: another seed", entry.name);
        }
    });
}

#[test]
fn parameters_that_are_not_trainable_keep_their_bits_and_the_others_move() {
    for_each(|entry, settings| {
        let mut method = build(entry, settings, 1);
        let before = trained_bits(method.as_ref());
        let mut trainable = method.trainable();
        trainable.sort_unstable();
        assert!(before.keys().eq(&trainable), "{} {settings}: {trainable:?}", entry.name);
        steps(method.as_mut(), &[0, 1, 2]);
        let after = trained_bits(method.as_ref());
        for (name, bits) in &before {
            assert_ne!(&after[name], bits, "{} {settings}: {name} rests", entry.name);
        }
        let trainable = method.trainable();
        let Some(adapted) = method.model() else { return };
        for (now, then) in adapted.params().iter().zip(model(entry).params().iter()) {
            let same = bits(now.tensor()) == bits(then.tensor());
            let trains = trainable.iter().any(|name| name == now.name());
            assert!(same || trains, "{} {settings}: {} moved", entry.name, now.name());
        }
    });
}

#[test]
fn a_loaded_state_continues_with_the_same_bits() {
    for_each(|entry, settings| {
        let mut method = build(entry, settings, 1);
        steps(method.as_mut(), &[0, 1, 2]);
        let mut other = build(entry, settings, 1);
        other.load(&method.save().unwrap()).unwrap();
        let (a, b) = (steps(method.as_mut(), &[3, 0]), steps(other.as_mut(), &[3, 0]));
        assert_eq!(a, b, "{} {settings}", entry.name);
        let states = [method.save().unwrap(), other.save().unwrap()];
        assert_eq!(state_bits(&states[0]), state_bits(&states[1]), "{} {settings}", entry.name);
    });
}

#[test]
fn one_image_and_a_short_last_batch_work() {
    for_each(|entry, settings| {
        let mut method = build(entry, settings, 1);
        for b in [1, 6, 2, 1] {
            let logits = method.step(&images(b as u64, b)).unwrap().logits;
            assert_eq!(logits.shape(), [b, CLASSES], "{}", entry.name);
            assert!(logits.to_vec().unwrap().iter().all(|z| z.is_finite()), "{}", entry.name);
        }
    });
}

#[test]
fn a_batch_that_a_filter_keeps_nothing_of_changes_no_parameter() {
    for_each(|entry, settings| {
        let Some(filter) = filter_that_nothing_passes(entry.name) else { return };
        let settings = settings.clone().into_iter().chain(filter).collect();
        let mut method = build(entry, &settings, 1);
        let before = trained_bits(method.as_ref());
        for seed in 0..3 {
            let step = method.step(&images(seed, 6)).unwrap();
            assert!(step.logits.to_vec().unwrap().iter().all(|z| z.is_finite()), "{}", entry.name);
            assert!(step.scalars.iter().all(|(_, value)| value.is_finite()), "{}", entry.name);
        }
        let mut after = trained_bits(method.as_ref());
        after.retain(|name, _| before.contains_key(name));
        assert_eq!(after, before, "{} {settings}", entry.name);
    });
}

#[test]
fn predicting_leaves_the_state_untouched() {
    for_each(|entry, settings| {
        let mut method = build(entry, settings, 1);
        let empty = method.predict(&images(9, 6)).unwrap();
        assert_eq!(empty.shape(), [6, CLASSES]);
        steps(method.as_mut(), &[0, 1]);
        let before = state_bits(&method.save().unwrap());
        let first = method.predict(&images(9, 4)).unwrap();
        let second = method.predict(&images(9, 4)).unwrap();
        assert_eq!(bits(&first), bits(&second), "{} {settings}", entry.name);
        assert_eq!(state_bits(&method.save().unwrap()), before, "{} {settings}", entry.name);
    });
}

#[test]
fn a_predictor_keeps_the_state_that_it_was_made_in() {
    fn predictor(method: &dyn Method) -> Arc<dyn Predictor> {
        method.predictor().unwrap()
    }
    for_each(|entry, settings| {
        if Registry::default().find(entry.name).is_err() {
            return;
        }
        let mut method = build(entry, settings, 1);
        steps(method.as_mut(), &[0, 1]);
        let (expected, reader) = (method.predict(&images(9, 4)).unwrap(), predictor(&*method));
        steps(method.as_mut(), &[2, 3]);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| reader.logits(&images(9, 4)).unwrap()).join().unwrap()
        });
        assert_eq!(bits(&found), bits(&expected), "{} {settings}", entry.name);
        let (now, found) = (method.predict(&images(9, 4)).unwrap(), predictor(&*method));
        assert_eq!(bits(&found.logits(&images(9, 4)).unwrap()), bits(&now), "{settings}");
    });
}

#[test]
fn only_the_classes_that_were_asked_for_compete() {
    for_each(|entry, settings| {
        let (model, source_images) = (model(entry), images(77, 9));
        let source =
            SourceData { images: &source_images, labels: Some(&[0, 1, 0, 1, 0, 1, 0, 1, 0]) };
        let all = BuildArgs { source: Some(source), ..BuildArgs::new(&*model, Seed(1)) };
        let some = BuildArgs { classes: Some(&[3, 1]), ..all };
        let mut method = entry.build(&some, settings).unwrap();
        assert_eq!(method.step(&images(0, 6)).unwrap().logits.shape(), [6, 2], "{}", entry.name);
        if entry.name == "lame" {
            return; // Its first prediction is not the source's: it depends on all classes that compete.
        }
        // A method that trains before it is deployed would learn something else with other classes.
        let mut settings = settings.clone();
        if let Some(images) = settings.get_mut("warmup_images") {
            *images = 0.into();
        }
        let [all, some] = [all, some].map(|args| {
            let method = entry.build(&args, &settings).unwrap();
            method.predict(&images(0, 6)).unwrap().to_vec().unwrap()
        });
        let expected: Vec<f32> = all.chunks(CLASSES).flat_map(|row| [row[3], row[1]]).collect();
        assert_eq!(some.len(), 12);
        let close = some.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close, "{} {settings}", entry.name);
    });
}

#[test]
fn an_unknown_setting_is_refused_by_name() {
    for_each(|entry, settings| {
        let mut settings = settings.clone();
        settings.extend(toml! { lerning_rate = 0.1 });
        let model = model(entry);
        let message =
            entry.build(&BuildArgs::new(&*model, Seed(0)), &settings).err().unwrap().to_string();
        assert!(message.contains(entry.name) && message.contains("lerning_rate"), "{message}");
    });
}

#[test]
fn a_threshold_on_cosines_is_a_cosine() {
    for name in ["eta", "eata", "rdumb"] {
        for (d, holds) in [(0.0, true), (1.0, true), (1.1, false), (-0.1, false)] {
            let resolved = paint_methods::by_name(name).unwrap().resolve(&toml! { d = d });
            assert_eq!(resolved.is_ok(), holds, "{name} {d}");
        }
    }
}

#[test]
fn resolved_settings_resolve_to_themselves_and_build() {
    for_each(|entry, settings| {
        let resolved = entry.resolve(settings).unwrap();
        assert_eq!(entry.resolve(&resolved).unwrap(), resolved, "{}", entry.name);
        let runs = [settings, &resolved].map(|s| steps(build(entry, s, 1).as_mut(), &[0, 1]));
        assert_eq!(runs[0], runs[1], "{}", entry.name);
    });
}

#[test]
fn images_that_are_not_finite_are_refused_and_change_nothing() {
    for_each(|entry, settings| {
        let mut method = build(entry, settings, 1);
        steps(method.as_mut(), &[0]);
        let before = state_bits(&method.save().unwrap());
        let mut pixels = images(1, 2).to_vec().unwrap();
        pixels[17] = f32::NAN;
        let bad = Tensor::from_vec(pixels, [2, 3, 8, 12], &Device::cpu()).unwrap();
        assert!(matches!(method.step(&bad), Err(Error::Images { .. })), "{}", entry.name);
        assert!(matches!(method.predict(&bad), Err(Error::Images { .. })), "{}", entry.name);
        assert_eq!(state_bits(&method.save().unwrap()), before, "{} {settings}", entry.name);
    });
}

#[test]
fn a_method_that_needs_source_data_says_what_is_missing() {
    for entry in METHODS.iter().filter(|entry| entry.needs_source.reads_images()) {
        let error =
            entry.build(&BuildArgs::new(&*model(entry), Seed(0)), &Table::new()).err().unwrap();
        let message = error.to_string();
        assert!(matches!(error, Error::NoSource { .. }), "{}: {message}", entry.name);
        assert!(message.starts_with(entry.name) && message.contains("source images"), "{message}");
    }
}

#[test]
fn dpcore_needs_two_source_images_for_a_deviation() {
    let entry = paint_methods::by_name("dpcore").unwrap();
    let (model, one) = (model(entry), images(77, 1));
    let source = Some(SourceData { images: &one, labels: None });
    let args = BuildArgs { source, ..BuildArgs::new(&*model, Seed(0)) };
    let message = entry.build(&args, &Table::new()).err().unwrap().to_string();
    assert!(message.contains("at least two") && message.contains("one"), "{message}");
}

#[test]
fn labels_that_are_missing_or_do_not_fit_are_refused() {
    let pictures = images(77, 9);
    for entry in METHODS.iter().filter(|entry| entry.needs_source == SourceNeed::Labelled) {
        let model = model(entry);
        let message = |labels: Option<&[usize]>| {
            let source = Some(SourceData { images: &pictures, labels });
            let args = BuildArgs { source, ..BuildArgs::new(&*model, Seed(0)) };
            entry.build(&args, &Table::new()).err().unwrap().to_string()
        };
        let without = message(None);
        assert!(without.ends_with("and was given images without labels"), "{without}");
        assert_eq!(
            message(Some(&[0; 8])),
            "source labels: expected 9, one for each image, found 8"
        );
        assert_eq!(
            message(Some(&[0, 1, 2, 3, 4, 5, 0, 0, 0])),
            "source labels: expected classes 0 to 4, found 5"
        );
    }
}

/// What a damaged or foreign state may hold: entries that are missing, of another length, not numbers, or other counts.
/// Loading may refuse it, and so may the next step; neither may panic.
#[test]
fn a_state_that_is_not_its_own_is_refused_or_survived() {
    for entry in METHODS {
        let settings = variants(entry).pop().unwrap();
        let mut method = build(entry, &settings, 1);
        steps(method.as_mut(), &[0, 1]);
        let state = method.save().unwrap();
        let survives = |state: &State| {
            let mut other = build(entry, &settings, 1);
            if other.load(state).is_ok() {
                let _ = (other.predict(&images(2, 3)), other.step(&images(3, 3)));
            }
            other.reset().unwrap();
            other.step(&images(0, 3)).unwrap();
        };
        // Of parameters and optimizers, which all methods treat alike, a few tell as much.
        let few = |name: &&String| {
            !name.contains('/') || name.bytes().map(usize::from).sum::<usize>() % 13 == 0
        };
        for name in state.tensors.keys().filter(few) {
            let value = &state.tensors[name];
            let other = |data: Vec<f32>| {
                let shape = [data.len()];
                Some(Tensor::from_vec(data, shape, &Device::cpu()).unwrap())
            };
            let count = value.elem_count();
            let same_shape =
                Tensor::from_vec(vec![f32::NAN; count], value.shape(), &Device::cpu()).unwrap();
            for replaced in
                [None, other(vec![0.5; count + 1]), other(vec![0.5; 1]), Some(same_shape)]
            {
                let mut state = state.clone();
                match replaced {
                    Some(value) => state.tensors.insert(name.clone(), value),
                    None => state.tensors.remove(name),
                };
                survives(&state);
            }
        }
        for name in state.counters.keys().filter(few) {
            for replaced in [None, Some(0), Some(7)] {
                let mut state = state.clone();
                match replaced {
                    Some(value) => state.counters.insert(name.clone(), value),
                    None => state.counters.remove(name),
                };
                survives(&state);
            }
        }
    }
}
