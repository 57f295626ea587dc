//! `adapt-first` is `paint run`, bit for bit: in one go, after a crash, and after an eviction.

use std::path::Path;

use paint_run::deployment::Config;
use paint_run::{Draft, Earlier, Event, Experiment};
use paint_serve::{Mode, Options};
use serde_json::json;

use crate::support::{
    Running, eventually, get, infer, logits, parameter, pixels, start, start_with,
};
use crate::tiny;

const BATCH: usize = 10;
const BATCHES: usize = 6;

/// The logits of `paint run` as it hashes them, and the pixels of its batches.
struct Measured {
    hash: String,
    batches: Vec<Vec<u8>>,
    config: Config,
}

fn measured(method: &str, folder: &Path) -> Measured {
    let weights = tiny::weights(folder);
    let text = format!(
        "[model]\nweights = '{}'\n[data]\nname = 'embedded'\ncorrupt = {{}}\n\
         [scenario]\nbatch_size = {BATCH}\nlimit = {}\ndomains = ['fog', 'gaussian_noise']\n\
         [method]\nname = '{method}'\n",
        weights.display(),
        BATCH * BATCHES / 2
    );
    let mut draft = Draft::parse(&text, "test").unwrap();
    draft.set("out", folder.join("run").to_str().unwrap()).unwrap();
    let experiment = Experiment::open(draft.resolve().unwrap()).unwrap();
    let batches = experiment.stream.batches.iter().map(|batch| {
        let sample = |at: &paint_data::SampleRef| experiment.dataset.sample(at.domain, at.index);
        batch.samples.iter().flat_map(|at| sample(at).unwrap().image.into_pixels()).collect()
    });
    let batches = batches.collect();
    let config = Config::from(&experiment.config);
    let summary = experiment.run(Earlier::Keep, |_: &Event| {}).unwrap();
    Measured { hash: summary.logits_hash, batches, config }
}

/// As `paint run` hashes logits.
fn hash(logits: &[f32]) -> String {
    let bytes = logits.iter().flat_map(|logit| logit.to_bits().to_le_bytes());
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.fold(0, fnv))
}

fn adapt_first(options: &mut Options) {
    options.mode = Mode::AdaptFirst;
    options.checkpoint_every = 1;
}

fn send(server: &Running, batch: &[u8], step: usize) -> Vec<f32> {
    let answer = infer(server, batch, &json!({ "sequence_id": "cam" }));
    assert_eq!(parameter(&answer, "step"), step + 1);
    assert_eq!(parameter(&answer, "adapted"), true);
    logits(&answer)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn equals_a_run(method: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Measured { hash: expected, batches, config } = measured(method, folder.path());
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let server = start_with(config.clone(), &first, |options| {
        adapt_first(options);
        // Room for one stream: another one sends it to the disk.
        options.stream_memory = 1;
    });
    let mut found = Vec::new();
    for (step, batch) in batches[..4].iter().enumerate() {
        found.extend(send(&server, batch, step));
        if step == 1 {
            let other = infer(&server, &pixels(0, 8), &json!({ "sequence_id": 7, "adapt": false }));
            assert_eq!(other.status, 200);
            let metrics = get(server.admin, "/metrics").body;
            assert!(String::from_utf8_lossy(&metrics).contains("\npaint_evictions_total 1\n"));
        }
    }
    // What a crash leaves: the files of this moment, which nobody has closed.
    copy(&first, &second);
    drop(server);
    let server = start_with(config, &second, adapt_first);
    for (step, batch) in batches.iter().enumerate().skip(4) {
        found.extend(send(&server, batch, step));
    }
    assert_eq!(hash(&found), expected);
}

#[test]
fn paint_equals_a_run() {
    equals_a_run("paint");
}

#[test]
fn keel_equals_a_run() {
    equals_a_run("keel");
}

#[test]
fn tent_equals_a_run() {
    equals_a_run("tent");
}

#[test]
fn a_sequence_begins_anew_and_ends_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("tent", folder.path(), adapt_first);
    let batch = pixels(0, 8);
    let ask = |start: bool, end: bool| {
        let flags = json!({ "sequence_id": 5, "sequence_start": start, "sequence_end": end });
        infer(&server, &batch, &flags)
    };
    let fresh = ask(true, false);
    let second = ask(false, false);
    assert_ne!(logits(&fresh), logits(&second));
    assert_eq!(parameter(&second, "version"), "0.2");
    // A live stream that begins again is kept as a snapshot, and is the source model again.
    let again = ask(true, false);
    assert_eq!(logits(&fresh), logits(&again));
    assert_eq!(parameter(&again, "version"), "1.1");
    assert!(folder.path().join("5.safetensors.000000002").exists());
    ask(false, true);
    eventually("an end", || {
        let streams = get(server.admin, "/admin/v1/streams").json();
        streams["streams"][0]["in_memory"] == false
    });
    // Its end is no loss.
    assert_eq!(parameter(&ask(false, false), "step"), 3);
}

#[test]
fn two_servers_on_one_folder_never_adapt_a_stream_apart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let config = tiny::config("tent", folder.path());
    let [one, two] = [0, 1].map(|_| start_with(config.clone(), &state, adapt_first));
    send(&one, &pixels(0, 8), 0);
    let refused = infer(&two, &pixels(0, 8), &json!({ "sequence_id": "cam" }));
    assert_eq!(refused.status, 409, "{}", refused.error());
    assert_eq!(infer(&two, &pixels(0, 8), &json!({ "sequence_id": "other" })).status, 200);
    one.stop();
    send(&two, &pixels(8, 8), 1);
}
