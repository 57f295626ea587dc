//! Keys of the preset `standardised`, and when images are queried at all.

use std::cell::RefCell;
use std::sync::Arc;

use paint_nn::backbone::watch::{Watch, Watched};
use paint_nn::backbone::{AfterBlock, Request};

use super::*;
use crate::statistics::SourceStatistics;

/// The tokens after block 0, without the class token.
#[derive(Debug, Default)]
struct Patches(RefCell<Vec<f32>>);

impl AfterBlock for Patches {
    fn after_block(&self, index: usize, prefix: usize, tokens: Tensor) -> paint_nn::Result<Tensor> {
        if index == 0 {
            let count = tokens.shape()[1] - prefix;
            *self.0.borrow_mut() = tokens.slice(1, prefix, count)?.to_vec()?;
        }
        Ok(tokens)
    }
}

/// For each image what the classifier reads, then mean and log variance of its patches after block 0.
fn raw(model: &Vit, images: &Tensor) -> Vec<Vec<f64>> {
    let patches = Patches::default();
    let request = Request { after_block: Some(&patches), ..Request::default() };
    let pooled = model.forward(images, &request).unwrap().pooled;
    let [b, d] = pooled.dims2("features").unwrap();
    let (pooled, patches) = (pooled.to_vec().unwrap(), patches.0.into_inner());
    let n = patches.len() / b / d;
    let row = |image: usize| {
        let column = |c: usize| {
            let tokens = patches[image * n * d..(image + 1) * n * d].chunks_exact(d);
            tokens.map(move |token| f64::from(token[c]))
        };
        let mean = |c: usize| column(c).sum::<f64>() / n as f64;
        let var = |c: usize| column(c).map(|x| (x - mean(c)).powi(2)).sum::<f64>() / n as f64;
        let features = pooled[image * d..(image + 1) * d].iter().map(|&x| f64::from(x));
        let style = (0..d).map(mean).chain((0..d).map(|c| (var(c) + 1e-8).ln()));
        features.chain(style).collect()
    };
    (0..b).map(row).collect()
}

#[test]
fn standardised_keys_are_in_clean_deviations_and_less_along_the_directions_of_clean_images() {
    let (model, clean) = (vit(), images(70, 12));
    let settings = toml! { preset = "standardised" };
    let config = Config::read(&settings).unwrap();
    let message = Paint::new(&BuildArgs::new(&model, Seed(5)), config.clone()).err().unwrap();
    assert!(message.to_string().contains("`paint stats`"), "{message}");
    let source = Some(SourceData { images: &clean, labels: None });
    let args = BuildArgs { source, ..BuildArgs::new(&model, Seed(5)) };
    let mut paint = Paint::new(&args, config).unwrap();
    let batch = images(3, 6);
    paint.adapt(&batch).unwrap();
    let key = paint.memory().key(0).unwrap();

    let (clean_rows, rows) = (raw(&model, &clean), raw(&model, &batch));
    let q = rows[0].len();
    assert_eq!(key.len(), q);
    let column = |c: usize| clean_rows.iter().map(move |row| row[c]);
    let mean = |c: usize| column(c).sum::<f64>() / 12.0;
    let std = |c: usize| (column(c).map(|x| (x - mean(c)).powi(2)).sum::<f64>() / 11.0).sqrt();
    let clean: Vec<(f64, f64)> = (0..q).map(|c| (mean(c), std(c))).collect();
    let query = SourceStatistics::collect(&model, &images(70, 12)).unwrap().query;
    let mut expected = vec![0.0; q];
    for row in &rows {
        let x: Vec<f64> =
            row.iter().zip(&clean).map(|(x, (m, s))| ((x - m) / s).clamp(-4.0, 4.0)).collect();
        let mut y = x.clone();
        for (u, g) in query.basis.chunks_exact(q).zip(&query.gain) {
            let along: f64 = u.iter().zip(&x).map(|(u, x)| f64::from(*u) * x).sum();
            y.iter_mut()
                .zip(u)
                .for_each(|(y, u)| *y += (f64::from(*g) - 1.0) * along * f64::from(*u));
        }
        expected.iter_mut().zip(y).for_each(|(sum, y)| *sum += y / 6.0);
    }
    for (c, (found, expected)) in key.iter().zip(expected).enumerate() {
        assert!((f64::from(*found) - expected).abs() < 2e-3, "{c}: {found} and {expected}");
    }
}

#[test]
fn a_state_with_keys_of_another_length_is_refused() {
    let (model, clean) = (vit(), images(70, 12));
    let source = Some(SourceData { images: &clean, labels: None });
    let args = BuildArgs { source, ..BuildArgs::new(&model, Seed(5)) };
    let build = |keys: &str| {
        let settings = toml! { preset = "standardised" keys = keys };
        Paint::new(&args, Config::read(&settings).unwrap()).unwrap()
    };
    let mut raw = build("raw");
    raw.step(&images(3, 6)).unwrap();
    let mut standardised = build("standardised");
    let message = standardised.load(&raw.save().unwrap()).unwrap_err().to_string();
    assert!(message.contains("keys of"), "{message}");
    assert!(standardised.memory().is_empty());
}

#[test]
fn images_are_queried_only_where_a_prompt_may_fit() {
    // The queries, and the predictions before and after the update.
    for (length, step, predict) in [(0, 2, 1), (2, 3, 2)] {
        let watch = Arc::new(Watch::default());
        let model = Watched::new(&vit(), Arc::clone(&watch));
        let settings = toml! { preset = "paper_adam" prompt_length = length beta = 0.0 };
        let config = Config::read(&settings).unwrap();
        let mut paint = Paint::new(&BuildArgs::new(&model, Seed(5)), config).unwrap();
        let batch = images(1, 6);
        let passes = |paint: &mut Paint, learns: bool| {
            watch.take();
            if learns {
                paint.step(&batch).unwrap();
            } else {
                paint.predict(&batch).unwrap();
            }
            watch.take().forward / 6
        };
        assert_eq!(passes(&mut paint, false), 1, "nothing is held yet");
        assert_eq!(passes(&mut paint, true), step);
        assert_eq!(passes(&mut paint, false), predict);
    }
}

#[test]
fn a_guard_and_its_method_share_the_pass_of_the_frozen_model() {
    let watch = Arc::new(Watch::default());
    let model = Watched::new(&vit(), Arc::clone(&watch));
    for (keys, shared) in [("raw", 1), ("standardised", 0)] {
        let clean = images(70, 12);
        let source = Some(SourceData { images: &clean, labels: None });
        let args = BuildArgs { source, ..BuildArgs::new(&model, Seed(5)) };
        let settings = toml! { preset = "paper_adam" prompt_length = 2 beta = 0.0 keys = keys };
        let config = Config::read(&settings).unwrap();
        let paint = || Box::new(Paint::new(&args, config.clone()).unwrap());
        let (mut alone, mut method) = (paint(), paint());
        // The adapted model answers whatever it gains.
        let trusting = guard::Config { gain: -1.0, least_gain: -1.0, ..guard::Config::default() };
        let mut guarded = guard::Guard::new(paint(), &args, trusting).unwrap();
        let batch = images(1, 6);
        let frozen = model.forward(&batch, &Request::default()).unwrap();
        let passes = || watch.take().forward / 6;
        for round in 0..3 {
            passes();
            let plain = (alone.step(&batch).unwrap().logits, passes());
            let beside = (method.step_beside(&batch, &frozen).unwrap().logits, passes());
            guarded.step(&batch).unwrap();
            let counts = [plain.1, beside.1, passes()];
            assert_eq!(counts, [3, 3 - shared, 4 - shared], "{keys}, {round}");
            assert_eq!(plain.0.to_vec().unwrap(), beside.0.to_vec().unwrap());
            let plain = (alone.predict(&batch).unwrap(), passes());
            let beside = (method.predict_beside(&batch, &frozen).unwrap(), passes());
            guarded.predict(&batch).unwrap();
            let counts = [plain.1, beside.1, passes()];
            assert_eq!(counts, [2, 2 - shared, 3 - shared], "{keys}, {round}");
            guarded.predictor().unwrap().logits(&batch).unwrap();
            assert_eq!(passes(), 3 - shared, "{keys}, {round}");
            assert_eq!(plain.0.to_vec().unwrap(), beside.0.to_vec().unwrap());
        }
    }
}
