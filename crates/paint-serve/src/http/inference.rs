//! The addresses of the Open Inference Protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use paint_tensor::Tensor;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::app::{App, UNIT};
use crate::engine::{Answer, Intent, Job, Shared};
use crate::fault::Fault;
use crate::journal::log;
use crate::options::Mode;
use crate::protocol::{
    Ask, Images, JSON_LENGTH, Reply, Request, VERSION, Wanted, config, images, metadata, server,
    statistics, wanted,
};
use crate::stream::StreamId;

/// The stream of a request for proxies, which do not read bodies.
const STREAM: &str = "x-paint-stream";
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(30);

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

/// Refuses another model, and another version than the one there is.
fn known(shared: &Shared, names: &HashMap<String, String>) -> Result<(), Fault> {
    let name = names.get("model").map_or("", String::as_str);
    if name != shared.model.name {
        return Err(Fault::NotFound(format!(
            "model: expected {:?}, found {name:?}",
            shared.model.name
        )));
    }
    match names.get("version") {
        Some(version) if version != VERSION => {
            Err(Fault::NotFound(format!("version: expected {VERSION:?}, found {version:?}")))
        }
        _ => Ok(()),
    }
}

async fn model_ready(State(app): State<Arc<App>>, Path(names): Names) -> Answered {
    known(app.shared(), &names)?;
    Ok(status(app.is_ready()).into_response())
}

async fn model_metadata(State(app): State<Arc<App>>, Path(names): Names) -> Answered {
    known(app.shared(), &names)?;
    Ok(Json(metadata(&app.shared().model)).into_response())
}

async fn model_config(State(app): State<Arc<App>>, Path(names): Names) -> Answered {
    known(app.shared(), &names)?;
    let most = app.shared().options.limits.images;
    Ok(Json(config(&app.shared().model, most)).into_response())
}

async fn model_stats(State(app): State<Arc<App>>, Path(names): Names) -> Answered {
    known(app.shared(), &names)?;
    Ok(Json(statistics(&app.shared().model, &app.shared().metrics)).into_response())
}

async fn infer(
    State(app): State<Arc<App>>,
    Path(names): Names,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let begun = Instant::now();
    let done = try_infer(&app, &names, &headers, body, begun).await;
    let response = done.into_response();
    let (code, time) = (response.status().as_u16(), begun.elapsed());
    app.shared().metrics.answered(code, time);
    if app.shared().options.log_requests {
        log("info", "infer", &json!({ "code": code, "ms": time.as_secs_f64() * 1e3 }));
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

fn parse(shared: &Shared, body: &Bytes, json_len: Option<usize>) -> Result<Parsed, Fault> {
    let (request, raw) = Request::parse(body, json_len)?;
    let ask = request.ask()?;
    let wanted = wanted(&request, &shared.model, ask.binary)?;
    let Images { pixels, count } =
        images(&request, raw, &shared.model, shared.options.limits.images)?;
    Ok(Parsed { id: request.id, ask, wanted, images: shared.model.upload(pixels)?, count })
}

async fn try_infer(
    app: &App,
    names: &HashMap<String, String>,
    headers: &HeaderMap,
    body: Body,
    begun: Instant,
) -> Answered {
    let shared = app.shared();
    app.ready()?;
    known(shared, names)?;
    let named = stream_of(headers)?;
    let json_len = number(headers, JSON_LENGTH)?;
    let (body, _room) = read(app, headers, body).await?;
    let at = Arc::clone(shared);
    let parsed = tokio::task::spawn_blocking(move || parse(&at, &body, json_len)).await;
    let parsed = parsed
        .map_err(|_| Fault::Failed("the request could not be read; see the log".to_owned()))??;
    let Parsed { id, ask, wanted, images, count } = parsed;
    let stream = match (named, ask.stream) {
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
    app.engine.submit(job)?;
    let answer = tokio::time::timeout_at(deadline.into(), answer).await;
    let answer = answer.map_err(|_| crate::engine::late())?;
    let answer =
        answer.map_err(|_| Fault::Failed("the answer failed; see the log".to_owned()))??;
    Ok(response(shared, &stream, id.as_deref(), &answer, &wanted))
}

/// The longest that a client may ask to wait.
const MOST_TIME: Duration = Duration::from_hours(1);

fn stream_of(headers: &HeaderMap) -> Result<Option<StreamId>, Fault> {
    let Some(value) = headers.get(STREAM) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes());
    StreamId::new(text.map_err(|_| Fault::expected("X-Paint-Stream", "UTF-8", "other bytes"))?)
}

fn number(headers: &HeaderMap, name: &str) -> Result<Option<usize>, Fault> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    let found = || Fault::expected(name, "a number from 0 on", format!("{value:?}"));
    number.ok_or_else(found).map(Some)
}

/// The body, and its share of the memory for bodies.
async fn read(
    app: &App,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, tokio::sync::OwnedSemaphorePermit), Fault> {
    let most = app.shared().options.limits.body;
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|it| *it != "identity") {
        let found = format!("Content-Encoding: expected a body as it is, found {encoding:?}");
        return Err(Fault::Encoding(found));
    }
    let too_large = |found: String| {
        Fault::TooLarge(format!("body: expected at most {most} bytes, found {found}"))
    };
    let stated = number(headers, CONTENT_LENGTH.as_str())?;
    if let Some(stated) = stated.filter(|stated| *stated > most) {
        return Err(too_large(stated.to_string()));
    }
    let units = stated.unwrap_or(most).div_ceil(UNIT) as u32;
    let room = Arc::clone(&app.bodies).try_acquire_many_owned(units).map_err(|_| {
        Fault::Busy("bodies: expected memory for one more, found other requests in it".to_owned())
    })?;
    let read = tokio::time::timeout(BODY_TIME, to_bytes(body, most)).await;
    let read = read.map_err(|_| {
        Fault::Late(format!(
            "body: expected it within {} s, found it unfinished",
            BODY_TIME.as_secs()
        ))
    })?;
    Ok((read.map_err(|error| too_large(format!("more, or a broken connection: {error}")))?, room))
}

fn response(
    shared: &Shared,
    stream: &StreamId,
    id: Option<&str>,
    answer: &Answer,
    wanted: &[Wanted],
) -> Response {
    let Reply { body, json_len } =
        Reply::new(&shared.model, id, &parameters(stream, answer), &answer.logits, wanted);
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
