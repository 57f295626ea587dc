//! What a program that uses the library relies on.

use std::path::Path;
use std::sync::mpsc;

use paint_tta::settings::{Preset, Tent};
use paint_tta::{
    Adapter, Builder, ErrorKind, Event, Image, Model, corrupt, corrupt_all, corruptions,
    embedded_images, guard, stream, write_weights,
};

fn tent() -> Builder {
    Adapter::builder("embedded").method("tent").set("lr", 0.1)
}

#[test]
fn errors_have_a_kind() {
    let kind = |builder: Builder| builder.open().unwrap_err().kind();
    assert_eq!(kind(Adapter::builder("embedded").method("tint")), ErrorKind::Request);
    assert_eq!(kind(Adapter::builder("embedded").set("etta", 0.4)), ErrorKind::Request);
    assert_eq!(kind(Adapter::builder("embedded").method("eata")), ErrorKind::Request);
    assert_eq!(kind(Adapter::builder("embedded").device("cuda")), ErrorKind::Request);
    assert_eq!(kind(Adapter::builder("no/such.safetensors")), ErrorKind::Weights);
    let low = Tent { lr: -1.0, ..Tent::default() };
    assert_eq!(kind(Adapter::builder("embedded").settings(&low).unwrap()), ErrorKind::Request);
    let mut adapter = tent().open().unwrap();
    assert_eq!(adapter.step(&[]).unwrap_err().kind(), ErrorKind::Image);
    assert_eq!(adapter.predict(&[]).unwrap_err().kind(), ErrorKind::Image);
    let unreadable = paint_tta::Error::from(Image::open(Path::new("no.png")).unwrap_err());
    assert_eq!(unreadable.kind(), ErrorKind::Image);
    assert!(unreadable.to_string().ends_with("no.png"), "{unreadable}");
}

#[test]
fn a_state_of_another_method_a_damaged_and_a_missing_one_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let images = embedded_images(8).unwrap();
    let mut adapter = tent().open().unwrap();
    let refused = |adapter: &mut Adapter| adapter.load(&path).unwrap_err().kind();
    assert_eq!(refused(&mut adapter), ErrorKind::State);
    adapter.step(&images).unwrap();
    let adapted = adapter.predict(&images).unwrap();
    adapter.save(&path).unwrap();
    let mut sar = Adapter::builder("embedded").method("sar").open().unwrap();
    assert_eq!(refused(&mut sar), ErrorKind::State);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(refused(&mut adapter), ErrorKind::State);
    assert_eq!(adapter.predict(&images).unwrap(), adapted, "what was refused changes nothing");
}

#[test]
fn observers_are_told_of_everything_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let images = embedded_images(4).unwrap();
    let mut adapter = tent().open().unwrap();
    let (sender, events) = mpsc::channel();
    adapter.observe(move |event| {
        let name = match event {
            Event::Stepped(batch) => format!("stepped {}", batch.predictions.len()),
            Event::Reset => "reset".into(),
            Event::Saved(path) => format!("saved {}", path.display()),
            Event::Loaded(path) => format!("loaded {}", path.display()),
            _ => "something new".into(),
        };
        sender.send(name).unwrap();
    });
    adapter.step(&images).unwrap();
    adapter.step(&[]).unwrap_err();
    adapter.save(&path).unwrap();
    adapter.reset().unwrap();
    adapter.load(&path).unwrap();
    let file = path.display();
    let expected =
        ["stepped 4".to_owned(), format!("saved {file}"), "reset".into(), format!("loaded {file}")];
    assert_eq!(events.try_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn the_model_is_opened_as_the_caller_says_and_reports_what_was_found() {
    let adapter = tent().open().unwrap();
    assert_eq!(adapter.model().input_size, Some([32, 32]));
    assert_eq!(adapter.class_name(3), Some("cat"));
    assert_eq!(adapter.settings()["preset"].as_str(), Some("vit_cifar10"));
    let mean = Some([0.0; 3]);
    let shifted = Model { mean, std: Some([1.0; 3]), ..Model::new("embedded") };
    let shifted = Adapter::builder(shifted).method("source").open().unwrap();
    assert_eq!(shifted.model().mean, mean);
    let images = embedded_images(4).unwrap();
    assert_ne!(shifted.predict(&images).unwrap(), adapter.predict(&images).unwrap());
}

#[test]
fn the_method_is_chosen_by_the_network_unless_it_is_named() {
    let method = |builder: Builder| builder.open().unwrap().method().to_owned();
    assert_eq!(method(Adapter::builder("embedded")), "keel");
    assert_eq!(method(Adapter::builder("embedded").method("tent")), "tent");
}

#[test]
fn typed_settings_take_the_values_in_the_struct_whatever_the_network() {
    let lr = |tent: &Tent| {
        let adapter = Adapter::builder("embedded").settings(tent).unwrap().open().unwrap();
        adapter.settings()["lr"].as_float()
    };
    for preset in [Preset::VitCifar10, Preset::CnnImagenet] {
        assert_eq!(lr(&Tent::preset(preset)), Some(Tent::preset(preset).lr));
    }
    assert_eq!(lr(&Tent { lr: 0.25, ..Tent::default() }), Some(0.25));
}

#[test]
fn every_corruption_is_known_by_its_name_and_follows_its_seed() {
    let image = &embedded_images(1).unwrap()[0];
    assert_eq!(corruptions().count(), 19);
    for name in corruptions() {
        let corrupted = |seed| corrupt(image, name, 3, seed).unwrap();
        assert_ne!(&corrupted(0), image, "{name}");
        assert_eq!(corrupted(1), corrupted(1), "{name}");
    }
    let message = corrupt(image, "fogg", 3, 0).unwrap_err().to_string();
    assert!(message.contains("fog") && message.contains("fogg"), "{message}");
}

#[test]
fn an_adapter_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Adapter>();
}

#[test]
fn a_batch_of_ones_own_gives_the_bits_of_its_images() {
    let images = embedded_images(8).unwrap();
    let (mut by_images, mut by_batch) = (tent().open().unwrap(), tent().open().unwrap());
    let batch = by_batch.fitted(&images).unwrap();
    assert_eq!(batch.shape(), [8, 3, 32, 32]);
    let step = by_images.step(&images).unwrap();
    assert_eq!(step.logits, by_batch.step_on(&batch).unwrap().logits);
    let after = by_batch.logits(&batch).unwrap();
    assert_eq!((after.len(), by_batch.num_classes()), (80, 10));
    assert_ne!(after, step.logits);
    assert_eq!(after, by_batch.logits(&batch).unwrap(), "nothing is learnt from a question");
}

#[test]
fn adapted_weights_differ_where_the_method_trains_and_make_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let images = embedded_images(8).unwrap();
    let mut adapter = tent().open().unwrap();
    let source = adapter.weights().unwrap();
    adapter.step(&images).unwrap();
    let adapted = adapter.weights().unwrap();
    let changed = |at: &usize| source[*at].data != adapted[*at].data;
    let changed: Vec<&str> =
        (0..source.len()).filter(changed).map(|at| source[at].name.as_str()).collect();
    assert!(changed.contains(&"blocks.0.norm1.weight"), "{changed:?}");
    assert!(!changed.contains(&"blocks.0.attn.qkv.weight"), "{changed:?}");
    write_weights(&path, &adapted).unwrap();
    let preprocess = adapter.model().clone();
    let model = Model { weights: path, sha256: None, num_heads: Some(3), ..preprocess };
    let frozen = Adapter::builder(model).method("source").open().unwrap();
    assert_eq!(frozen.predict(&images).unwrap(), adapter.predict(&images).unwrap());
    assert_eq!(frozen.weights().unwrap_err().kind(), ErrorKind::Request);
}

#[test]
fn a_guard_skips_a_batch_of_one_class_and_says_why() {
    let one = vec![embedded_images(1).unwrap().remove(0); 50];
    let mut guarded = tent().guard(guard::Config::default()).open().unwrap();
    let step = guarded.step(&one).unwrap();
    assert_eq!(step.guard.unwrap().action, "skipped the step");
    assert_eq!(guarded.guarded().unwrap().frozen_images, 50);
    let mut bare = tent().open().unwrap();
    assert!(bare.step(&one).unwrap().guard.is_none() && bare.guarded().is_none());
}

#[test]
fn a_stream_learns_when_its_buffer_is_full() {
    let images = embedded_images(4).unwrap();
    let stream = stream::Config { buffer: 4, ..stream::Config::default() };
    let mut adapter = tent().stream(stream).open().unwrap();
    let source = adapter.predict(&images).unwrap();
    for image in &images[..3] {
        adapter.step(std::slice::from_ref(image)).unwrap();
        assert_eq!(adapter.predict(&images).unwrap(), source);
    }
    adapter.step(&images[3..]).unwrap();
    assert_ne!(adapter.predict(&images).unwrap(), source);
}

#[test]
fn every_image_of_a_corrupted_batch_has_draws_of_its_own() {
    let image = embedded_images(1).unwrap().remove(0);
    let twice = [image.clone(), image.clone()];
    let noisy = corrupt_all(&twice, "gaussian_noise", 5, 1).unwrap();
    assert_ne!(noisy[0].pixels(), noisy[1].pixels());
    assert_eq!(noisy[0].pixels(), corrupt(&image, "gaussian_noise", 5, 1).unwrap().pixels());
}
