//! A small method with everything a real one has (arrays, counters, prompts, dependence on history), and data for it.

use paint_data::dataset::Memory;
use paint_data::{Dataset, Domain, Image, Info, Sample, Stream, scenario};
use paint_methods::{Method, PromptUse, Result, State, Step};
use paint_rng::Seed;
use paint_run::{Config, Draft, Setup};
use paint_tensor::{Device, Tensor};

pub(crate) const CLASSES: usize = 3;

/// Logits depend on the image and on a drift that every batch moves, so that skipping or repeating one shows.
pub(crate) struct Drift {
    pub(crate) shift: Tensor,
    pub(crate) steps: u64,
    /// The step at which it breaks down, if it does.
    pub(crate) nan_at: Option<u64>,
}

impl Drift {
    pub(crate) fn new() -> Self {
        Self { shift: Tensor::zeros([CLASSES], &Device::cpu()).unwrap(), steps: 0, nan_at: None }
    }
}

impl Method for Drift {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        let mean = images.mean_all()?.item()?;
        let push: Vec<f32> =
            (0..CLASSES).map(|c| mean * (c as f32 + self.steps as f32).sin()).collect();
        let push = Tensor::from_vec(push, [CLASSES], images.device())?;
        self.shift = self.shift.scale(0.9)?.add(&push)?;
        let mut logits = self.predict(images)?;
        if self.nan_at == Some(self.steps) {
            logits = logits.scale(f32::NAN)?;
        }
        let index = (self.steps / 3) as usize;
        let allocated = self.steps.is_multiple_of(3);
        let made = if allocated { vec![index] } else { vec![] };
        let prompt = Some(PromptUse { index, allocated, made, reliability: Some(mean) });
        self.steps += 1;
        Ok(Step { logits, scalars: vec![("mean", f64::from(mean))], prompt })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        let b = images.shape()[0];
        let pixels = images.elem_count() / b;
        let x = images.reshape([b, pixels])?.slice(1, 0, CLASSES)?;
        Ok(x.add(&self.shift)?)
    }

    fn reset(&mut self) -> Result<()> {
        *self = Self { nan_at: self.nan_at, ..Self::new() };
        Ok(())
    }

    fn save(&self) -> Result<State> {
        Ok(State {
            tensors: [("drift".into(), self.shift.clone())].into(),
            counters: [("steps".into(), self.steps)].into(),
        })
    }

    fn load(&mut self, state: &State) -> Result<()> {
        self.shift = state.tensors["drift"].clone();
        self.steps = state.counters["steps"];
        Ok(())
    }

    fn trainable(&self) -> Vec<String> {
        vec!["drift".into()]
    }
}

/// Two domains of 2x1 images, the second longer than the first.
pub(crate) fn dataset(labelled: bool) -> Memory {
    let info =
        Info { name: "memory", num_classes: CLASSES, class_indices: None, class_names: None };
    let sample = |domain: u8, i: u8| Sample {
        image: Image::new(
            2,
            1,
            (0..6).map(|p| (i.wrapping_mul(37).wrapping_add(domain * 101)) ^ (p * 40)).collect(),
        )
        .unwrap(),
        label: labelled.then_some(usize::from(i) % CLASSES),
    };
    let part = |domain: u8, name: &str, len: u8| {
        let domain_info = Domain { name: name.into(), severity: Some(domain + 1) };
        (domain_info, (0..len).map(|i| sample(domain, i)).collect())
    };
    Memory::new(info, vec![part(0, "fog", 50), part(1, "snow", 70)]).unwrap()
}

pub(crate) fn stream(data: &dyn Dataset, name: &str) -> Stream {
    let config = scenario::Config {
        name: name.into(),
        batch_size: 4,
        domains: Some(vec!["fog".into(), "snow".into()]),
        ..scenario::Config::default()
    };
    // The domains of `dataset` have different severities; without one being asked for, the first match is taken.
    let visits =
        ["fog", "snow"].map(|domain| scenario::Visit { domain: domain.into(), severity: None });
    let custom = scenario::Config {
        name: "custom".into(),
        visits: Some(visits.into()),
        domains: None,
        ..config
    };
    let mut stream = custom.stream(data, Seed(0)).unwrap();
    if name == "reset_each" {
        let mut last = 0;
        for batch in &mut stream.batches {
            batch.reset_before = batch.segment != last;
            last = batch.segment;
        }
    }
    stream
}

pub(crate) fn images(data: &dyn Dataset, batch: &paint_data::BatchPlan) -> Tensor {
    let mut all = Vec::new();
    for at in &batch.samples {
        let mut chw = [0.0; 6];
        data.sample(at.domain, at.index).unwrap().image.to_chw(&mut chw);
        all.extend(chw);
    }
    Tensor::from_vec(all, [batch.samples.len(), 3, 1, 2], &Device::cpu()).unwrap()
}

pub(crate) fn config() -> Config {
    let text = "out = 'o'\n[model]\nweights = 'w'\n[data]\nname = 'd'\npath = 'p'\n[method]\nname = 'drift'\nrate = 1";
    Draft::parse(text, "test").unwrap().resolve().unwrap()
}

pub(crate) fn setup() -> Setup {
    Setup {
        dataset: "memory".into(),
        scenario: "custom".into(),
        batch_size: 4,
        limit: None,
        backbone: "none".into(),
        weights_sha256: None,
        seed: 0,
        device: "cpu".into(),
        version: "0".into(),
    }
}
