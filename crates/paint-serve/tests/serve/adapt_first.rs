//! `adapt-first` is `paint run`, bit for bit: in one go, after a crash, and after an eviction.

use std::path::Path;

use paint_serve::{Mode, Options};
use serde_json::json;

use crate::measured::{Measured, hash, measured};
use crate::support::{
    Running, config, eventually, get, infer, logits, parameter, start, start_with,
};
use crate::tiny::pixels;

const BATCH: usize = 10;
const BATCHES: usize = 12;
/// Steps before the stream is moved to the disk, and before the server is gone.
const EVICTED: usize = 4;
const CRASHED: usize = 8;

fn adapt_first(options: &mut Options) {
    options.mode = Mode::AdaptFirst;
    options.checkpoint_every = 1;
}

fn send(server: &Running, batch: &[u8], step: usize) -> Vec<u8> {
    let answer = infer(server, batch, &json!({ "sequence_id": "cam" }));
    assert_eq!(parameter(&answer, "step"), step + 1);
    assert_eq!(parameter(&answer, "adapted"), true);
    answer.raw().to_vec()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn equals_a_run(method: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Measured { hash: expected, batches, config } =
        measured(method, BATCH, BATCHES, folder.path());
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let server = start_with(config.clone(), &first, |options| {
        adapt_first(options);
        // Room for one stream: another one sends it to the disk.
        options.stream_memory = 1;
    });
    let mut found = Vec::new();
    for (step, batch) in batches[..CRASHED].iter().enumerate() {
        found.extend(send(&server, batch, step));
        if step + 1 == EVICTED {
            let other = infer(&server, &pixels(0, 8), &json!({ "sequence_id": 7, "adapt": false }));
            assert_eq!(other.status, 200);
            let metrics = get(server.admin, "/metrics").body;
            assert!(
                String::from_utf8_lossy(&metrics)
                    .contains("paint_evictions_total{model=\"paint\"} 1\n")
            );
        }
    }
    // What a crash leaves: the files of this moment, which nobody has closed.
    copy(&first.join("paint"), &second.join("paint"));
    drop(server);
    let server = start_with(config, &second, adapt_first);
    for (step, batch) in batches.iter().enumerate().skip(CRASHED) {
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
    assert!(folder.path().join("paint/5.safetensors.000000002").exists());
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
    let config = config("tent", folder.path());
    let [one, two] = [0, 1].map(|_| start_with(config.clone(), &state, adapt_first));
    send(&one, &pixels(0, 8), 0);
    let refused = infer(&two, &pixels(0, 8), &json!({ "sequence_id": "cam" }));
    assert_eq!(refused.status, 409, "{}", refused.error());
    assert_eq!(infer(&two, &pixels(0, 8), &json!({ "sequence_id": "other" })).status, 200);
    one.stop();
    send(&two, &pixels(8, 8), 1);
}
