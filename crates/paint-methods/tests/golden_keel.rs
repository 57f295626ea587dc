//! Seven steps of keel against PyTorch (`fixtures/make_keel.py`), from source images to corrected predictions.

#![expect(clippy::unwrap_used, reason = "a golden test stops at the first surprise")]

#[expect(dead_code, reason = "views are for other golden tests")]
mod fixture;
#[expect(dead_code, reason = "keel moves no weight")]
mod tiny_vit;

use fixture::{Fixture, gap};
use paint_methods::{BuildArgs, SourceData, by_name};
use paint_rng::Seed;
use tiny_vit::model;
use toml::toml;

#[test]
fn seven_steps_match_pytorch() {
    let fixture = Fixture::read("keel/steps.safetensors");
    let (vit, images) = (model(&fixture), fixture.tensor("source.images"));
    let source = Some(SourceData { images: &images, labels: None });
    let args = BuildArgs { source, ..BuildArgs::new(&vit, Seed(0)) };
    let settings =
        toml! { preset = "vit_cifar10" first_block = 0 blocks = 3 strength = 0.5 memory = 30 };
    let mut keel = by_name("keel").unwrap().build(&args, &settings).unwrap();
    let mut fired = 0.0;
    for t in 0..7 {
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
    assert_eq!(fired, 3.0);
    let state = keel.save().unwrap();
    for domain in 0..2 {
        for key in ["key", "patch.0.mean"] {
            let found = state.tensor(&format!("form/{domain}/{key}")).unwrap().to_vec().unwrap();
            let apart = gap(&found, &fixture.values(&format!("final.{domain}.{key}")));
            assert!(apart < 1e-4, "{domain} {key}: {apart:e}");
        }
    }
}
