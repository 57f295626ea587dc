//! Trainings replayed against PyTorch with recorded draws (`fixtures/make_training.py`).

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::path::PathBuf;

use paint_nn::backbone::cifar_resnet::CifarResnetConfig;
use paint_nn::backbone::vit::{Variant, Vit, VitConfig};
use paint_nn::backbone::{BuildOptions, Weights};
use paint_nn::checkpoint::{self, Checkpoint, CropMode, Format, Interpolation, Preprocess};
use paint_tensor::{Device, Draw, Images, Rect, View};
use paint_train::{Batch, Recipe, Trainer, mixing, preset};
use serde_json::Value;

/// The processor, or the device that `PAINT_TEST_DEVICE` names.
fn device() -> Device {
    std::env::var("PAINT_TEST_DEVICE")
        .map_or_else(|_| Device::cpu(), |name| Device::from_name(&name).unwrap())
}

struct Golden {
    arrays: Checkpoint,
    config: Value,
}

impl Golden {
    fn read(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/training")
            .join(format!("{name}.safetensors"));
        let arrays = checkpoint::read(path).unwrap();
        let config = serde_json::from_str(&arrays.metadata["config"]).unwrap();
        Self { arrays, config }
    }

    fn number(&self, key: &str) -> f64 {
        self.config[key].as_f64().unwrap()
    }

    fn size(&self) -> [usize; 2] {
        serde_json::from_value(self.config["image_size"].clone()).unwrap()
    }

    fn values(&self, key: &str) -> &[f32] {
        &self.arrays.get(key).unwrap_or_else(|| panic!("no {key}")).data
    }

    /// Row `at` of an array whose first axis is the step.
    fn step(&self, key: &str, at: usize) -> &[f32] {
        let array = self.arrays.get(key).unwrap_or_else(|| panic!("no {key}"));
        let row = array.data.len() / array.shape[0];
        &array.data[at * row..(at + 1) * row]
    }

    fn images(&self) -> Images {
        let bytes: Vec<u8> = self.values("images").iter().map(|&x| x as u8).collect();
        Images::new(&bytes, self.size(), &device()).unwrap()
    }

    fn weights(&self) -> Weights {
        let mut weights = Checkpoint::new(Format::SafeTensors);
        for (name, array) in self.arrays.iter() {
            if let Some(name) = name.strip_prefix("param.") {
                weights.insert(name.to_owned(), array.clone()).unwrap();
            }
        }
        Weights::Checkpoint(weights)
    }

    fn options(&self) -> BuildOptions {
        let preprocess = Preprocess {
            mean: [0.5; 3],
            std: [0.5; 3],
            input_size: self.size(),
            crop_pct: 1.0,
            crop_mode: CropMode::Center,
            interpolation: Interpolation::Bilinear,
        };
        BuildOptions { preprocess: Some(preprocess), ..BuildOptions::new(&device()) }
    }

    /// The recorded batch of a step.
    fn batch(&self, at: usize, smoothing: f32) -> Batch {
        let get = |key: &str| self.step(&format!("draw.{key}"), at);
        let (index, crop, flip) = (get("index"), get("crop"), get("flip"));
        let (mode, lambda, boxes) = (get("mode"), get("lambda"), get("box"));
        let b = mode.len();
        let [height, width] = self.size();
        let pad = self.number("pad") as f32;
        let view = |which: usize, i: usize| {
            let row = which * b + i;
            let (dy, dx) = (crop[2 * row] - pad, crop[2 * row + 1] - pad);
            let columns = if flip[row] == 1.0 {
                [0.0, -1.0, dx + (width - 1) as f32]
            } else {
                [0.0, 1.0, dx]
            };
            let matrix = [1.0, 0.0, dy, columns[0], columns[1], columns[2]];
            View { matrix, ..View::new(index[row] as usize) }
        };
        let classes = self.number("num_classes") as usize;
        let mut batch = Batch { targets: vec![0.0; b * classes], ..Batch::default() };
        for (i, row) in batch.targets.chunks_exact_mut(classes).enumerate() {
            let label =
                |which: usize| self.values("labels")[index[which * b + i] as usize] as usize;
            let mut draw = Draw::plain(view(0, i));
            let mut share = 1.0;
            if mode[i] == 1.0 {
                draw = Draw { second: Some(view(1, i)), weight: lambda[i], ..draw };
                share = lambda[i];
            } else if mode[i] == 2.0 {
                let [top, left, bottom, right] =
                    [0, 1, 2, 3].map(|side| boxes[4 * i + side] as usize);
                let cut = Rect { top, left, bottom, right };
                draw = Draw { second: Some(view(1, i)), cut, ..draw };
                share = 1.0 - cut.area() as f32 / (height * width) as f32;
            }
            mixing::add_target(row, label(0), share, smoothing);
            mixing::add_target(row, label(1), 1.0 - share, smoothing);
            batch.labels.push(label(0));
            batch.draws.push(draw);
        }
        batch
    }

    /// Every number of `found` agrees with `prefix.name` to `tolerance`.
    fn compare(&self, prefix: &str, name: &str, found: &[f32], tolerance: f32) {
        let expected = self.values(&format!("{prefix}.{name}"));
        let third = found.len() / 3;
        for (i, (a, b)) in found.iter().zip(expected).enumerate() {
            // The gradient of the key bias is rounding and nothing else, which Adam makes a step of.
            let rounding = name.ends_with("attn.qkv.bias") && (third..2 * third).contains(&i);
            assert!(rounding || (a - b).abs() < tolerance, "{prefix}.{name}[{i}]: {a} and {b}");
        }
        assert_eq!(found.len(), expected.len(), "{prefix}.{name}");
    }
}

#[test]
fn twenty_steps_of_a_transformer_are_those_of_pytorch() {
    let golden = Golden::read("vit");
    let size = |key: &str| golden.number(key) as usize;
    let config = VitConfig {
        image_size: golden.size(),
        patch_size: size("patch_size"),
        embed_dim: size("embed_dim"),
        depth: size("depth"),
        num_heads: size("num_heads"),
        mlp_ratio: golden.number("mlp_ratio") as f32,
        num_classes: size("num_classes"),
        variant: Variant::PLAIN,
    };
    let model = Vit::build("tiny", config, golden.weights(), &golden.options()).unwrap();
    let mut recipe: Recipe = (preset("vit").unwrap().recipe)();
    recipe.lr = golden.number("lr");
    recipe.weight_decay = golden.number("weight_decay");
    recipe.clip = golden.number("clip");
    recipe.average = golden.number("average");
    recipe.schedule.warmup_epochs = golden.number("warmup_epochs");
    recipe.schedule.final_lr = golden.number("final_lr");
    let mut trainer = Trainer::new(Box::new(model), recipe.clone()).unwrap();
    let (images, steps, per_epoch) = (golden.images(), size("steps"), size("per_epoch"));
    for t in 0..steps {
        let mut batch = golden.batch(t, golden.number("label_smoothing") as f32);
        let factors = golden.step("factors", t).chunks_exact(batch.draws.len());
        batch.branches =
            factors.map(|branch| (branch[0] >= 0.0).then(|| branch.to_vec())).collect();
        let lr = recipe.schedule.rate(recipe.lr, t, steps, per_epoch);
        let loss = trainer.step(&images, &batch, lr).unwrap().loss.item().unwrap();
        let expected = golden.values("loss")[t];
        // PyTorch's own float32 is 2e-7 from its float64.
        assert!((loss - expected).abs() < 1e-5, "step {t}: {loss} and {expected}");
    }
    for (prefix, model) in
        [("after", trainer.raw().unwrap()), ("average", trainer.averaged().unwrap().unwrap())]
    {
        for param in model.params().iter() {
            // 4e-7 from float64; a step of AdamW is 2e-3.
            golden.compare(prefix, param.name(), &param.tensor().to_vec().unwrap(), 2e-5);
        }
    }
}

#[test]
fn ten_steps_of_a_residual_network_and_its_running_statistics_are_those_of_pytorch() {
    let golden = Golden::read("cnn");
    let config = CifarResnetConfig { width: 4, ..CifarResnetConfig::batch_norm(1) };
    let model = config.build("tiny", golden.weights(), &golden.options()).unwrap();
    let mut recipe: Recipe = (preset("cnn").unwrap().recipe)();
    recipe.momentum = golden.number("momentum");
    recipe.weight_decay = golden.number("weight_decay");
    let mut trainer = Trainer::new(Box::new(model), recipe).unwrap();
    let images = golden.images();
    for t in 0..golden.number("steps") as usize {
        let batch = golden.batch(t, 0.0);
        let loss = trainer.step(&images, &batch, golden.number("lr")).unwrap().loss.item().unwrap();
        let expected = golden.values("loss")[t];
        assert!((loss - expected).abs() < 1e-4, "step {t}: {loss} and {expected}");
    }
    let model = trainer.raw().unwrap();
    for param in model.params().iter() {
        golden.compare("after", param.name(), &param.tensor().to_vec().unwrap(), 1e-4);
    }
    let running = model.running_statistics();
    assert_eq!(running.len(), 14);
    for (name, tensor) in running {
        golden.compare("after", &name, &tensor.to_vec().unwrap(), 1e-4);
    }
    assert!(trainer.averaged().unwrap().is_none());
}
