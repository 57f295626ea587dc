//! What an experiment does before, and does not do if it is refused.

use paint_data::SampleRef;
use paint_run::probe::clean_domain;
use paint_run::watch::Passes;
use paint_run::{Draft, Earlier, Event, Experiment};

/// RMT with a warm-up, over a few embedded images.
fn experiment(out: &std::path::Path, lr: f64) -> Experiment {
    let text = "\
        [model]\nweights = 'embedded'\n\
        [data]\nname = 'embedded'\ncorrupt = {}\n\
        [scenario]\nbatch_size = 4\nlimit = 4\ndomains = ['fog']\n\
        [source]\nname = 'embedded'\nimages = 8\noptions = { split = 'train' }\n\
        [method]\nname = 'rmt'\nwarmup_images = 8\nsource_batch = 4\n";
    let mut draft = Draft::parse(text, "test").unwrap();
    draft.set("out", out.to_str().unwrap()).unwrap();
    draft.set("method.lr", lr).unwrap();
    Experiment::open(draft.resolve().unwrap()).unwrap()
}

#[test]
fn a_run_that_is_refused_warms_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let refused = |lr: f64, earlier: Earlier, why: &str| {
        let experiment = experiment(out, lr);
        let error = experiment.run(earlier, |_: &Event| {}).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(experiment.watch().take(), Passes::default(), "{why}");
    };
    let held = paint_files::claim(out).unwrap();
    refused(1e-4, Earlier::Resume, "another run works in");
    drop(held);
    experiment(out, 1e-4).run(Earlier::Keep, |_: &Event| {}).unwrap();
    refused(1e-4, Earlier::Keep, "holds an earlier run");
    refused(2e-4, Earlier::Resume, "method.lr = 0.0002");
}

#[test]
fn an_image_that_is_corrupted_on_the_fly_knows_its_clean_one_and_others_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let corrupted = experiment(folder.path(), 1e-4);
    let at = corrupted.stream.batches[0].samples[2];
    let clean = clean_domain(&*corrupted.dataset).unwrap();
    let found = corrupted.clean_image(at).unwrap().unwrap();
    assert_eq!(found.domain, clean);
    assert_eq!(found.sample, corrupted.dataset.sample(clean, at.index).unwrap());
    assert_ne!(found.sample, corrupted.dataset.sample(at.domain, at.index).unwrap());
    let itself = SampleRef { domain: clean, ..at };
    assert!(corrupted.clean_image(itself).unwrap().is_none());
}
