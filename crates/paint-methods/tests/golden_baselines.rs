//! Five steps of every baseline against PyTorch (`fixtures/make_baselines.py`), with the recorded draws.

#![expect(clippy::unwrap_used, reason = "a golden test stops at the first surprise")]

mod fixture;
mod tiny_vit;

use std::sync::Arc;

use fixture::Fixture;
use paint_methods::draws::{
    Draws, OrderDraws, PatchDraws, ProjectorDraws, RestoreDraws, ViewDraws,
};
use paint_methods::views::{Noise, Padding, View};
use paint_methods::{BuildArgs, Method, SourceData, by_name};
use paint_nn::backbone::Backbone;
use paint_nn::backbone::cifar_resnet::{CifarResnetConfig, CifarVariant};
use paint_nn::backbone::residual::ResidualNet;
use paint_rng::Seed;
use tiny_vit::{close, model, movement, options, weights};

/// Notes that methods have no use for: samples of SAR that became sure uphill, which the loss there must not take;
/// blocks of PEA whose statistics a batch took over.
const UNREPORTED: [&str; 2] = ["entered", "jumps"];

/// The draws of a recorded run, and those it shares with others.
struct Replay {
    own: Fixture,
    shared: Fixture,
}

impl Replay {
    fn holder(&self, key: &str) -> &Fixture {
        if self.own.arrays.get(key).is_some() { &self.own } else { &self.shared }
    }
}

impl OrderDraws for Replay {
    fn order(&self, number: u64, n: usize) -> Vec<usize> {
        let recorded = self.own.values(&format!("draw.order{number}"));
        assert_eq!(recorded.len(), n);
        recorded.into_iter().map(|i| i as usize).collect()
    }
}

impl ViewDraws for Replay {
    fn view(&self, number: u64, _size: [usize; 2], padding: Padding) -> View {
        assert_eq!(padding, Padding::Edge);
        let prefix = format!("draw.view{number}");
        self.holder(&format!("{prefix}.order")).view(&prefix, padding)
    }

    fn noise(&self, number: u64, rows: &[usize], count: usize) -> Noise {
        let key = format!("draw.view{number}.noise");
        let all = self.holder(&key).values(&key);
        let row = |&index: &usize| all[index * count..(index + 1) * count].to_vec();
        Noise::Recorded(rows.iter().flat_map(row).collect())
    }
}

impl RestoreDraws for Replay {
    fn restored(&self, step: u64, param: usize, _count: usize, _share: f64) -> Vec<usize> {
        let recorded = self.own.values(&format!("draw.restored{step}.{param}"));
        recorded.into_iter().skip(1).map(|place| place as usize).collect()
    }
}

impl ProjectorDraws for Replay {
    fn projector(&self, param: usize, count: usize) -> Vec<f32> {
        let recorded = self.own.values(&format!("draw.start{param}"));
        assert_eq!(recorded.len(), count);
        recorded
    }
}

impl PatchDraws for Replay {
    fn patches(&self, step: u64, image: usize, count: usize) -> Vec<usize> {
        let recorded = self.own.values(&format!("draw.patches{step}"));
        recorded[image * count..(image + 1) * count].iter().map(|&patch| patch as usize).collect()
    }
}

/// A residual network of the golden files, with so many blocks a stage.
fn cnn(fixture: &Fixture, blocks: usize, variant: CifarVariant) -> ResidualNet {
    let config = CifarResnetConfig { blocks, width: 4, variant, num_classes: 7 };
    config.build("tiny", weights(fixture), &options()).unwrap()
}

/// Five steps of a golden file on the vision transformer, with its method and settings.
fn five_steps(name: &str) {
    let source = Fixture::read("baselines/source.safetensors");
    replay(name, &model(&source), &source);
}

/// Five steps of a golden file on the residual network.
fn five_cnn_steps(name: &str) {
    let source = Fixture::read("baselines/cnn.safetensors");
    replay(&format!("cnn_{name}"), &cnn(&source, 1, CifarVariant::BatchNorm), &source);
}

/// Five steps of a golden file on a residual network of six blocks: `deep`, or `group` with group norms.
fn five_deep_steps(network: &str, variant: CifarVariant, name: &str) {
    let source = Fixture::read(&path(network));
    replay(&format!("{network}_{name}"), &cnn(&source, 2, variant), &source);
}

/// Five steps on `network`, whose values before the first step are in `source`.
fn replay(name: &str, network: &dyn Backbone, source: &Fixture) {
    let shared = Fixture::read("baselines/source.safetensors");
    let (run, images) = (Fixture::read(&path(name)), shared.tensor("source.images"));
    let labels: Vec<usize> =
        shared.values("source.labels").iter().map(|&label| label as usize).collect();
    let own = Fixture::read(&path(name));
    let replay = Replay { own, shared: Fixture::read("baselines/source.safetensors") };
    let replay = Arc::new(replay);
    let draws = Draws {
        order: replay.clone(),
        views: replay.clone(),
        restoring: replay.clone(),
        projector: replay.clone(),
        patches: replay,
        ..Draws::seeded(Seed(0))
    };
    let args = BuildArgs {
        source: Some(SourceData { images: &images, labels: Some(&labels) }),
        draws: Some(&draws),
        ..BuildArgs::new(network, Seed(0))
    };
    let settings = toml::Table::try_from(&run.config["settings"]).unwrap();
    let entry = by_name(run.config["method"].as_str().unwrap()).unwrap();
    let mut method = entry.build(&args, &settings).unwrap();
    for t in 0..5 {
        let key = format!("step{t}.images");
        let own = if run.arrays.get(&key).is_some() { &run } else { &shared };
        method.set_domain(run.config["domains"][t].as_u64().map(|domain| domain as usize));
        let step = method.step(&own.tensor(&key)).unwrap();
        let expected = run.values(&format!("step{t}.logits"));
        // 1e-4 of the largest logit: float32 and float64 in PyTorch differ by 4e-6 of it.
        close(&format!("{name} step {t}"), &step.logits.to_vec().unwrap(), &expected, 1e-4);
        let notes = run.config["notes"][t].as_object().unwrap();
        for (key, note) in notes.iter().filter(|(key, _)| !UNREPORTED.contains(&key.as_str())) {
            let Some((_, value)) = step.scalars.iter().find(|(name, _)| name == key) else {
                panic!("{name} step {t}: no {key} among {:?}", step.scalars)
            };
            // 6e-4: counts are exact, an average has three digits in the file.
            let gap = (value - note.as_f64().unwrap()).abs();
            assert!(gap < 6e-4, "{name} step {t} {key}: {value} and {note}");
        }
        let (found, expected) =
            (moved(method.as_ref(), source), run.values(&format!("step{t}.moved"))[0]);
        assert!((found - expected).abs() <= 1e-3 * expected, "{name} step {t}: {found} {expected}");
    }
    check_state(name, method.as_ref(), source, &run);
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
        let before = match (parameter, run.arrays.get(&format!("start.{key}"))) {
            (Some(name), _) => source.values(&format!("param.{name}")),
            (None, Some(start)) => start.data.clone(),
            (None, None) => vec![0.0; found.len()],
        };
        let [found, expected] = [&found, &array.data].map(|after| movement(key, after, &before));
        // 1e-3 of the largest movement, not of the weight, which would pass without any update.
        close(&format!("{name} {key}"), &found, &expected, 1e-3);
    }
    assert_eq!(trained, state.part("model").tensors.len(), "{name}");
}

#[test]
fn methods_of_batch_norms_match_pytorch() {
    five_cnn_steps("source");
    five_cnn_steps("bn_adapt");
    five_cnn_steps("bn_adapt_mixed");
    five_cnn_steps("keel");
}

#[test]
fn come_matches_pytorch_in_each_of_its_methods() {
    five_steps("tent_come");
    five_steps("eata_come");
    five_steps("sar_come");
}

#[test]
fn rdumb_matches_pytorch_across_resets() {
    five_steps("rdumb");
    five_cnn_steps("rdumb");
}

#[test]
fn lame_matches_pytorch_for_each_affinity() {
    five_steps("lame");
    five_steps("lame_knn");
    five_steps("lame_linear");
    five_cnn_steps("lame");
}

#[test]
fn t3a_matches_pytorch() {
    five_steps("t3a");
}

#[test]
fn neo_matches_pytorch_for_both_averages() {
    five_steps("neo");
    five_steps("neo_cumulative");
    five_cnn_steps("neo");
}

#[test]
fn tent_matches_pytorch() {
    five_steps("tent");
    five_steps("tent_adam");
    five_cnn_steps("tent");
}

#[test]
fn eta_matches_pytorch() {
    five_steps("eta");
    five_cnn_steps("eta");
}

#[test]
fn eata_matches_pytorch() {
    five_steps("eata");
    five_cnn_steps("eata");
}

#[test]
fn sar_matches_pytorch() {
    five_steps("sar");
    five_steps("sar_forget");
    five_cnn_steps("sar");
}

#[test]
fn deyo_matches_pytorch() {
    five_steps("deyo");
    five_cnn_steps("deyo");
}

#[test]
fn roid_matches_pytorch_with_ensembling_and_with_the_filter() {
    five_steps("roid");
    five_steps("roid_cmf");
    five_steps("roid_plain");
    five_cnn_steps("roid");
}

#[test]
fn rotta_matches_pytorch_with_and_without_batch_norms() {
    five_steps("rotta");
    five_cnn_steps("rotta");
}

#[test]
fn cpl_matches_pytorch_for_both_source_losses() {
    five_steps("cpl");
    five_steps("cpl_poly");
    five_cnn_steps("cpl");
    five_cnn_steps("cpl_poly");
}

#[test]
fn cotta_matches_pytorch_for_both_losses() {
    five_steps("cotta");
    five_steps("cotta_symmetric");
    five_cnn_steps("cotta");
}

#[test]
fn rmt_matches_pytorch_with_replay_and_without() {
    five_steps("rmt");
    five_steps("rmt_source_free");
    five_cnn_steps("rmt");
}

#[test]
fn santa_matches_pytorch() {
    five_steps("santa");
    five_cnn_steps("santa");
}

#[test]
fn ecotta_matches_pytorch_with_batch_norms_and_group_norms() {
    five_deep_steps("deep", CifarVariant::BatchNorm, "ecotta");
    five_deep_steps("deep", CifarVariant::BatchNorm, "ecotta_last");
    five_deep_steps("deep", CifarVariant::BatchNorm, "ecotta_views");
    five_deep_steps("group", CifarVariant::GroupNorm { groups: 2 }, "ecotta");
}

#[test]
fn vdp_matches_pytorch_across_domains() {
    five_steps("vdp");
    five_cnn_steps("vdp");
}

#[test]
fn gain_matches_pytorch_with_rows_and_rescaled_ones() {
    five_steps("gain");
    five_steps("gain_rescaled");
    five_cnn_steps("gain");
}

#[test]
fn zerosiam_matches_pytorch() {
    five_steps("zerosiam");
    five_cnn_steps("zerosiam");
}

#[test]
fn rem_matches_pytorch() {
    five_steps("rem");
}

#[test]
fn dpcore_matches_pytorch_with_new_and_known_batches() {
    five_steps("dpcore");
    five_steps("dpcore_plain");
}

#[test]
fn pea_matches_pytorch_with_jumps_views_and_groups() {
    five_steps("pea");
    five_steps("pea_tokens");
    five_cnn_steps("pea");
}
