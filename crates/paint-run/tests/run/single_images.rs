//! What rows of the table of methods say of single images.

use paint_data::{Loader, ReadAhead};
use paint_methods::METHODS;
use paint_run::{Draft, Experiment};
use paint_tensor::Tensor;

/// In percent: what a method that works at batch 1 may lose to the frozen model.
const MARGIN: f64 = 3.0;

/// The accuracy of a method in percent, over embedded images that come one at a time.
fn accuracy(method: &str) -> f64 {
    let text = "\
        out = 'unused'\n\
        [model]\nweights = 'embedded'\n\
        [data]\nname = 'embedded'\ncorrupt = {}\n\
        [scenario]\nbatch_size = 1\nlimit = 60\ndomains = ['gaussian_noise', 'fog']\n";
    let mut draft = Draft::parse(text, "test").unwrap();
    draft.set("method.name", method).unwrap();
    let experiment = Experiment::open(draft.resolve().unwrap()).unwrap();
    let mut runner = experiment.runner().unwrap();
    let data = std::sync::Arc::clone(&experiment.dataset);
    for batch in Loader::new(data, experiment.stream.clone(), ReadAhead::default()) {
        let batch = batch.unwrap();
        let images = Tensor::from_vec(batch.images, batch.shape, experiment.device()).unwrap();
        runner.feed(&images).unwrap();
    }
    runner.finish().unwrap().mean_accuracy.unwrap()
}

#[test]
fn methods_that_work_at_batch_1_keep_up_with_the_frozen_model_and_paint_does_not() {
    let frozen = accuracy("source");
    for entry in METHODS.iter().filter(|entry| entry.works_on_single_images) {
        let found = accuracy(entry.name);
        assert!(found >= frozen - MARGIN, "{}: {found} of {frozen}", entry.name);
    }
    let paint = paint_methods::by_name("paint").unwrap();
    assert!(!paint.works_on_single_images && accuracy("paint") < frozen - MARGIN);
}
