//! `predict-first`: answers at once, steps in the background.

use serde_json::json;

use crate::support::{eventually, get, infer, logits, parameter, pixels, start};

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
    assert!(folder.path().join("a.safetensors").exists());
}
