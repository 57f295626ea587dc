//! Administration: actions on streams, the audit, events, metrics, the page and the token.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use paint_serve::Mode;
use serde_json::{Value, json};

use crate::support::{
    Running, call, config, get, infer, logits, parameter, post, start, start_with,
};
use crate::tiny::pixels;

fn act(server: &Running, action: &str, body: &Value) -> (u16, Value) {
    let answer = post(server.admin, &format!("/admin/v1/streams/cam/{action}"), body);
    (answer.status, answer.json())
}

fn step(server: &Running, first: usize) -> Vec<f32> {
    logits(&infer(server, &pixels(first, 8), &json!({ "sequence_id": "cam" })))
}

#[test]
fn a_stream_is_kept_rolled_back_frozen_and_reset() {
    let folder = tempfile::tempdir().unwrap();
    let adapt_first = |options: &mut paint_serve::Options| options.mode = Mode::AdaptFirst;
    let server = start("tent", folder.path(), adapt_first);
    assert_eq!(act(&server, "snapshot", &json!({})).0, 404, "nobody has used it");
    let first = step(&server, 0);
    assert_eq!(act(&server, "rollback", &json!({})).0, 404, "there is no snapshot");
    let (status, done) = act(&server, "snapshot", &json!({}));
    assert_eq!((status, &done["step"], &done["version"]), (200, &json!(1), &json!("0.1")));
    let second = step(&server, 8);
    step(&server, 16);
    let snapshots = get(server.admin, "/admin/v1/streams/cam/snapshots").json();
    assert_eq!(snapshots["snapshots"][0]["step"], 1);
    let (status, done) = act(&server, "rollback", &json!({ "step": 1 }));
    assert_eq!((status, &done["version"]), (200, &json!("1.1")));
    assert_eq!(step(&server, 8), second, "as if the third batch had never come");

    assert_eq!(act(&server, "freeze", &json!({})).0, 200);
    let frozen = step(&server, 24);
    assert_eq!(step(&server, 24), frozen);
    let last = infer(&server, &pixels(0, 1), &json!({ "sequence_id": "cam" }));
    assert_eq!((parameter(&last, "step"), parameter(&last, "adapted")), (json!(2), json!(false)));
    server.stop();
    let server = start("tent", folder.path(), adapt_first);
    assert_eq!(step(&server, 24), frozen, "a frozen stream stays frozen");
    assert_eq!(act(&server, "resume", &json!({})).0, 200);
    step(&server, 24);
    assert_eq!(act(&server, "reset", &json!({})).0, 200);
    assert_eq!(step(&server, 0), first);

    assert_eq!(act(&server, "explode", &json!({})).0, 404);
    assert_eq!(act(&server, "rollback", &json!({ "stap": 1 })).0, 400);
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let actions: Vec<&str> = lines.iter().map(|line| line["action"].as_str().unwrap()).collect();
    let expected = ["begin", "snapshot", "rollback", "freeze", "restore", "resume", "reset"];
    assert_eq!(actions, expected);
}

#[test]
fn a_pinned_snapshot_outlives_newer_ones() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("tent", folder.path(), |options| {
        options.mode = Mode::AdaptFirst;
        (options.snapshot_every, options.snapshots) = (1, 2);
    });
    let kept = || {
        let told = get(server.admin, "/admin/v1/streams/cam/snapshots").json();
        let pair = |it: &Value| (it["step"].as_u64().unwrap(), it["pinned"] == true);
        told["snapshots"].as_array().unwrap().iter().map(pair).collect::<Vec<_>>()
    };
    let first = step(&server, 0);
    assert_eq!(act(&server, "pin", &json!({ "step": 2 })).0, 404, "it is not there yet");
    assert_eq!(act(&server, "pin", &json!({})).0, 200);
    let second = step(&server, 8);
    for at in [16, 24, 32] {
        step(&server, at);
    }
    assert_eq!(kept(), [(5, false), (4, false), (1, true)]);
    assert_eq!(act(&server, "rollback", &json!({ "step": 1 })).0, 200);
    assert_eq!(step(&server, 8), second);
    assert_eq!(act(&server, "reset", &json!({})).0, 200);
    assert_eq!(step(&server, 0), first);
    assert_eq!(act(&server, "rollback", &json!({ "step": 1 })).1["version"], "3.1");
    assert_eq!(act(&server, "snapshot", &json!({})).0, 409, "a pinned one is not replaced");
    assert_eq!(act(&server, "unpin", &json!({ "step": 1 })).0, 200);
    step(&server, 8);
    assert_eq!(kept(), [(5, false), (2, false)], "the newest two, whatever their steps");
}

#[test]
fn a_state_counts_as_much_as_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("paint", folder.path(), |options| {
        options.mode = Mode::AdaptFirst;
        options.checkpoint_every = 2;
    });
    let bytes = || get(server.admin, "/admin/v1/streams/cam").json()["bytes"].as_u64().unwrap();
    let file = || std::fs::metadata(folder.path().join("paint/cam.safetensors")).unwrap().len();
    step(&server, 0);
    let fresh = bytes();
    assert!(fresh > 0);
    step(&server, 8);
    assert_eq!(bytes(), file());
    assert!(bytes() > fresh, "a prompt was added");
    step(&server, 16);
    act(&server, "reset", &json!({}));
    assert_eq!(bytes(), file());
}

#[test]
fn the_page_follows_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let weights = tempfile::tempdir().unwrap();
    let mut paint = config("paint", weights.path());
    paint.guard = Some(paint_methods::guard::Config::default());
    let server = start_with(paint, folder.path(), |options| options.mode = Mode::AdaptFirst);
    let mut events = TcpStream::connect(server.admin).unwrap();
    write!(events, "GET /admin/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n", server.admin).unwrap();
    let mut lines = BufReader::new(events).lines();
    lines.find(|line| line.as_ref().unwrap().starts_with(": hello")).unwrap().unwrap();
    step(&server, 0);
    step(&server, 8);
    let told = lines.map(Result::unwrap).find_map(|line| {
        line.strip_prefix("data: ").map(str::to_owned).filter(|data| data.contains("\"point\""))
    });
    let told: Value = serde_json::from_str(&told.unwrap()).unwrap();
    assert_eq!((&told["stream"], &told["point"]["step"]), (&json!("cam"), &json!(1)));
    let stream = get(server.admin, "/admin/v1/streams/cam").json();
    let point = &stream["points"][1];
    assert!(point["estimate_adapted"].is_f64() && point["entropy"].as_f64().unwrap() < 1.0);
    let condition = &stream["conditions"]["0"];
    assert_eq!((&condition["images"], &condition["thumbnail_count"]), (&json!(16), &json!(2)));
    let thumbnail = get(server.admin, "/admin/v1/streams/cam/thumbnails/0/1");
    assert!(thumbnail.body.starts_with(b"\x89PNG"));
    assert_eq!(get(server.admin, "/admin/v1/streams/cam/thumbnails/0/9").status, 404);
    assert_eq!(get(server.admin, "/admin/v1/streams/other").status, 404);
    let page = get(server.admin, "/");
    assert!(page.headers["content-security-policy"].starts_with("default-src 'self'"));
    let metrics = String::from_utf8(get(server.admin, "/metrics").body).unwrap();
    assert!(
        metrics.contains("paint_steps_total{model=\"paint\",outcome=\"learnt\"} 2\n"),
        "{metrics}"
    );
    assert!(metrics.contains("paint_images_total{model=\"paint\"} 16\n"));
}

#[test]
fn with_a_token_nothing_is_told_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |options| {
        options.token = Some("open sesame".into());
    });
    let with = |address, path: &str, token: &str| {
        call(address, &format!("GET {path}"), &[("Authorization", token)], b"").status
    };
    for (address, path) in [(server.inference, "/v2"), (server.admin, "/metrics")] {
        assert_eq!(get(address, path).status, 401);
        assert_eq!(with(address, path, "Bearer sesame"), 401);
        assert_eq!(with(address, path, "Bearer open sesame"), 200);
    }
    assert_eq!(get(server.inference, "/v2/health/ready").status, 200);
    assert_eq!(infer(&server, &pixels(0, 1), &json!({})).status, 401);
}
