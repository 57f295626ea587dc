//! What a guard promises whatever the method.

use paint_nn::backbone::vit::Vit;
use paint_rng::Seed;
use paint_tensor::Device;
use toml::toml;

use paint_nn::backbone::Request;

use super::*;
use crate::{METHODS, by_name, stream, tiny_vit};

/// A ViT whose predictions range from unsure to sure, over several classes.
fn vit() -> Vit {
    let larger = [("head.weight", 80.0), ("patch_embed.proj.weight", 20.0)];
    tiny_vit::build(tiny_vit::CONFIG, 3, &larger, &Device::cpu())
}

/// The same network with the mean of its logits taken off, so that no class is predicted most of the time.
fn evenly(mut vit: Vit, images: &Tensor) -> Vit {
    let logits = vit.forward(images, &Request::default()).unwrap().logits;
    let [b, c] = logits.dims2("logits").unwrap();
    let rows = logits.to_vec().unwrap();
    let mean = (0..c).map(|class| -rows.iter().skip(class).step_by(c).sum::<f32>() / b as f32);
    let id = vit.params().id("head.bias").unwrap();
    vit.params_mut()
        .set(id, &Tensor::from_vec(mean.collect(), [c], &Device::cpu()).unwrap())
        .unwrap();
    vit
}

fn images(seed: u64, b: usize) -> Tensor {
    let mut rng = Seed(seed).derive("guard/images", &[]);
    let mut data = Vec::new();
    // Colours of their own, so that images differ more than noise does.
    for _ in 0..b * 3 {
        let (low, high) = (rng.uniform(), rng.uniform());
        data.extend((0..8 * 12).map(|i| if i % 12 < 6 { low as f32 } else { high as f32 }));
    }
    Tensor::from_vec(data, [b, 3, 8, 12], &Device::cpu()).unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Counts its steps, and after so many good ones answers with one class whatever comes.
struct Collapses {
    frozen: Box<dyn Backbone>,
    steps: u64,
    after: u64,
}

impl Method for Collapses {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        self.steps += 1;
        Ok(Step { logits: self.predict(images)?, scalars: Vec::new(), prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        let logits = self.frozen.forward(images, &Request::default())?.logits;
        if self.steps <= self.after {
            return Ok(logits);
        }
        let row = [9.0, 0.0, 0.0, 0.0, 0.0];
        let rows = std::iter::repeat_n(row, logits.shape()[0]).flatten().collect();
        Ok(Tensor::from_vec(rows, logits.shape(), logits.device())?)
    }

    fn reset(&mut self) -> Result<()> {
        self.steps = 0;
        Ok(())
    }

    fn save(&self) -> Result<State> {
        let mut state = State::default();
        state.counters.insert("steps".into(), self.steps);
        Ok(state)
    }

    fn load(&mut self, state: &State) -> Result<()> {
        self.steps = state.counter("steps")?;
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        Vec::new()
    }
}

fn guarded(model: &Vit, after: u64) -> Guard {
    let inner = Collapses { frozen: model.duplicate(), steps: 0, after };
    Guard::new(Box::new(inner), &BuildArgs::new(model, Seed(0)), Config::default()).unwrap()
}

#[test]
fn a_step_that_diverges_is_undone_and_the_stream_goes_on() {
    let model = vit();
    let args = BuildArgs::new(&model, Seed(0));
    let inner = by_name("tent").unwrap().build(&args, &toml! { lr = 1e300 }).unwrap();
    let mut guard = Guard::new(inner, &args, Config::default()).unwrap();
    for seed in 0..3 {
        let batch = images(seed, 30);
        let plain = model.forward(&batch, &Request::default()).unwrap().logits;
        assert_eq!(bits(&guard.step(&batch).unwrap().logits), bits(&plain));
        let acted = guard.guard().unwrap().acted.unwrap();
        assert_eq!((acted.action, acted.reason), (Action::Skip, Reason::NotFinite));
    }
    assert_eq!(guard.guard().unwrap().account.interventions(), 3);
}

#[test]
fn a_batch_of_one_class_to_the_frozen_model_is_not_learnt_from() {
    let model = vit();
    let mut guard = guarded(&model, 100);
    let black = Tensor::zeros([30, 3, 8, 12], &Device::cpu()).unwrap();
    guard.step(&black).unwrap();
    let acted = guard.guard().unwrap().acted.unwrap();
    assert_eq!((acted.action, acted.reason), (Action::Skip, Reason::NoVariety));
    assert_eq!(guard.inner.save().unwrap().counters["steps"], 0);
    guard.step(&images(1, 30)).unwrap();
    assert_eq!(guard.inner.save().unwrap().counters["steps"], 1);
    assert_eq!(guard.guard().unwrap().acted, None);
}

#[test]
fn collapse_is_rolled_back_then_frozen_and_the_frozen_model_answers() {
    let model = vit();
    let mut guard = guarded(&model, 12);
    let mut actions = Vec::new();
    // Batches in which the frozen model sees several classes.
    let plain = |batch: &Tensor| model.forward(batch, &Request::default()).unwrap().logits;
    let is_mixed = |batch: &Tensor| View::new(&plain(batch)).unwrap().top < 0.6;
    let batches: Vec<Tensor> =
        (0..400).map(|seed| images(seed, 30)).filter(is_mixed).take(40).collect();
    assert_eq!(batches.len(), 40);
    for (seed, batch) in batches.into_iter().enumerate() {
        let plain = plain(&batch);
        let step = guard.step(&batch).unwrap();
        // The frozen model and the method before its collapse say the same: nothing else may ever be answered.
        assert_eq!(bits(&step.logits), bits(&plain), "step {seed}");
        assert_eq!(bits(&guard.predict(&batch).unwrap()), bits(&plain));
        actions.extend(guard.guard().unwrap().acted.map(|acted| acted.action));
    }
    // Snapshots were taken after 5 and 10 steps: back to 10, to 5, and then out.
    assert_eq!(actions[..3], [Action::RollBack, Action::RollBack, Action::Freeze], "{actions:?}");
    assert!(actions[3..].iter().all(|action| *action == Action::StartAgain), "{actions:?}");
    let account = &guard.guard().unwrap().account;
    assert!(account.frozen_images >= 500, "{account:?}");
}

#[test]
fn a_saved_guard_knows_its_snapshots_and_how_often_it_acted() {
    let model = vit();
    let plain = |batch: &Tensor| model.forward(batch, &Request::default()).unwrap().logits;
    let is_mixed = |batch: &Tensor| View::new(&plain(batch)).unwrap().top < 0.6;
    let batches: Vec<Tensor> =
        (0..400).map(|seed| images(seed, 30)).filter(is_mixed).take(30).collect();
    let run = |guard: &mut Guard, batches: &[Tensor]| -> Vec<Option<Acted>> {
        let step = |batch: &Tensor| {
            guard.step(batch).unwrap();
            guard.guard().unwrap().acted
        };
        batches.iter().map(step).collect()
    };
    let expected = run(&mut guarded(&model, 12), &batches);
    // Between two snapshots, after the first rollback, and in the pause.
    for at in [8, 14, 22] {
        let (mut first, mut second) = (guarded(&model, 12), guarded(&model, 12));
        let mut found = run(&mut first, &batches[..at]);
        second.load(&first.save().unwrap()).unwrap();
        found.extend(run(&mut second, &batches[at..]));
        assert_eq!(found, expected, "saved after {at}");
    }
}

/// Gives one image in ten of each batch the class after the frozen model's.
struct Contradicts(Box<dyn Backbone>);

impl Method for Contradicts {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        Ok(Step { logits: self.predict(images)?, scalars: Vec::new(), prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        let logits = self.0.forward(images, &Request::default())?.logits;
        let [b, c] = logits.dims2("logits")?;
        let (classes, mut rows) = (logits.argmax()?, logits.to_vec()?);
        (0..b).step_by(10).for_each(|at| rows[at * c + (classes[at] + 1) % c] = 50.0);
        Ok(Tensor::from_vec(rows, [b, c], logits.device())?)
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    fn save(&self) -> Result<State> {
        Ok(State::default())
    }

    fn load(&mut self, _: &State) -> Result<()> {
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn sure_answers_of_the_frozen_model_stand_in_runs_and_without_a_step() {
    let all = images(1, 900);
    let model = evenly(vit(), &all);
    let logits = |images: &Tensor| model.forward(images, &Request::default()).unwrap().logits;
    let classes = logits(&all).argmax().unwrap();
    let of_class = |class| (0..900).filter(|&at| classes[at] == class).collect::<Vec<_>>();
    let mut by_class: Vec<Vec<usize>> = (0..5).map(of_class).collect();
    by_class.sort_by_key(|rows| std::cmp::Reverse(rows.len()));
    let runs = by_class[0].chunks_exact(30).zip(by_class[1].chunks_exact(30));
    let runs: Vec<usize> = runs.flat_map(|(a, b)| [a, b].concat()).collect();
    assert!(runs.len() >= 240, "{}", runs.len());
    let config = Config { one_class: 1.0, differ: 0.9, broken: 1.0, ..Config::default() };
    let config = Config { sure: 0.95, sure_in_runs: 0.8, ..config };
    let config = Config { least_gain: -1.0, gain: -1.0, ..config };
    for (order, least) in [((0..600).collect(), None), (runs, Some(config.sure_in_runs))] {
        let inner = Box::new(Contradicts(model.duplicate()));
        let mut guard = Guard::new(inner, &BuildArgs::new(&model, Seed(0)), config).unwrap();
        let mut stood = [0, 0];
        for (at, rows) in order.chunks_exact(30).enumerate() {
            let batch = all.gather(rows).unwrap();
            let frozen = logits(&batch);
            let answer = guard.step(&batch).unwrap().logits.argmax().unwrap();
            let later = guard.predict(&batch).unwrap().argmax().unwrap();
            let (classes, p) = (frozen.argmax().unwrap(), frozen.softmax().unwrap());
            let (p, c) = (p.to_vec().unwrap(), frozen.shape()[1]);
            if at < 4 {
                continue; // Runs are noticed by then.
            }
            assert_eq!(guard.judge.runs.holds(), least.is_some());
            assert_eq!(guard.judge.in_runs(false), least.is_some());
            for i in (0..30).step_by(10) {
                let p = f64::from(p[i * c + classes[i]]);
                let stands = least.is_some_and(|least| p >= least);
                assert_eq!(answer[i] == classes[i], stands, "batch {at}, {p}");
                let least = least.unwrap_or(config.sure);
                assert_eq!(later[i] == classes[i], p >= least, "batch {at}, {p}");
                stood[usize::from(stands)] += 1;
            }
        }
        assert!(stood[0] > 0 && (least.is_none() || stood[1] > 0), "{stood:?}");
    }
}

#[test]
fn without_an_estimated_gain_the_frozen_model_answers() {
    let all = images(1, 900);
    let model = evenly(vit(), &all);
    let logits = |images: &Tensor| model.forward(images, &Request::default()).unwrap().logits;
    let classes = logits(&all).argmax().unwrap();
    let one: Vec<usize> = (0..900).filter(|&at| classes[at] == classes[0]).take(120).collect();
    let config = Config { one_class: 1.0, differ: 1.0, broken: 1.0, ..Config::default() };
    let inner = || Box::new(Contradicts(model.duplicate()));
    let guard = |config| Guard::new(inner(), &BuildArgs::new(&model, Seed(0)), config).unwrap();
    let strict = Config { least_gain: 0.01, ..config };
    let (mut mixed, mut strict, least) = (guard(config), guard(strict), strict.least_gain);
    for rows in (0..300).collect::<Vec<_>>().chunks_exact(30) {
        let batch = all.gather(rows).unwrap();
        let step = mixed.step(&batch).unwrap().logits;
        assert_eq!(bits(&step), bits(&inner().predict(&batch).unwrap()));
        assert!(mixed.judge.gain < least, "{}", mixed.judge.gain);
        assert_eq!(bits(&mixed.predict(&batch).unwrap()), bits(&logits(&batch)));
        assert_eq!(bits(&strict.step(&batch).unwrap().logits), bits(&logits(&batch)));
    }
    let mut runs = guard(config);
    for rows in one.chunks_exact(30) {
        let batch = all.gather(rows).unwrap();
        assert_eq!(bits(&runs.step(&batch).unwrap().logits), bits(&logits(&batch)));
    }
    assert_eq!(runs.guard().unwrap().account.frozen_images, 120);
}

#[test]
fn a_lesson_is_not_part_of_the_estimate() {
    let model = evenly(vit(), &images(0, 900));
    let args = BuildArgs::new(&model, Seed(0));
    let mut guard = Guard::new(
        by_name("tent").unwrap().build(&args, &toml::Table::new()).unwrap(),
        &args,
        Config::default(),
    )
    .unwrap();
    let step = guard.lesson(&images(0, 30)).unwrap();
    assert!(!step.scalars.iter().any(|(name, _)| name.starts_with("estimate")));
    assert_eq!(guard.guard().unwrap().account.estimates(), None);
    guard.step(&images(0, 30)).unwrap();
    assert!(guard.guard().unwrap().account.estimates().is_some());
}

#[test]
fn a_method_that_does_no_harm_is_not_touched() {
    let model = evenly(vit(), &images(0, 900));
    let args = BuildArgs::new(&model, Seed(0));
    let build = || by_name("tent").unwrap().build(&args, &toml! { lr = 1e-5 }).unwrap();
    let config = Config { least_gain: -1.0, ..Config::default() };
    let (mut plain, mut guard) = (build(), Guard::new(build(), &args, config).unwrap());
    for seed in 0..8 {
        let batch = images(seed, 30);
        let expected = plain.step(&batch).unwrap().logits;
        assert_eq!(bits(&guard.step(&batch).unwrap().logits), bits(&expected));
    }
    assert_eq!(guard.guard().unwrap().account.interventions(), 0);
}

#[test]
fn every_method_goes_on_from_a_saved_guard_and_stream_with_the_same_bits() {
    let model = vit();
    let args = BuildArgs::new(&model, Seed(0));
    for entry in METHODS.iter().filter(|entry| !entry.needs_source.reads_images()) {
        let build = || -> Box<dyn Method> {
            let inner = entry.build(&args, &toml::Table::new()).unwrap();
            let config = Config { every: 1, least_gain: -1.0, gain: -1.0, ..Config::default() };
            let guard = Guard::new(inner, &args, config).unwrap();
            let config = stream::Config { buffer: 12, ..stream::Config::default() };
            Box::new(stream::Stream::new(Box::new(guard), &args, config).unwrap())
        };
        let steps = |method: &mut dyn Method, seeds: std::ops::Range<u64>| -> Vec<u32> {
            let size = |seed| if seed % 3 == 2 { 12 } else { 5 };
            let step = |seed| method.step(&images(seed, size(seed))).unwrap().logits;
            seeds.map(step).flat_map(|logits| bits(&logits)).collect()
        };
        let (mut whole, mut first, mut second) = (build(), build(), build());
        let expected = steps(&mut *whole, 0..9);
        let mut found = steps(&mut *first, 0..4);
        second.load(&first.save().unwrap()).unwrap();
        found.extend(steps(&mut *second, 4..9));
        assert_eq!(found, expected, "{}", entry.name);
        assert_eq!(whole.guard().unwrap().account, second.guard().unwrap().account);
        whole.reset().unwrap();
        assert_eq!(steps(&mut *whole, 0..9), expected, "{}", entry.name);
    }
}

#[test]
fn settings_without_a_meaning_are_refused() {
    for (config, why) in [
        (Config { differ: 1.5, ..Config::default() }, "differ must lie in [0, 1]"),
        (Config { jump: 0.5, ..Config::default() }, "jump must be above 1"),
    ] {
        assert!(config.check().unwrap_err().to_string().contains(why));
    }
}

#[test]
fn a_classifier_of_its_own_answers_only_where_no_gain_is_asked_for() {
    let batch = images(5, 40);
    let model = evenly(vit(), &batch);
    let args = BuildArgs::new(&model, Seed(0));
    let answers = |gain: f64| {
        let inner = by_name("t3a").unwrap().build(&args, &toml::Table::new()).unwrap();
        let mut guard = Guard::new(inner, &args, Config { gain, ..Config::default() }).unwrap();
        (0..3).map(|_| bits(&guard.step(&batch).unwrap().logits)).collect::<Vec<_>>()
    };
    let frozen = bits(&model.forward(&batch, &Request::default()).unwrap().logits);
    assert!(answers(0.03).iter().all(|answer| *answer == frozen));
    assert!(answers(-1.0).iter().any(|answer| *answer != frozen));
}
