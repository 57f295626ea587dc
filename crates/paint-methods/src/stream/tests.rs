//! What a stream promises whatever the method.

use std::sync::{Arc, Mutex};

use paint_nn::backbone::vit::{Vit, VitConfig};
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};
use toml::toml;

use super::*;
use crate::{by_name, tiny_vit};

const CLASSES: usize = tiny_vit::CONFIG.num_classes;

fn vit() -> Vit {
    let config = VitConfig { depth: 2, ..tiny_vit::CONFIG };
    tiny_vit::build(config, 3, &[], &Device::cpu())
}

/// Tells the class of an image by its brightness, surely or not, and remembers the batches it learnt from.
struct Bright {
    margin: f32,
    lessons: Arc<Mutex<Vec<Vec<usize>>>>,
}

fn class_of(mean: f32) -> usize {
    (mean * CLASSES as f32) as usize
}

impl Method for Bright {
    fn step(&mut self, images: &Tensor) -> Result<Step> {
        let logits = self.predict(images)?;
        self.lessons.lock().unwrap().push(logits.argmax()?);
        Ok(Step { logits, scalars: vec![("loss", 1.0)], prompt: None })
    }

    fn predict(&self, images: &Tensor) -> Result<Tensor> {
        let b = images.shape()[0];
        let means = images.reshape([b, images.elem_count() / b])?.mean(1)?.to_vec()?;
        let row = |mean: &f32| {
            let class = class_of(*mean);
            (0..CLASSES).map(move |c| if c == class { self.margin } else { 0.0 })
        };
        Ok(Tensor::from_vec(means.iter().flat_map(row).collect(), [b, CLASSES], images.device())?)
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

/// Images of these classes.
fn images(classes: &[usize]) -> Tensor {
    let pixel = |class: &usize| [(*class as f32 + 0.5) / CLASSES as f32; 3 * 8 * 12];
    let pixels = classes.iter().flat_map(pixel).collect();
    Tensor::from_vec(pixels, [classes.len(), 3, 8, 12], &Device::cpu()).unwrap()
}

fn bright(margin: f32) -> (Stream, Arc<Mutex<Vec<Vec<usize>>>>) {
    let lessons = Arc::default();
    let inner = Bright { margin, lessons: Arc::clone(&lessons) };
    let model = vit();
    let args = BuildArgs::new(&model, Seed(0));
    let config = Config { buffer: 20, memory: 10, prior: true };
    (Stream::new(Box::new(inner), &args, config).unwrap(), lessons)
}

fn mixed(count: usize, seed: u64) -> Vec<usize> {
    let mut rng = Seed(seed).derive("stream/classes", &[]);
    (0..count).map(|_| rng.below(CLASSES)).collect()
}

#[test]
fn single_images_are_predicted_at_once_and_learnt_from_when_the_buffer_is_full() {
    let (mut stream, lessons) = bright(4.0);
    let classes = mixed(45, 1);
    for &class in &classes {
        assert_eq!(stream.step(&images(&[class])).unwrap().logits.argmax().unwrap(), [class]);
    }
    assert_eq!(*lessons.lock().unwrap(), [&classes[..20], &classes[20..40]]);
}

#[test]
fn large_batches_go_to_the_method_as_they_are() {
    let (mut stream, lessons) = bright(4.0);
    let (large, short) = (mixed(12, 1), mixed(9, 2));
    stream.step(&images(&large)).unwrap();
    stream.step(&images(&short)).unwrap();
    assert_eq!(*lessons.lock().unwrap(), [large]);
}

#[test]
fn runs_of_one_class_teach_through_a_balanced_memory_and_one_class_alone_teaches_nothing() {
    let (mut stream, lessons) = bright(4.0);
    (0..5).for_each(|seed| drop(stream.step(&images(&mixed(20, seed))).unwrap()));
    for run in 0..20 {
        stream.step(&images(&[run % CLASSES; 20])).unwrap();
    }
    let lessons = lessons.lock().unwrap();
    let last = lessons.last().unwrap();
    assert_eq!(last.len(), 10, "the memory, not the batch of 20");
    for class in 0..CLASSES {
        let count = last.iter().filter(|&&c| c == class).count();
        assert!((1..=4).contains(&count), "{last:?}");
    }
    drop(lessons);
    let (mut stream, lessons) = bright(4.0);
    // Chance is told from a run by what came before: two classes in turn, then one for ever.
    (0..3).for_each(|seed| drop(stream.step(&images(&mixed(20, seed))).unwrap()));
    let before = lessons.lock().unwrap().len();
    (0..60).for_each(|_| drop(stream.step(&images(&[2; 5])).unwrap()));
    let learnt = lessons.lock().unwrap()[before..].to_vec();
    assert!(learnt.iter().all(|lesson| lesson.iter().any(|c| *c != 2)), "{learnt:?}");
}

#[test]
fn an_unsure_prediction_follows_the_classes_around_it() {
    let (mut stream, _) = bright(2.0);
    (0..5).for_each(|seed| drop(stream.step(&images(&mixed(20, seed))).unwrap()));
    for class in [0, 1, 2] {
        (0..3).for_each(|_| drop(stream.step(&images(&[class; 20])).unwrap()));
    }
    let mut classes = [3; 20];
    classes[7] = 1;
    let step = stream.step(&images(&classes)).unwrap();
    assert_eq!(step.logits.argmax().unwrap(), [3; 20]);
    let plain = Stream { config: Config { prior: false, ..stream.config }, ..stream };
    let mut plain = plain;
    assert_eq!(plain.step(&images(&classes)).unwrap().logits.argmax().unwrap(), classes);
}

#[test]
fn a_saved_stream_goes_on_with_the_same_bits_in_the_middle_of_its_buffer() {
    let model = vit();
    let build = || {
        let args = BuildArgs::new(&model, Seed(0));
        let inner = by_name("tent").unwrap().build(&args, &toml! { lr = 0.01 }).unwrap();
        let config = Config { buffer: 10, memory: 8, ..Config::default() };
        Stream::new(inner, &args, config).unwrap()
    };
    let classes = mixed(60, 9);
    let run = |stream: &mut Stream, from: usize, to: usize| -> Vec<u32> {
        let bits = |class: &usize| {
            let logits = stream.step(&images(&[*class])).unwrap().logits.to_vec().unwrap();
            logits.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        classes[from..to].iter().flat_map(bits).collect()
    };
    let mut whole = build();
    let expected = run(&mut whole, 0, 60);
    let mut first = build();
    let mut found = run(&mut first, 0, 27);
    let mut second = build();
    second.load(&first.save().unwrap()).unwrap();
    found.extend(run(&mut second, 27, 60));
    assert_eq!(found, expected);
    assert_ne!(expected[..50], expected[50..100], "something is learnt");
    let (ours, theirs) = (whole.save().unwrap(), second.save().unwrap());
    assert_eq!(ours.counters, theirs.counters);
    for (name, tensor) in &ours.tensors {
        assert_eq!(tensor.to_vec().unwrap(), theirs.tensors[name].to_vec().unwrap(), "{name}");
    }
}

#[test]
fn settings_without_a_meaning_are_refused() {
    for (config, why) in [
        (Config { buffer: 0, ..Config::default() }, "buffer must be 1 or more"),
        (Config { memory: 1, ..Config::default() }, "memory must be 2 or more"),
    ] {
        assert!(config.check().unwrap_err().to_string().contains(why));
    }
}
