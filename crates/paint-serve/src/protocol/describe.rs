//! What the server says of itself and of its model.

use serde_json::{Value, json};

use super::VERSION;
use super::images::INPUT;
use super::outputs::names;
use crate::model::Model;

/// `GET /v2`.
pub(crate) fn server() -> Value {
    json!({
        "name": "paint",
        "version": env!("CARGO_PKG_VERSION"),
        "extensions": [
            "binary_tensor_data",
            "classification",
            "model_configuration",
            "parameters",
            "sequence",
            "sequence(string_id)",
            "statistics",
        ],
    })
}

/// `GET /v2/models/{model}`.
pub(crate) fn metadata(model: &Model) -> Value {
    let [height, width] = model.size;
    let output = |name| json!({ "name": name, "datatype": "FP32", "shape": [-1, model.classes] });
    json!({
        "name": model.name,
        "versions": [VERSION],
        "platform": "paint",
        "inputs": [{ "name": INPUT, "datatype": "UINT8", "shape": [-1, height, width, 3] }],
        "outputs": names().map(output),
    })
}

/// `GET /v2/models/{model}/config`.
pub(crate) fn config(model: &Model, most_images: usize) -> Value {
    let [height, width] = model.size;
    let output = |name| json!({ "name": name, "data_type": "TYPE_FP32", "dims": [model.classes] });
    json!({
        "name": model.name,
        "platform": "paint",
        "backend": "paint",
        "max_batch_size": most_images,
        "input": [{ "name": INPUT, "data_type": "TYPE_UINT8", "dims": [height, width, 3] }],
        "output": names().map(output),
        // A sequence model may not have batches, to `perf_analyzer`.
        "dynamic_batching": {},
    })
}

/// `GET /v2/models/{model}/stats`.
pub(crate) fn statistics(model: &Model) -> Value {
    let metrics = &model.metrics;
    let seconds =
        |(count, seconds): (u64, f64)| json!({ "count": count, "ns": (seconds * 1e9) as u64 });
    let none = json!({ "count": 0, "ns": 0 });
    let answered = metrics.predict.total();
    // `perf_analyzer` gives up where the three counts differ.
    let unmeasured = json!({ "count": answered.0, "ns": 0 });
    json!({ "model_stats": [{
        "name": model.name,
        "version": VERSION,
        "last_inference": metrics.last_inference_ms(),
        "inference_count": metrics.images.get(),
        "execution_count": answered.0,
        "inference_stats": {
            "success": seconds(metrics.request.total()),
            "fail": { "count": metrics.failed(), "ns": 0 },
            "queue": seconds(metrics.queue.total()),
            "compute_input": unmeasured,
            "compute_infer": seconds(answered),
            "compute_output": unmeasured,
            "cache_hit": none,
            "cache_miss": none,
        },
        "batch_stats": [],
    }] })
}
