//! Requests that are wrong, too large, too many or too late. The server answers the next one.

use std::io::Write as _;
use std::net::TcpStream;

use paint_rng::Seed;
use paint_serve::Mode;
use serde_json::json;

use crate::support::{Running, call, exchange, infer, parameter, start};
use crate::tiny::{SIDE, pixels};

const INFER: &str = "POST /v2/models/paint/infer";

fn is_alive(server: &Running) {
    assert_eq!(infer(server, &pixels(0, 1), &json!({})).status, 200);
}

#[test]
fn wrong_requests_are_refused_with_what_was_expected_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |options| options.limits.images = 4);
    let input = |datatype: &str, shape: &str, rest: &str| {
        format!(
            r#"{{"inputs": [{{"name": "images", "datatype": "{datatype}", "shape": {shape}, {rest}}}]}}"#
        )
    };
    let huge = "[4, 4294967296, 4294967296, 3]";
    let cases = [
        (String::new(), "JSON"),
        ("[1, 2".to_owned(), "JSON"),
        (r#"{"inputs": []}"#.to_owned(), "0 inputs"),
        (input("INT8", "[1]", r#""data": []"#), "INT8"),
        (input("UINT8", "[1, 32, 32]", r#""data": []"#), "[1, 32, 32]"),
        (input("UINT8", "[-1, 32, 32, 3]", r#""data": []"#), "-1"),
        (input("UINT8", "[5, 32, 32, 3]", r#""data": []"#), "found 5"),
        (input("UINT8", "[0, 32, 32, 3]", r#""data": []"#), "found 0"),
        (input("UINT8", huge, r#""data": []"#), "4294967296"),
        (input("UINT8", "[1, 16384, 16384, 3]", r#""data": [1]"#), "805306368 numbers"),
        (input("UINT8", "[1, 1, 1, 3]", r#""data": [1, 2, 256]"#), "256"),
        (input("UINT8", "[1, 1, 1, 3]", r#""data": [1, 2, 0.5]"#), "0.5"),
        (input("UINT8", "[1, 1, 1, 3]", r#""parameters": {"binary_data_size": 3}"#), "0 bytes"),
        (input("FP32", "[1, 3, 8, 8]", r#""data": []"#), "[B, 3, 32, 32]"),
        (input("BYTES", "[1]", r#""data": ["????"]"#), "base64"),
        (input("BYTES", "[1]", r#""data": ["R0lGODlh"]"#), "a GIF image"),
        (input("BYTES", "[2]", r#""data": ["AA=="]"#), "2 strings"),
        (input("BYTES", "[3]", r#""data": ["????", "AA==", "????"]"#), "image 0 of the request"),
    ];
    for (body, found) in cases {
        let answer = call(server.inference, INFER, &[], body.as_bytes());
        assert_eq!(answer.status, 400, "{body}");
        let error = answer.error();
        assert!(error.contains("expected") && error.contains(found), "{body}: {error}");
    }
    let fp32 = json!({ "inputs": [{ "name": "images", "datatype": "FP32", "shape": [1, 3, 32, 32], "data": vec![1.5; 3072] }] });
    let answer = call(server.inference, INFER, &[], fp32.to_string().as_bytes());
    assert_eq!((answer.status, answer.error().contains("1.5")), (400, true));
    is_alive(&server);
}

#[test]
fn what_is_too_large_or_encoded_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |options| options.limits.body = 10_000);
    let large = call(server.inference, INFER, &[("Content-Length", "10001")], b"");
    assert_eq!((large.status, large.error().contains("10001")), (413, true));
    let mut chunked = format!(
        "{INFER} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    chunked.extend(["2ee0\r\n", &" ".repeat(0x2ee0), "\r\n0\r\n\r\n"]);
    let answer = String::from_utf8(exchange(server.inference, chunked.as_bytes())).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let packed = call(server.inference, INFER, &[("Content-Encoding", "gzip")], b"x");
    assert_eq!(packed.status, 415);
    let length = call(server.inference, INFER, &[("Inference-Header-Content-Length", "9")], b"x");
    assert_eq!(length.status, 400);
    is_alive(&server);
}

#[test]
fn a_full_queue_refuses_and_a_deadline_ends_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("paint", folder.path(), |options| {
        options.mode = Mode::AdaptFirst;
        options.limits.queued = 32;
        options.limits.images = 32;
    });
    let batch = pixels(0, 32);
    let answers = std::thread::scope(|scope| {
        let ask = || (0..10).map(|_| infer(&server, &batch, &json!({}))).collect::<Vec<_>>();
        let asked: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
    assert!(!refused.is_empty() && refused.len() < answers.len(), "{}", refused.len());
    for answer in &refused {
        assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (429, "1"));
        assert!(answer.error().contains("expected room"), "{}", answer.error());
    }
    let steps = answers.len() - refused.len();
    let last = infer(&server, &batch, &json!({ "adapt": false }));
    assert_eq!(parameter(&last, "step"), steps, "each answer is a step, and each refusal none");
    let late = infer(&server, &pixels(0, 1), &json!({ "timeout": 1 }));
    assert_eq!((late.status, late.error().contains("deadline")), (503, true));
    is_alive(&server);
}

#[test]
fn a_stream_too_many_is_refused_and_those_that_are_there_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |options| options.limits.streams = 1);
    let ask = |id: &str| infer(&server, &pixels(0, 1), &json!({ "sequence_id": id }));
    assert_eq!(ask("a").status, 200);
    let refused = ask("b");
    assert_eq!((refused.status, refused.headers["retry-after"].as_str()), (429, "1"));
    assert!(refused.error().contains("at most 1, found one more"), "{}", refused.error());
    assert_eq!(ask("a").status, 200);
}

#[test]
fn clients_that_go_away_or_stammer_leave_the_server_standing() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |_| {});
    for text in [
        "",
        "GET",
        "POST /v2/models/paint/infer HTTP/1.1\r\nContent-Length: 100\r\n\r\nshort",
        "\0\0\0\0\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.inference).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
    }
    is_alive(&server);
}

/// A valid request with bytes changed, cut out and put in.
#[test]
fn damaged_requests_never_bring_it_down() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |options| options.limits.streams = 4);
    let raw = pixels(0, 1);
    let request = json!({
        "id": "1",
        "parameters": { "sequence_id": "s", "timeout": 1_000_000 },
        "inputs": [{ "name": "images", "datatype": "UINT8", "shape": [1, SIDE, SIDE, 3], "parameters": { "binary_data_size": raw.len() } }],
        "outputs": [{ "name": "logits", "parameters": { "classification": 2, "binary_data": true } }],
    })
    .to_string();
    let whole = [request.as_bytes(), &raw].concat();
    let mut rng = Seed(7).derive("serve/fuzz", &[]);
    let mut draw = |below: usize| (rng.uniform() * below as f64) as usize;
    for round in 0..300 {
        let mut body = whole.clone();
        let mut len = request.len();
        for _ in 0..=draw(4) {
            let at = draw(if round % 3 == 0 { body.len() } else { len.max(1) }).min(body.len() - 1);
            match draw(3) {
                0 => body[at] = draw(256) as u8,
                1 => drop(body.drain(at..(at + draw(20)).min(body.len() - 1))),
                _ => body.insert(at, b"{}[]\",:-9e"[draw(10)]),
            }
        }
        if draw(4) == 0 {
            len = draw(body.len() * 2);
        }
        let len = len.to_string();
        let headers = [("Inference-Header-Content-Length", len.as_str())];
        let answer = call(server.inference, INFER, &headers, &body);
        assert!([200, 400, 429].contains(&answer.status), "{}: {:?}", answer.status, answer.body);
    }
    is_alive(&server);
}
