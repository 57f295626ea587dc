//! The Open Inference Protocol: what is described, and every way to send images and to ask for outputs.

use serde_json::{Value, json};

use crate::support::{call, get, infer, infer_with, logits, parameter, post, start};
use crate::tiny::{SIDE, pixels};

const INFER: &str = "/v2/models/paint/infer";

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let held = three.iter().fold(0_u32, |held, byte| held << 8 | u32::from(*byte));
        let held = held << (8 * (3 - three.len()));
        let digits =
            (0..=three.len()).map(|at| DIGITS[(held >> (18 - 6 * at)) as usize & 63] as char);
        text.extend(digits);
    }
    text
}

#[test]
fn server_and_model_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |_| {});
    let at = |path: &str| get(server.inference, path);
    assert_eq!(at("/v2/health/live").status, 200);
    assert_eq!(at("/v2/health/ready").status, 200);
    assert_eq!(at("/v2/models/paint/ready").status, 200);
    let extensions = at("/v2").json()["extensions"].clone();
    assert!(extensions.as_array().unwrap().contains(&json!("sequence(string_id)")));
    let metadata = at("/v2/models/paint").json();
    assert_eq!(metadata["inputs"][0]["shape"], json!([-1, SIDE, SIDE, 3]));
    assert_eq!(
        metadata["outputs"][0],
        json!({ "name": "logits", "datatype": "FP32", "shape": [-1, 10] })
    );
    assert_eq!(at("/v2/models/paint/versions/1").json(), metadata);
    let config = at("/v2/models/paint/config").json();
    assert_eq!((&config["max_batch_size"], config.get("sequence_batching")), (&json!(256), None));
    infer(&server, &pixels(0, 3), &json!({}));
    let stats = &at("/v2/models/paint/versions/1/stats").json()["model_stats"][0];
    assert_eq!(stats["inference_count"], 3);
    assert_eq!(stats["inference_stats"]["success"]["count"], 1);
    for path in ["/v2/models/other", "/v2/models/paint/versions/2/ready", "/v1", "/v2/models"] {
        let refused = at(path);
        assert_eq!(refused.status, 404, "{path}");
        assert!(refused.error().contains("expected"), "{path}");
    }
    assert_eq!(at(INFER).status, 400);
}

#[test]
fn every_way_to_send_an_image_gives_the_same_logits() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |_| {});
    let bytes = pixels(3, 2);
    let expected = logits(&infer(&server, &bytes, &json!({})));
    assert_eq!(expected.len(), 20);
    let ask = |input: Value| {
        let output = json!([{ "name": "logits" }]);
        let answer =
            post(server.inference, INFER, &json!({ "inputs": [input], "outputs": output }));
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        let data = answer.json()["outputs"][0]["data"].clone();
        serde_json::from_value::<Vec<f32>>(data).unwrap()
    };
    let nested: Vec<&[u8]> = bytes.chunks(3 * SIDE * SIDE).collect();
    let shape = json!([2, SIDE, SIDE, 3]);
    let input = json!({ "name": "images", "datatype": "UINT8", "shape": shape, "data": nested });
    assert_eq!(ask(input), expected, "UINT8 as JSON");
    let plane = SIDE * SIDE;
    let chw: Vec<f32> = bytes
        .chunks(3 * plane)
        .flat_map(|image| {
            (0..3 * plane).map(|at| f32::from(image[3 * (at % plane) + at / plane]) / 255.0)
        })
        .collect();
    let shape = json!([2, 3, SIDE, SIDE]);
    let input = json!({ "name": "images", "datatype": "FP32", "shape": shape, "data": chw });
    assert_eq!(ask(input), expected, "FP32 as JSON");
    let png = |pixels: &[u8]| {
        let mut png = Vec::new();
        let image = paint_data::Image::new(SIDE, SIDE, pixels.to_vec()).unwrap();
        image.write_png(&mut png).unwrap();
        png
    };
    let files: Vec<Vec<u8>> = bytes.chunks(3 * plane).map(png).collect();
    let texts: Vec<String> = files.iter().map(|file| base64(file)).collect();
    let input = json!({ "name": "images", "datatype": "BYTES", "shape": [2], "data": texts });
    assert_eq!(ask(input), expected, "PNG in base64");
    let raw: Vec<u8> = files
        .iter()
        .flat_map(|file| [&(file.len() as u32).to_le_bytes(), &file[..]].concat())
        .collect();
    let request = json!({
        "inputs": [{ "name": "images", "datatype": "BYTES", "shape": [2], "parameters": { "binary_data_size": raw.len() } }],
        "parameters": { "binary_data_output": true },
        "outputs": [{ "name": "logits" }],
    })
    .to_string();
    let len = request.len().to_string();
    let headers = [("Inference-Header-Content-Length", len.as_str())];
    let body = [request.as_bytes(), &raw].concat();
    let answer = call(server.inference, &format!("POST {INFER}"), &headers, &body);
    assert_eq!(logits(&answer), expected, "PNG as raw BYTES");
}

#[test]
fn an_image_of_another_size_is_resized_as_the_weights_say() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |_| {});
    let input = json!({ "name": "images", "datatype": "UINT8", "shape": [1, 20, 48, 3], "data": vec![90; 20 * 48 * 3] });
    let answer = post(server.inference, INFER, &json!({ "inputs": [input] }));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["outputs"][0]["shape"], json!([1, 10]));
}

#[test]
fn the_best_classes_have_value_index_and_label() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |_| {});
    let bytes = pixels(0, 2);
    let input = json!({ "name": "images", "datatype": "UINT8", "shape": [2, SIDE, SIDE, 3], "data": bytes });
    let output = json!({ "name": "probabilities", "parameters": { "classification": 3 } });
    let request = json!({ "id": "a7", "inputs": [input], "outputs": [output] });
    let answer = post(server.inference, INFER, &request).json();
    assert_eq!((&answer["id"], &answer["model_version"]), (&json!("a7"), &json!("1")));
    let output = &answer["outputs"][0];
    assert_eq!((&output["datatype"], &output["shape"]), (&json!("BYTES"), &json!([2, 3])));
    let rows = output["data"].as_array().unwrap();
    let parts: Vec<&str> = rows[0].as_str().unwrap().split(':').collect();
    let logits = logits(&infer(&server, &bytes, &json!({})));
    let best = (0..10).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    assert_eq!(parts[1], best.to_string());
    assert_eq!(parts[2], paint_data::dataset::CIFAR10_CLASSES[best]);
    let value =
        |row: &Value| row.as_str().unwrap().split(':').next().unwrap().parse::<f32>().unwrap();
    assert!(value(&rows[0]) >= value(&rows[1]) && value(&rows[1]) >= value(&rows[2]));
}

#[test]
fn a_stream_is_named_by_a_sequence_or_a_header() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("source", folder.path(), |_| {});
    let bytes = pixels(0, 1);
    let stream = |parameters: Value, headers: &[(&str, &str)]| {
        parameter(&infer_with(&server, &bytes, &parameters, headers), "stream")
    };
    assert_eq!(stream(json!({}), &[]), "default");
    assert_eq!(stream(json!({ "sequence_id": "north" }), &[]), "north");
    assert_eq!(stream(json!({ "sequence_id": 12 }), &[]), "12");
    assert_eq!(stream(json!({}), &[("X-Paint-Stream", "south")]), "south");
    assert_eq!(stream(json!({ "sequence_id": "b" }), &[("X-Paint-Stream", "b")]), "b");
    let both =
        infer_with(&server, &bytes, &json!({ "sequence_id": "b" }), &[("X-Paint-Stream", "c")]);
    assert_eq!(both.status, 400);
    assert!(both.error().contains("\"c\"") && both.error().contains("\"b\""), "{}", both.error());
}
