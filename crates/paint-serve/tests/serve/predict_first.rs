//! `predict-first`: answers at once, steps in the background.

use serde_json::json;

use crate::support::{
    Running, config, eventually, get, infer, logits, parameter, start, start_with,
};
use crate::tiny::pixels;

#[test]
fn images_are_answered_at_once_and_learnt_from_in_batches() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("tent", folder.path(), |options| options.batch = 8);
    let look = pixels(40, 4);
    let source = logits(&infer(&server, &look, &json!({ "adapt": false })));
    for at in 0..7 {
        let answer = infer(&server, &pixels(at, 1), &json!({}));
        assert_eq!(
            (parameter(&answer, "step"), parameter(&answer, "adapted")),
            (json!(0), json!(false))
        );
    }
    let still = infer(&server, &look, &json!({ "adapt": false }));
    assert_eq!(logits(&still), source, "nothing is learnt from seven images of eight");
    infer(&server, &pixels(7, 1), &json!({}));
    eventually("a step", || {
        parameter(&infer(&server, &look, &json!({ "adapt": false })), "step") == 1
    });
    let learnt = logits(&infer(&server, &look, &json!({ "adapt": false })));
    assert_ne!(learnt, source);
    server.stop();

    // The state is on the disk, and answers the same.
    let server = start("tent", folder.path(), |options| options.batch = 8);
    let restored = infer(&server, &look, &json!({ "adapt": false }));
    assert_eq!(parameter(&restored, "step"), 1);
    assert_eq!(logits(&restored), learnt);
}

#[test]
fn images_that_wait_outlast_an_eviction_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let weights = config("tent", folder.path());
    let serve = || {
        start_with(weights.clone(), &state, |options| {
            options.batch = 8;
            options.stream_memory = 1;
        })
    };
    let send = |server: &Running, id: &str, count: usize| {
        infer(server, &pixels(0, count), &json!({ "sequence_id": id }))
    };
    let server = serve();
    send(&server, "a", 3);
    send(&server, "b", 1);
    eventually("an eviction", || state.join("paint/a.pending").exists());
    send(&server, "a", 3);
    server.stop();
    let server = serve();
    assert_eq!(parameter(&send(&server, "a", 2), "step"), 0);
    eventually("a step on 3 + 3 + 2 images", || parameter(&send(&server, "a", 1), "step") == 1);
}

#[test]
fn a_batch_that_stays_short_is_learnt_from_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("tent", folder.path(), |options| {
        options.max_delay = Some(std::time::Duration::from_millis(200));
    });
    infer(&server, &pixels(0, 8), &json!({}));
    eventually("a late step", || {
        parameter(&infer(&server, &pixels(0, 1), &json!({ "adapt": false })), "step") == 1
    });
}

#[test]
fn streams_learn_apart_and_one_request_may_choose_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("tent", folder.path(), |_| {});
    let batch = pixels(0, 8);
    let ask = |id: &str, more: &str| {
        infer(
            &server,
            &batch,
            &json!({ "sequence_id": id, "mode": more, "adapt": more == "adapt-first" }),
        )
    };
    let source = logits(&ask("b", "predict-first"));
    let stepped = ask("a", "adapt-first");
    assert_eq!(parameter(&stepped, "version"), "0.1");
    assert_ne!(logits(&ask("a", "predict-first")), source);
    assert_eq!(logits(&ask("b", "predict-first")), source);
    let saved = get(server.admin, "/admin/v1/streams/a").json();
    assert_eq!(saved["points"].as_array().unwrap().len(), 1);
}
