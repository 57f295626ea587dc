//! The addresses of the Open Inference Protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use paint_tensor::Tensor;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::app::App;
use super::body::number;
use crate::engine::{Answer, Intent, Job, Shared};
use crate::fault::Fault;
use crate::journal::log;
use crate::model::Model;
use crate::options::Mode;
use crate::protocol::{
    Ask, Images, JSON_LENGTH, Reply, Request, VERSION, Wanted, config, images, metadata, server,
    statistics, wanted,
};
use crate::storage::StreamId;
use crate::stream::Key;

/// The stream of a request for proxies, which do not read bodies.
const STREAM: &str = "x-paint-stream";

type Names = Path<HashMap<String, String>>;
type Answered = Result<Response, Fault>;

pub(super) fn routes() -> Router<Arc<App>> {
    let mut routes = Router::new()
        .route("/v2", get(|| async { Json(server()) }))
        .route("/v2/health/live", get(|| async { StatusCode::OK }))
        .route("/v2/health/ready", get(ready));
    for place in ["/v2/models/{model}", "/v2/models/{model}/versions/{version}"] {
        routes = routes
            .route(place, get(model_metadata))
            .route(&format!("{place}/ready"), get(model_ready))
            .route(&format!("{place}/config"), get(model_config))
            .route(&format!("{place}/stats"), get(model_stats))
            .route(&format!("{place}/infer"), post(infer));
    }
    routes.fallback(not_found).method_not_allowed_fallback(not_allowed)
}

async fn not_found(request: axum::extract::Request) -> Fault {
    Fault::NotFound(format!(
        "expected an address of the Open Inference Protocol, found {:?}",
        request.uri().path()
    ))
}

async fn not_allowed(request: axum::extract::Request) -> Fault {
    Fault::Request(format!(
        "expected another method, found {} {:?}",
        request.method(),
        request.uri().path()
    ))
}

fn status(is_ready: bool) -> StatusCode {
    if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn ready(State(app): State<Arc<App>>) -> StatusCode {
    status(app.is_ready())
}

/// The model of an address; each has one version.
fn named<'a>(shared: &'a Shared, names: &HashMap<String, String>) -> Result<&'a Arc<Model>, Fault> {
    let model = shared.model(names.get("model").map_or("", String::as_str))?;
    match names.get("version") {
        Some(version) if version != VERSION => {
            Err(Fault::NotFound(format!("version: expected {VERSION:?}, found {version:?}")))
        }
        _ => Ok(model),
    }
}

async fn model_ready(State(app): State<Arc<App>>, Path(names): Names) -> Answered {
    named(app.shared(), &names)?;
    Ok(status(app.is_ready()).into_response())
}

async fn model_metadata(State(app): State<Arc<App>>, Path(names): Names) -> Answered {
    Ok(Json(metadata(named(app.shared(), &names)?)).into_response())
}

async fn model_config(State(app): State<Arc<App>>, Path(names): Names) -> Answered {
    let most = app.shared().options.limits.images;
    Ok(Json(config(named(app.shared(), &names)?, most)).into_response())
}

async fn model_stats(State(app): State<Arc<App>>, Path(names): Names) -> Answered {
    Ok(Json(statistics(named(app.shared(), &names)?)).into_response())
}

async fn infer(
    State(app): State<Arc<App>>,
    Path(names): Names,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let begun = Instant::now();
    let model = match named(app.shared(), &names) {
        Ok(model) => model,
        Err(fault) => return fault.into_response(),
    };
    let done = try_infer(&app, model, &headers, body, begun).await;
    let response = done.into_response();
    let (code, time) = (response.status().as_u16(), begun.elapsed());
    model.metrics.answered(code, time);
    if app.shared().options.log_requests {
        let about = json!({ "model": model.name, "code": code, "ms": time.as_secs_f64() * 1e3 });
        log("info", "infer", &about);
    }
    response
}

/// What a request asks for, read and checked.
struct Parsed {
    id: Option<String>,
    ask: Ask,
    wanted: Vec<Wanted>,
    images: Tensor,
    count: usize,
}

fn parse(
    model: &Model,
    body: &Bytes,
    json_len: Option<usize>,
    most: usize,
) -> Result<Parsed, Fault> {
    let (request, raw) = Request::parse(body, json_len)?;
    let ask = request.ask()?;
    let wanted = wanted(&request, model, ask.binary)?;
    let Images { batch, count } = images(&request, raw, model, most)?;
    Ok(Parsed { id: request.id, ask, wanted, images: batch, count })
}

async fn try_infer(
    app: &App,
    model: &Arc<Model>,
    headers: &HeaderMap,
    body: Body,
    begun: Instant,
) -> Answered {
    app.ready()?;
    let json_len = number(headers, JSON_LENGTH)?;
    let (body, _room) = app.read(headers, body).await?;
    Ok(response(app.infer(model, headers, body, json_len, begun).await?))
}

impl App {
    /// The answer to a body: JSON, and raw tensors behind it if `json_len` says where it ends.
    pub(crate) async fn infer(
        &self,
        model: &Arc<Model>,
        headers: &HeaderMap,
        body: Bytes,
        json_len: Option<usize>,
        begun: Instant,
    ) -> Result<Reply, Fault> {
        let shared = self.shared();
        self.ready()?;
        let named = stream_of(headers)?;
        let (at, most) = (Arc::clone(model), shared.options.limits.images);
        let parsed = tokio::task::spawn_blocking(move || parse(&at, &body, json_len, most)).await;
        let parsed = parsed.map_err(|_| {
            Fault::Failed("the request could not be read; see the log".to_owned())
        })??;
        let Parsed { id, ask, wanted, images, count } = parsed;
        let id_of_stream = match (named, ask.stream) {
            (Some(header), Some(sequence)) if header != sequence => {
                let expected = format!("the stream of the header, {:?}", header.as_str());
                return Err(Fault::expected(
                    "sequence_id",
                    expected,
                    format!("{:?}", sequence.as_str()),
                ));
            }
            (header, sequence) => header.or(sequence).unwrap_or_default(),
        };
        let stream = Key { model: Arc::clone(model), id: id_of_stream };
        let intent = match ask.mode.unwrap_or(shared.options.mode) {
            _ if !ask.adapt => Intent::Predict,
            Mode::PredictFirst => Intent::PredictFirst,
            Mode::AdaptFirst => Intent::AdaptFirst,
        };
        let slot = shared.reserve(count)?;
        let deadline = begun + ask.timeout.unwrap_or(shared.options.limits.timeout).min(MOST_TIME);
        let (reply, answer) = oneshot::channel();
        let job = Job {
            stream: stream.clone(),
            images,
            intent,
            bounds: ask.bounds,
            deadline,
            accepted: Instant::now(),
            reply,
            slot,
        };
        self.engine.submit(job)?;
        let answer = tokio::time::timeout_at(deadline.into(), answer).await;
        let answer = answer.map_err(|_| crate::engine::late())?;
        let answer =
            answer.map_err(|_| Fault::Failed("the answer failed; see the log".to_owned()))??;
        let parameters = parameters(&stream.id, &answer);
        Ok(Reply::new(&stream.model, id.as_deref(), &parameters, &answer.logits, &wanted))
    }
}

/// The longest that a client may ask to wait.
const MOST_TIME: Duration = Duration::from_hours(1);

fn stream_of(headers: &HeaderMap) -> Result<Option<StreamId>, Fault> {
    let Some(value) = headers.get(STREAM) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes());
    StreamId::new(text.map_err(|_| Fault::expected("X-Paint-Stream", "UTF-8", "other bytes"))?)
}

fn response(Reply { body, json_len }: Reply) -> Response {
    let mut response = body.into_response();
    let kind = if json_len.is_some() { "application/octet-stream" } else { "application/json" };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(len) = json_len {
        response.headers_mut().insert(JSON_LENGTH, HeaderValue::from(len));
    }
    response
}

/// What the answer says beside its outputs; what is not known is left out, because parameters have no null.
fn parameters(stream: &StreamId, answer: &Answer) -> Value {
    let Answer { facts, adapted, entropy, .. } = answer;
    let mut parameters = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            parameters.insert(name.to_owned(), value);
        }
    };
    put("stream", stream.as_str().into());
    put("step", facts.step.into());
    put("version", facts.version.as_str().into());
    put("adapted", (*adapted).into());
    put("entropy", json!(entropy));
    put("prompt", json!(facts.prompt));
    put("prompt_new", facts.prompt.map_or(Value::Null, |_| facts.prompt_new.into()));
    put("reliability", json!(facts.reliability));
    put("estimated_accuracy", json!(facts.estimated_accuracy));
    put("guard", json!(facts.guard));
    Value::Object(parameters)
}
