//! Seven steps of both forms of keel against PyTorch (`fixtures/make_keel.py`, `make_keel_gradient.py`), from source
//! images to corrected predictions.

#![expect(clippy::unwrap_used, reason = "a golden test stops at the first surprise")]

#[expect(dead_code, reason = "views are for other golden tests")]
mod fixture;
mod tiny_vit;

use std::sync::Arc;

use fixture::{Fixture, gap};
use paint_methods::draws::{Draws, MixDraws};
use paint_methods::{BuildArgs, SourceData, by_name};
use paint_rng::Seed;
use tiny_vit::{close, model, movement};
use toml::toml;

#[test]
fn eleven_steps_match_pytorch() {
    let fixture = Fixture::read("keel/steps.safetensors");
    let (vit, images) = (model(&fixture), fixture.tensor("source.images"));
    let source = Some(SourceData { images: &images, labels: None });
    let args = BuildArgs { source, ..BuildArgs::new(&vit, Seed(0)) };
    let settings =
        toml! { preset = "vit_cifar10" first_block = 0 blocks = 3 strength = 0.5 memory = 30 };
    let mut keel = by_name("keel").unwrap().build(&args, &settings).unwrap();
    let mut fired = 0.0;
    for t in 0..11 {
        let at = |key: &str| format!("step{t}.{key}");
        let step = keel.step(&fixture.tensor(&at("images"))).unwrap();
        let scalar = |name: &str| step.scalars.iter().find(|(key, _)| *key == name).unwrap().1;
        assert_eq!(scalar("domain") as f32, fixture.values(&at("domain"))[0], "step {t}");
        assert_eq!(scalar("correlated") as f32, fixture.values(&at("correlated"))[0], "step {t}");
        fired += scalar("correlated");
        // Float32 and float64 differ by 4e-5 in PyTorch, where logits reach 9.
        let apart = gap(&step.logits.to_vec().unwrap(), &fixture.values(&at("logits")));
        assert!(apart < 2e-4, "step {t}: {apart:e}");
    }
    assert_eq!(fired, 4.0);
    let state = keel.save().unwrap();
    for domain in 0..3 {
        for key in ["key", "patch.0.mean"] {
            let found = state.tensor(&format!("form/{domain}/{key}")).unwrap().to_vec().unwrap();
            let apart = gap(&found, &fixture.values(&format!("final.{domain}.{key}")));
            assert!(apart < 1e-4, "{domain} {key}: {apart:e}");
        }
    }
}

/// The draws of a recorded run; steps that learn are counted.
struct Replay(Fixture);

impl MixDraws for Replay {
    fn lambda(&self, step: u64, _alpha: f64) -> f32 {
        self.0.values(&format!("draw{step}.lambda"))[0]
    }

    fn partners(&self, step: u64, n: usize) -> Vec<usize> {
        let recorded = self.0.values(&format!("draw{step}.partners"));
        assert_eq!(recorded.len(), n + 1);
        recorded[..n].iter().map(|&i| i as usize).collect()
    }
}

#[test]
fn eleven_steps_of_the_gradient_form_match_pytorch() {
    let file = "keel/gradient.safetensors";
    let fixture = Fixture::read(file);
    let (vit, images) = (model(&fixture), fixture.tensor("source.images"));
    let source = Some(SourceData { images: &images, labels: None });
    let draws = Draws { mixing: Arc::new(Replay(Fixture::read(file))), ..Draws::seeded(Seed(0)) };
    let args = BuildArgs { source, draws: Some(&draws), ..BuildArgs::new(&vit, Seed(0)) };
    let settings: toml::Table = serde_json::from_value(fixture.config["settings"].clone()).unwrap();
    let mut keel = by_name("keel").unwrap().build(&args, &settings).unwrap();
    let mut learned = Vec::new();
    for t in 0..11 {
        let at = |key: &str| format!("step{t}.{key}");
        let step = keel.step(&fixture.tensor(&at("images"))).unwrap();
        let scalar =
            |name: &str| step.scalars.iter().find(|(key, _)| *key == name).map(|(_, x)| *x as f32);
        assert_eq!(scalar("correlated"), Some(fixture.values(&at("correlated"))[0]), "step {t}");
        // Float32 and float64 differ by 1e-5 in PyTorch, where logits reach 9.
        let apart = gap(&step.logits.to_vec().unwrap(), &fixture.values(&at("logits")));
        assert!(apart < 1e-4, "step {t}: {apart:e}");
        let Some(losses) = fixture.arrays.get(&at("losses")) else {
            assert_eq!(scalar("loss_statistic"), None, "step {t}");
            continue;
        };
        learned.push(t);
        let found = ["loss_information", "loss_consistency", "loss_statistic"]
            .map(|name| scalar(name).unwrap_or(0.0));
        close(&at("losses"), &found, &losses.data, 1e-5);
    }
    assert_eq!(learned, [0, 1, 2, 6, 7, 8]);
    let mut trained = keel.trainable();
    let params = keel.model().unwrap().params();
    for name in &trained {
        let before = fixture.values(&format!("param.{name}"));
        let expected = movement(name, &fixture.values(&format!("final.{name}")), &before);
        let value = params[params.id(name).unwrap()].to_vec().unwrap();
        let found = movement(name, &value, &before);
        let size: f32 = expected.iter().map(|x| x.abs()).sum();
        let apart: f32 = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).sum();
        // A new Adam moves an element by `lr * sign(gradient)`; two elements whose gradient is rounding may differ.
        assert!(apart < 2e-3 * size + 2.0 * 2.0 * 1e-3, "{name}: {apart:e} of {size:e}");
    }
    let mut expected: Vec<&str> = fixture.config["trained"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    trained.sort();
    expected.sort_unstable();
    assert_eq!(trained, expected);
}
