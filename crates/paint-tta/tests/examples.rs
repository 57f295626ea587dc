//! The programs of `examples/`, run.

#[path = "../examples/adapt_folder.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod adapt_folder;
#[path = "../examples/camera.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod camera;
#[path = "../examples/custom_method.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod custom_method;

use std::path::Path;

use paint_tta::bench::results_terminal;
use paint_tta::{Adapter, Registry, embedded_images};

#[test]
fn a_folder_is_adapted_to_and_the_state_continues() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("images");
    std::fs::create_dir(&images).unwrap();
    for (index, image) in embedded_images(6).unwrap().iter().enumerate() {
        let file = std::fs::File::create(images.join(format!("{index}.png"))).unwrap();
        image.write_png(file).unwrap();
    }
    let state = folder.path().join("state.safetensors");
    let run = || adapt_folder::adapt_folder(Path::new("embedded"), &images, &state).unwrap();
    // The first test images of CIFAR-10, which the model knows.
    let classes: Vec<String> = run().into_iter().map(|(_, class)| class).collect();
    assert_eq!(classes, ["cat", "ship", "ship", "airplane", "frog", "frog"]);
    let saved = std::fs::read(&state).unwrap();
    run();
    assert_ne!(std::fs::read(&state).unwrap(), saved, "the second call goes on from the first");
}

#[test]
fn a_camera_gets_an_answer_for_every_image_and_a_step_per_window() {
    let adapter = Adapter::builder("embedded").method("tent").open().unwrap();
    let images = embedded_images(55).unwrap();
    let (classes, times) = camera::watch(adapter, images.into_iter()).unwrap();
    assert_eq!((classes.len(), times.len()), (55, 2));
}

#[test]
fn a_method_from_outside_takes_part_in_a_benchmark_and_is_measured_anew_with_other_settings() {
    let folder = tempfile::tempdir().unwrap();
    let results = custom_method::compare(folder.path(), 10).unwrap();
    assert_eq!(results.failures, []);
    let table = results_terminal(&results);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["domain", "source", "tent", "balanced", "strong"]);
    // What differs from the defaults of a method that only this program knows is named under the table.
    assert!(table.contains("\nstrong: strength=1.0"), "{table}");
    let nll = |label: &str| results.row(label).unwrap().nll;
    assert!(nll("balanced") != nll("source") && nll("strong") != nll("balanced"), "{table}");
}

#[test]
fn a_method_from_outside_adapts_is_saved_and_is_reset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let images = embedded_images(10).unwrap();
    let open = || {
        let methods = Registry::default().with(custom_method::ROW).unwrap();
        let config = custom_method::Config { strength: 1.0, momentum: 0.5 };
        let builder = Adapter::builder("embedded").settings(&config).unwrap();
        builder.methods(methods).open().unwrap()
    };
    let mut adapter = open();
    let source = adapter.predict(&images).unwrap();
    adapter.step(&images).unwrap();
    let adapted = adapter.predict(&images).unwrap();
    assert_ne!(adapted, source);
    adapter.save(&path).unwrap();
    adapter.reset().unwrap();
    assert_eq!(adapter.predict(&images).unwrap(), source);
    let mut later = open();
    later.load(&path).unwrap();
    assert_eq!(later.predict(&images).unwrap(), adapted);
}

#[test]
fn the_examples_name_no_other_crate_of_this_workspace() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 3);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let other = text.replace("paint_tta", "");
        assert!(!other.contains("paint_"), "{}", file.display());
    }
}
