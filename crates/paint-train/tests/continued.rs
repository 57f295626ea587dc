//! A training that is stopped and continued, and the files it leaves.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use paint_data::dataset::Memory;
use paint_data::{Domain, Image, Info, Sample};
use paint_nn::backbone::cifar_resnet::CifarResnetConfig;
use paint_nn::backbone::vit::{Variant, Vit, VitConfig};
use paint_nn::backbone::{Backbone, BuildOptions, Weights};
use paint_nn::checkpoint;
use paint_nn::state::file::{self, Kind, Saved};
use paint_rng::Seed;
use paint_tensor::Device;
use paint_train::{
    Earlier, Epoch, Error, Event, Files, Identity, LabelledImages, Numbers, Recipe, Result,
    Session, Summary, Trainer, preset,
};

const SIZE: [usize; 2] = [8, 12];

/// Images whose class is where they are bright.
fn images(count: usize, seed: u64) -> LabelledImages {
    let mut rng = Seed(seed).derive("continued/images", &[]);
    let mut sample = |i: usize| {
        let (label, [height, width]) = (i % 3, SIZE);
        let bright = |x: usize| x / 4 == label;
        let pixel = |at: usize| if bright(at / 3 % width) { 200 } else { 30 };
        let pixels = (0..height * width * 3).map(|at| pixel(at) + rng.below(50) as u8).collect();
        Sample { image: Image::new(width, height, pixels).unwrap(), label: Some(label) }
    };
    let info = Info { name: "memory", num_classes: 3, class_indices: None, class_names: None };
    let samples = (0..count).map(&mut sample).collect();
    let dataset = Memory::new(info, vec![(Domain::clean(), samples)]).unwrap();
    LabelledImages::read(&dataset, None, SIZE, &Device::cpu()).unwrap()
}

fn vit() -> Box<dyn Backbone> {
    let config = VitConfig {
        image_size: SIZE,
        patch_size: 4,
        embed_dim: 16,
        depth: 2,
        num_heads: 2,
        mlp_ratio: 2.0,
        num_classes: 3,
        variant: Variant::PLAIN,
    };
    let options = BuildOptions::new(&Device::cpu());
    Box::new(Vit::build("tiny", config, Weights::Random(Seed(1)), &options).unwrap())
}

fn cnn() -> Box<dyn Backbone> {
    let config = CifarResnetConfig { width: 4, num_classes: 3, ..CifarResnetConfig::batch_norm(1) };
    let options = BuildOptions::new(&Device::cpu());
    Box::new(config.build("tiny_cnn", Weights::Random(Seed(1)), &options).unwrap())
}

fn recipe(name: &str, epochs: usize) -> Recipe {
    let mut recipe = (preset(name).unwrap().recipe)();
    recipe.epochs = epochs;
    recipe.batch_size = 16;
    recipe.lr = if name == "vit" { 1e-2 } else { 0.05 };
    recipe.average = 0.9;
    recipe.schedule.warmup_epochs = 1.0;
    recipe
}

struct Setup {
    data: LabelledImages,
    test: LabelledImages,
    recipe: Recipe,
    model: fn() -> Box<dyn Backbone>,
}

impl Setup {
    fn new(preset: &str, epochs: usize, model: fn() -> Box<dyn Backbone>) -> Self {
        Self { data: images(48, 1), test: images(30, 2), recipe: recipe(preset, epochs), model }
    }

    fn run(&self, out: &Path, earlier: Earlier, observe: impl FnMut(&Event)) -> Result<Summary> {
        self.run_until(out, earlier, None, observe)
    }

    fn run_until(
        &self,
        out: &Path,
        earlier: Earlier,
        stop: Option<&AtomicBool>,
        observe: impl FnMut(&Event),
    ) -> Result<Summary> {
        let mut trainer = Trainer::new((self.model)(), self.recipe.clone())?;
        let identity = Identity::new(trainer.model().spec(), &self.recipe, &self.data, 9);
        let session =
            Session { data: &self.data, test: Some(&self.test), evaluate_every: 2, identity, stop };
        let files = Files {
            out: out.to_owned(),
            checkpoint_every: 1,
            numbers: Numbers::Full,
            label_names: vec!["left".into(), "middle".into(), "right".into()],
        };
        session.run(&mut trainer, &files, earlier, observe)
    }
}

/// What does not depend on the clock.
fn settled(log: &str) -> Vec<Epoch> {
    let rows = log.lines().map(|line| serde_json::from_str::<Epoch>(line).unwrap());
    rows.map(|row| Epoch { images_per_second: 0.0, ..row }).collect()
}

/// A training stopped after its third epoch, as a kill stops it, then continued.
fn stopped_and_continued(setup: &Setup, out: &Path) -> Summary {
    struct Killed;
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        setup.run(out, Earlier::Keep, |event| {
            // In the middle of the fourth epoch: what it did so far is lost.
            if matches!(event, Event::Progress(now) if now.epoch == 4) {
                std::panic::resume_unwind(Box::new(Killed));
            }
        })
    }));
    assert!(stopped.is_err_and(|cause| cause.is::<Killed>()), "the training was stopped");
    assert!(!out.join("model.safetensors").exists());
    setup.run(out, Earlier::Resume, |_| ()).unwrap()
}

#[test]
fn a_killed_training_continues_to_the_same_bits() {
    for (preset, model) in [("vit", vit as fn() -> Box<dyn Backbone>), ("cnn", cnn)] {
        let setup = Setup::new(preset, 5, model);
        let folder = tempfile::tempdir().unwrap();
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        setup.run(&whole, Earlier::Keep, |_| ()).unwrap();
        stopped_and_continued(&setup, &parts);
        let bytes = |out: &Path, name: &str| fs::read(out.join(name)).unwrap();
        assert!(
            bytes(&whole, "model.safetensors") == bytes(&parts, "model.safetensors"),
            "{preset}: the weights differ"
        );
        let log = |out: &Path| settled(&fs::read_to_string(out.join("log.jsonl")).unwrap());
        assert_eq!(log(&whole), log(&parts));
        assert_eq!(log(&whole).len(), 5);
    }
}

#[test]
fn a_training_that_is_told_to_stop_keeps_every_step_and_continues_to_the_same_bits() {
    let setup = Setup::new("vit", 4, vit);
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    setup.run(&whole, Earlier::Keep, |_| ()).unwrap();
    // Told during the second epoch it ends after the step it is at; told at the end of an epoch, there.
    for (at, told) in [("saved", "1 epochs and 1 steps"), ("epoch_done", "2 epochs and 0 steps")] {
        let stop = AtomicBool::new(false);
        let observe = |event: &Event| {
            let event = serde_json::to_value(event).unwrap();
            stop.fetch_or(event["event"] == at, Ordering::Relaxed);
        };
        let error = setup.run_until(&parts, Earlier::Resume, Some(&stop), observe).unwrap_err();
        assert!(matches!(error, Error::Stopped { .. }), "{error}");
        assert!(error.to_string().contains(told), "{error}");
        assert!(!parts.join("model.safetensors").exists());
    }
    setup.run(&parts, Earlier::Resume, |_| ()).unwrap();
    let bytes = |out: &Path| fs::read(out.join("model.safetensors")).unwrap();
    assert!(bytes(&whole) == bytes(&parts), "the weights differ");
    let log = |out: &Path| settled(&fs::read_to_string(out.join("log.jsonl")).unwrap());
    assert_eq!(log(&whole), log(&parts));
}

#[test]
fn a_training_learns_and_its_files_open_as_a_model() {
    let mut setup = Setup::new("vit", 40, vit);
    // The classes are places, which mirrors and mixtures exchange.
    setup.recipe.augment.flip = 0.0;
    setup.recipe.augment.pad = 1;
    (setup.recipe.augment.erase, setup.recipe.drop_path) = (0.0, 0.0);
    (setup.recipe.mix.mixup, setup.recipe.mix.cutmix) = (0.0, 0.0);
    let folder = tempfile::tempdir().unwrap();
    let summary = setup.run(folder.path(), Earlier::Keep, |_| ()).unwrap();
    let log = settled(&fs::read_to_string(folder.path().join("log.jsonl")).unwrap());
    assert!(log[39].loss < 0.8 * log[0].loss, "{} to {}", log[0].loss, log[39].loss);
    assert!(summary.last.averaged_test_accuracy.unwrap() > 60.0, "{:?}", summary.last);
    assert!(log[0].test_accuracy.is_none() && log[1].test_accuracy.is_some());
    let weights = folder.path().join("model.safetensors");
    let beside = checkpoint::read_model_config(&weights).unwrap();
    assert_eq!(beside.preprocess.unwrap().input_size, SIZE);
    assert_eq!(beside.label_names.unwrap()[2], "right");
    let config = fs::read(folder.path().join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    let sizes = serde_json::json!({
        "img_size": SIZE, "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 2.0, "num_classes": 3,
    });
    assert_eq!(config["model_args"], sizes, "timm's words");
    let file = checkpoint::read(&weights).unwrap();
    assert_eq!(file.get("blocks.1.attn.qkv.weight").unwrap().shape, [48, 16]);
}

#[test]
fn another_training_is_refused_by_the_key_that_differs() {
    let mut setup = Setup::new("vit", 1, vit);
    let folder = tempfile::tempdir().unwrap();
    setup.run(folder.path(), Earlier::Keep, |_| ()).unwrap();
    let error = setup.run(folder.path(), Earlier::Keep, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Earlier { .. }) && error.is_usage(), "{error}");
    setup.recipe.drop_path = 0.25;
    let error = setup.run(folder.path(), Earlier::Resume, |_| ()).unwrap_err().to_string();
    assert!(error.contains("recipe.drop_path = 0.25"), "{error}");
    setup.recipe = recipe("vit", 1);
    setup.data = images(48, 3);
    let error = setup.run(folder.path(), Earlier::Resume, |_| ()).unwrap_err().to_string();
    assert!(error.contains("images_hash"), "{error}");
    // Begun anew and stopped at once, nothing of the earlier one is left to be continued by mistake.
    let half_done = folder.path().join(".checkpoint.safetensors.7-0.tmp");
    fs::write(&half_done, "half a checkpoint").unwrap();
    setup
        .run(folder.path(), Earlier::Overwrite, |event| {
            if matches!(event, Event::Started { .. }) {
                let left = fs::read_dir(folder.path()).unwrap().count();
                assert_eq!(left, 0, "files of the earlier training");
            }
        })
        .unwrap();
    assert!(folder.path().join("model.safetensors").exists() && !half_done.exists());
}

#[test]
fn a_damaged_checkpoint_is_refused_by_name() {
    let setup = Setup::new("vit", 1, vit);
    let folder = tempfile::tempdir().unwrap();
    setup.run(folder.path(), Earlier::Keep, |_| ()).unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let whole = fs::read(&path).unwrap();
    let resume = || setup.run(folder.path(), Earlier::Resume, |_| ()).unwrap_err().to_string();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(resume().contains("checkpoint.safetensors"));
    for at in (0..whole.len()).step_by(61) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(resume().contains("checkpoint.safetensors"), "byte {at}: {}", resume());
    }
    // Whole files that say what cannot be.
    fs::write(&path, &whole).unwrap();
    let saved = file::read(&path, Kind::Training, &Device::cpu()).unwrap();
    let rewrite = |change: &dyn Fn(&mut Saved)| {
        let mut other = saved.clone();
        change(&mut other);
        file::write(&path, Kind::Training, &other.state, &other.about).unwrap();
        resume()
    };
    let counts =
        |step: u64| move |other: &mut Saved| *other.state.counters.get_mut("step").unwrap() = step;
    for step in [0, 9, u64::MAX] {
        let message = rewrite(&counts(step));
        assert!(message.contains("found 1 epochs"), "{message}");
    }
    let message = rewrite(&|other| drop(other.state.tensors.remove("second/head.bias")));
    assert!(message.contains("expected second/head.bias"), "{message}");
    let message = rewrite(&|other| drop(other.about.insert("history".into(), "[{}]".into())));
    assert!(message.contains("\"history\" in the metadata"), "{message}");
    let saved = file::read(&path, Kind::Training, &Device::cpu()).unwrap();
    file::write(&path, Kind::Run, &saved.state, &saved.about).unwrap();
    assert!(resume().contains("expected the state of a training"), "{}", resume());
}

#[test]
fn files_of_others_are_neither_overwritten_nor_removed() {
    let setup = Setup::new("vit", 1, vit);
    let folder = tempfile::tempdir().unwrap();
    let given = folder.path().join("model.safetensors");
    fs::write(&given, "somebody's weights").unwrap();
    for earlier in [Earlier::Keep, Earlier::Resume] {
        let error = setup.run(folder.path(), earlier, |_| ()).unwrap_err();
        assert!(matches!(error, Error::Earlier { .. }), "{error}");
    }
    assert_eq!(fs::read_to_string(&given).unwrap(), "somebody's weights");
    fs::remove_file(&given).unwrap();
    let notes = ["my-config.json.tmp", "old_log.jsonl.partial", "config.json.draft.tmp"];
    for name in notes {
        fs::write(folder.path().join(name), "notes").unwrap();
    }
    setup.run(folder.path(), Earlier::Keep, |_| ()).unwrap();
    assert!(notes.iter().all(|name| folder.path().join(name).exists()));
}
