//! Five steps of every baseline against PyTorch (`fixtures/make_baselines.py`), with the recorded draws.

#![expect(clippy::unwrap_used, reason = "a golden test stops at the first surprise")]

mod fixture;
mod tiny_vit;

use std::sync::Arc;

use fixture::Fixture;
use paint_methods::draws::Draws;
use paint_methods::views::{Padding, View};
use paint_methods::{BuildArgs, Method, SourceData, by_name};
use paint_rng::Seed;
use tiny_vit::{close, model, movement};

/// The draws of a recorded run.
struct Replay(Fixture);

impl Draws for Replay {
    fn prompt(&self, _id: u64, _count: usize) -> Vec<f32> {
        unreachable!("no baseline draws prompts")
    }

    fn lambda(&self, _step: u64, _alpha: f64) -> f32 {
        unreachable!("no baseline mixes")
    }

    fn permutation(&self, number: u64, n: usize) -> Vec<usize> {
        let recorded = self.0.values(&format!("draw.order{number}"));
        assert_eq!(recorded.len(), n);
        recorded.into_iter().map(|i| i as usize).collect()
    }

    fn view(&self, number: u64, _size: [usize; 2], padding: Padding) -> View {
        assert_eq!(padding, Padding::Edge);
        self.0.view(&format!("draw.view{number}"), padding)
    }

    fn noise(&self, number: u64, index: usize, count: usize) -> Vec<f32> {
        let all = self.0.values(&format!("draw.view{number}.noise"));
        all[index * count..(index + 1) * count].to_vec()
    }

    fn restored(&self, step: u64, param: usize, _count: usize, _share: f64) -> Vec<usize> {
        let recorded = self.0.values(&format!("draw.restored{step}.{param}"));
        recorded.into_iter().skip(1).map(|place| place as usize).collect()
    }

    fn start(&self, param: usize, count: usize) -> Vec<f32> {
        let recorded = self.0.values(&format!("draw.start{param}"));
        assert_eq!(recorded.len(), count);
        recorded
    }
}

/// Five steps of a golden file, with its method and settings.
fn five_steps(name: &str) {
    let (source, run) = (Fixture::read("baselines/source.safetensors"), Fixture::read(&path(name)));
    let (network, images) = (model(&source), source.tensor("source.images"));
    let labels: Vec<usize> =
        source.values("source.labels").iter().map(|&label| label as usize).collect();
    let draws: Arc<dyn Draws> = Arc::new(Replay(Fixture::read(&path(name))));
    let args = BuildArgs {
        source: Some(SourceData { images: &images, labels: Some(&labels) }),
        draws: Some(&draws),
        ..BuildArgs::new(&network, Seed(0))
    };
    let settings = toml::Table::try_from(&run.config["settings"]).unwrap();
    let entry = by_name(run.config["method"].as_str().unwrap()).unwrap();
    let mut method = entry.build(&args, &settings).unwrap();
    for t in 0..5 {
        let key = format!("step{t}.images");
        let own = if run.arrays.get(&key).is_some() { &run } else { &source };
        let step = method.step(&own.tensor(&key)).unwrap();
        let expected = run.values(&format!("step{t}.logits"));
        // 1e-4 of the largest logit: float32 and float64 in PyTorch differ by 2e-6 of it.
        close(&format!("{name} step {t}"), &step.logits.to_vec().unwrap(), &expected, 1e-4);
        let notes = run.config["notes"][t].as_object().unwrap();
        for (key, value) in step.scalars {
            if let Some(note) = notes.get(key) {
                assert_eq!(note.as_f64(), Some(value), "{name} step {t} {key}");
            }
        }
        let (found, expected) =
            (moved(method.as_ref(), &source), run.values(&format!("step{t}.moved"))[0]);
        assert!((found - expected).abs() <= 1e-3 * expected, "{name} step {t}: {found} {expected}");
    }
    check_state(name, method.as_ref(), &source, &run);
}

fn path(name: &str) -> String {
    format!("baselines/{name}.safetensors")
}

/// How far all trained parameters are from the source, together.
fn moved(method: &dyn Method, source: &Fixture) -> f32 {
    let state = method.save().unwrap().part("model");
    let of = |(name, value): (&String, &paint_tensor::Tensor)| {
        let before = source.values(&format!("param.{name}"));
        movement(name, &value.to_vec().unwrap(), &before).iter().map(|x| x.abs()).sum::<f32>()
    };
    state.tensors.iter().map(of).sum()
}

/// Everything the file knows of the last state is found in the method's, and no parameter beside it trains.
fn check_state(name: &str, method: &dyn Method, source: &Fixture, run: &Fixture) {
    let state = method.save().unwrap();
    let mut trained = 0;
    for (key, array) in run.arrays.iter() {
        let Some(key) = key.strip_prefix("final.") else { continue };
        let found = state.tensor(key).unwrap().to_vec().unwrap();
        let parameter = key.strip_prefix("model/").or_else(|| key.strip_prefix("teacher/"));
        trained += usize::from(key.starts_with("model/"));
        let (found, expected) = match parameter {
            Some(name) => {
                let before = source.values(&format!("param.{name}"));
                (movement(name, &found, &before), movement(name, &array.data, &before))
            }
            None => (found, array.data.clone()),
        };
        // 1e-3 of the largest movement, not of the weight, which would pass without any update.
        close(&format!("{name} {key}"), &found, &expected, 1e-3);
    }
    assert_eq!(trained, state.part("model").tensors.len(), "{name}");
}

#[test]
fn tent_matches_pytorch() {
    five_steps("tent");
    five_steps("tent_adam");
}

#[test]
fn eta_matches_pytorch() {
    five_steps("eta");
}

#[test]
fn eata_matches_pytorch() {
    five_steps("eata");
}

#[test]
fn sar_matches_pytorch() {
    five_steps("sar");
    five_steps("sar_forget");
}

#[test]
fn cpl_matches_pytorch_for_both_source_losses() {
    five_steps("cpl");
    five_steps("cpl_poly");
}

#[test]
fn cotta_matches_pytorch_for_both_losses() {
    five_steps("cotta");
    five_steps("cotta_symmetric");
}
