//! Files that cannot be written, or not be read: what the streams say, and what heals them.

use std::fs;
use std::path::Path;

use paint_serve::{Error, Mode};
use serde_json::{Value, json};

use crate::support::{Response, Running, infer, logits, parameter, post, start};
use crate::tiny::pixels;

/// Saves nothing by itself.
fn serve(state: &Path) -> Running {
    start("tent", state, |options| {
        options.mode = Mode::AdaptFirst;
        options.checkpoint_every = 1000;
    })
}

fn ask(server: &Running, stream: &str, first: usize) -> Response {
    infer(server, &pixels(first, 8), &json!({ "sequence_id": stream }))
}

fn act(server: &Running, action: &str, body: &Value) -> Response {
    post(server.admin, &format!("/admin/v1/streams/cam/{action}"), body)
}

fn flip_a_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_stream_that_cannot_be_moved_to_the_disk_fails_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("tent", folder.path(), |options| {
        options.mode = Mode::AdaptFirst;
        options.checkpoint_every = 1000;
        // Room for one stream.
        options.stream_memory = 1;
    });
    assert_eq!(ask(&server, "a", 0).status, 200);
    // No file can take the place of a folder.
    let place = folder.path().join("paint/a.safetensors");
    fs::create_dir(&place).unwrap();
    for id in ["b", "c"] {
        let answer = ask(&server, id, 0);
        assert_eq!(parameter(&answer, "step"), 1, "{id}");
    }
    assert!(folder.path().join("paint/b.safetensors").exists(), "the others make room");
    assert_eq!(parameter(&ask(&server, "a", 8), "step"), 2, "it is still in memory");
    fs::remove_dir(&place).unwrap();
    server.stop();
    assert!(place.is_file());
}

#[test]
fn a_server_that_could_not_save_says_so_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    assert_eq!(ask(&server, "cam", 0).status, 200);
    fs::create_dir(folder.path().join("paint/cam.safetensors")).unwrap();
    let error = server.ended().unwrap_err();
    assert!(matches!(error, Error::Lost), "{error}");
}

#[test]
fn a_damaged_stream_says_so_until_it_is_rolled_back_or_reset() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let first = logits(&ask(&server, "cam", 0));
    assert_eq!(act(&server, "snapshot", &json!({})).status, 200);
    let second = logits(&ask(&server, "cam", 8));
    server.stop();
    let state = folder.path().join("paint/cam.safetensors");
    let snapshot = folder.path().join("paint/cam.safetensors.000000001");

    flip_a_bit(&state);
    let server = serve(folder.path());
    for answer in [ask(&server, "cam", 16), act(&server, "freeze", &json!({}))] {
        let error = answer.error();
        assert_eq!(answer.status, 500, "{error}");
        let told = ["cannot be read", "reset it", &*state.display().to_string()];
        assert!(told.iter().all(|told| error.contains(told)), "{error}");
    }
    assert_eq!(ask(&server, "other", 0).status, 200);
    let missing = act(&server, "rollback", &json!({ "step": 7 }));
    assert_eq!(missing.status, 404);
    let told = ["after 7 batches", "found 1 kept"];
    assert!(told.iter().all(|told| missing.error().contains(told)), "{}", missing.error());
    let done = act(&server, "rollback", &json!({}));
    assert_eq!((done.status, &done.json()["step"]), (200, &json!(1)));
    assert_eq!(logits(&ask(&server, "cam", 8)), second, "as after the snapshot");
    server.stop();
    let aside = folder.path().join("paint/cam.safetensors.damaged");
    fs::remove_file(&aside).unwrap();

    for path in [&state, &snapshot] {
        flip_a_bit(path);
    }
    let server = serve(folder.path());
    let refused = act(&server, "rollback", &json!({}));
    assert_eq!(refused.status, 500);
    assert!(refused.error().contains("000000001"), "{}", refused.error());
    let done = act(&server, "reset", &json!({}));
    assert_eq!((done.status, &done.json()["step"]), (200, &json!(0)));
    assert_eq!(logits(&ask(&server, "cam", 0)), first, "the source model again");
    server.stop();
    assert!(aside.exists());
}

#[test]
fn a_reset_heals_a_stream_whose_settings_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let first = logits(&ask(&server, "cam", 0));
    assert_eq!(act(&server, "freeze", &json!({})).status, 200);
    server.stop();
    let meta = folder.path().join("paint/cam.json");
    fs::write(&meta, "{").unwrap();
    let server = serve(folder.path());
    let refused = ask(&server, "cam", 0);
    assert_eq!(refused.status, 500);
    assert!(refused.error().contains("cam.json"), "{}", refused.error());
    assert_eq!(act(&server, "reset", &json!({})).status, 200);
    let aside = |name: &str| folder.path().join(format!("paint/{name}.damaged"));
    assert!(aside("cam.json").exists() && !aside("cam.safetensors").exists());
    assert_eq!(parameter(&ask(&server, "cam", 0), "step"), 0, "it may have been frozen");
    assert_eq!(act(&server, "resume", &json!({})).status, 200);
    assert_eq!(logits(&ask(&server, "cam", 0)), first, "and it learns again");
}

#[test]
fn a_stream_with_damaged_settings_and_no_state_is_healed_unless_another_server_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    fs::write(folder.path().join("paint/cam.json"), "{").unwrap();
    assert_eq!(ask(&server, "cam", 0).status, 500);
    let claim = paint_files::claim_file(&folder.path().join("paint/cam.safetensors")).unwrap();
    assert_eq!(act(&server, "reset", &json!({})).status, 409);
    drop(claim);
    assert_eq!(act(&server, "snapshot", &json!({})).status, 500, "that heals nothing");
    assert_eq!(act(&server, "reset", &json!({})).status, 200);
    assert_eq!(ask(&server, "cam", 0).status, 200);
}

#[test]
fn damaged_settings_cost_nothing_that_was_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    ask(&server, "cam", 0);
    let second = logits(&ask(&server, "cam", 8));
    server.stop();
    let state = folder.path().join("paint/cam.safetensors");
    let twin = folder.path().join("paint/twin.safetensors");
    fs::copy(&state, &twin).unwrap();
    fs::write(folder.path().join("paint/cam.json"), "{").unwrap();
    let server = serve(folder.path());
    let refused = ask(&server, "cam", 0);
    assert_eq!(refused.status, 500);
    assert!(refused.error().contains("freeze or resume"), "{}", refused.error());
    let done = act(&server, "resume", &json!({}));
    assert_eq!((done.status, &done.json()["step"]), (200, &json!(2)));
    let third = logits(&ask(&server, "cam", 16));
    assert_eq!(third, logits(&ask(&server, "twin", 16)), "the state goes on");
    assert_ne!(third, second);
    server.stop();

    flip_a_bit(&state);
    fs::write(folder.path().join("paint/cam.json"), "{").unwrap();
    let server = serve(folder.path());
    let refused = act(&server, "freeze", &json!({}));
    assert_eq!(refused.status, 500, "the state is damaged too");
    assert!(refused.error().contains("cam.safetensors"), "{}", refused.error());
    assert_eq!(act(&server, "reset", &json!({})).status, 200);
}
