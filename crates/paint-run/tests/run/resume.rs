//! A run that is stopped anywhere and continued ends with the bits of one that was not.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Drift, config, dataset, images, setup, stream};
use paint_nn::checkpoint::{Dtype, write_safetensors};
use paint_nn::state::file::{self, Kind};
use paint_rng::Seed;
use paint_run::checkpoint::Subject;
use paint_run::{Config, Draft, Runner, Summary, Task, checkpoint};
use paint_tensor::Device;

/// What must be equal: everything but speed, and the state on disk byte for byte.
fn without_timing(summary: &Summary) -> serde_json::Value {
    let mut value = serde_json::to_value(summary).unwrap();
    strip(&mut value);
    value
}

fn strip(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            map.remove("timing");
            map.values_mut().for_each(strip);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Runs until `stop`, from the checkpoint at `path` if it is there, and leaves a checkpoint.
fn run(path: &Path, stop: usize) -> (Summary, paint_methods::State) {
    let (data, setup) = (dataset(true), setup());
    let stream = stream(&data, "continual");
    let task = Task { dataset: &data, stream: &stream, setup: &setup };
    let mut runner = Runner::new("drift", Box::new(Drift::new()), task).unwrap();
    if path.exists() {
        let stopped = checkpoint::read(path, task, subject(&config()), &Device::cpu()).unwrap();
        stopped.restore(&mut runner).unwrap();
    }
    while let Some(batch) = runner.next_batch().filter(|_| runner.position() < stop) {
        runner.feed(&images(&data, batch)).unwrap();
    }
    checkpoint::save(path, &runner, subject(&config())).unwrap();
    let state = runner.method().save().unwrap();
    (runner.finish().unwrap(), state)
}

#[test]
fn stopping_at_twenty_random_points_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, state) = run(&folder.path().join("whole"), usize::MAX);
    let drift = state.tensors["drift"].to_vec().unwrap();
    let whole = without_timing(&whole);
    let mut rng = Seed(3).derive("test/stops", &[]);
    for i in 0..20 {
        let path = folder.path().join(format!("part{i}"));
        let (first, second) = (rng.below(31), rng.below(31));
        run(&path, first);
        run(&path, first.max(second));
        let (parts, state) = run(&path, usize::MAX);
        assert_eq!(without_timing(&parts), whole, "stopped at {first} and {second}");
        assert_eq!(state.tensors["drift"].to_vec().unwrap(), drift);
        assert_eq!(state.counters["steps"], 31);
    }
}

#[test]
fn another_configuration_or_other_images_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    run(&path, 5);
    let mut draft = Draft::parse(&config().to_toml().unwrap(), "test").unwrap();
    draft.set("method.rate", 2).unwrap();
    let error = refused(&path, subject(&draft.resolve().unwrap()));
    assert!(error.contains("method.rate = 2") && error.contains("method.rate = 1"), "{error}");
    let error = refused(&path, Subject { images: "others", ..subject(&config()) });
    assert!(error.contains("a run of other images"), "{error}");
}

fn subject(config: &Config) -> Subject<'_> {
    Subject { config, images: "these" }
}

fn refused(path: &Path, subject: Subject<'_>) -> String {
    let (data, setup) = (dataset(true), setup());
    let stream = stream(&data, "continual");
    let task = Task { dataset: &data, stream: &stream, setup: &setup };
    let read = checkpoint::read(path, task, subject, &Device::cpu());
    read.err().expect("a run of something else").to_string()
}

#[test]
fn a_flip_of_any_byte_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my state");
    run(&path, 5);
    let whole = std::fs::read(&path).unwrap();
    // Every bit in `paint_nn`'s own tests; here a dense sample.
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, bytes).unwrap();
        let error = refused(&path, subject(&config()));
        assert!(error.contains("my state"), "byte {at}: {error}");
    }
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(refused(&path, subject(&config())).contains("my state"));
}

#[test]
fn a_whole_file_that_cannot_be_of_this_stream_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    run(&path, 5);
    let saved = file::read(&path, Kind::Run, &Device::cpu()).unwrap();
    for (from, to, told) in [
        ("\"position\":5", "\"position\":32", "batch 32 of 31"),
        ("\"position\":5", "\"position\":0", "visits after 0 batches"),
        ("\"domain\":0", "\"domain\":7", "domain 7 of 2"),
        ("\"domains\":[[0,", "\"domains\":[[9,", "domain 9 of 2"),
        ("\"meter\":", "\"metre\":", "\"progress\" in the metadata"),
    ] {
        let mut about = saved.about.clone();
        let progress = about.get_mut("progress").unwrap();
        assert!(progress.contains(from), "{progress}");
        *progress = progress.replace(from, to);
        file::write(&path, Kind::Run, &saved.state, &about).unwrap();
        let error = refused(&path, subject(&config()));
        assert!(error.contains(told), "{error}");
    }
    write_safetensors(&path, [("x", &[1][..], &[1.0][..])], Dtype::F32, &BTreeMap::new()).unwrap();
    let error = refused(&path, subject(&config()));
    assert!(error.contains("other arrays"), "{error}");
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    run(&path, 5);
    let before = std::fs::read(&path).unwrap();
    let (data, setup) = (dataset(true), setup());
    let stream = stream(&data, "continual");
    let task = Task { dataset: &data, stream: &stream, setup: &setup };
    let runner = Runner::new("drift", Box::new(Drift::new()), task).unwrap();
    // A folder of that name stands in the way of the rename, the last step of the writing.
    let blocked = folder.path().join("blocked");
    std::fs::create_dir_all(blocked.join("inside")).unwrap();
    let error = checkpoint::save(&blocked, &runner, subject(&config())).unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.contains("blocked"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "no partial file stays behind: {left:?}");
}
