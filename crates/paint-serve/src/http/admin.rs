//! The addresses of administration: streams, snapshots, actions, events and metrics.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream::unfold;
use paint_run::session::history;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::app::App;
use crate::engine::{Command, Shared};
use crate::fault::Fault;
use crate::model::Model;
use crate::storage::StreamId;
use crate::stream::{Key, Live};

type Answered = Result<Response, Fault>;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/admin/v1/server", get(server))
        .route("/admin/v1/streams", get(streams))
        .route("/admin/v1/streams/{id}", get(stream))
        .route("/admin/v1/streams/{id}/snapshots", get(snapshots))
        .route("/admin/v1/streams/{id}/thumbnails/{condition}/{n}", get(thumbnail))
        .route("/admin/v1/streams/{id}/{action}", post(act))
        .route("/admin/v1/events", get(events))
        .route("/metrics", get(metrics))
}

/// The model of a stream; the first if an address names none.
#[derive(Debug, Deserialize)]
struct Of {
    model: Option<String>,
}

fn key(app: &App, id: &str, of: &Of) -> Result<Key, Fault> {
    let first = || Fault::Failed("models: expected one, found none".to_owned());
    let model = match &of.model {
        Some(name) => app.shared().model(name)?,
        None => app.shared().models.first().ok_or_else(first)?,
    };
    let none = || Fault::expected("stream", "an id", "none");
    Ok(Key { model: Arc::clone(model), id: StreamId::new(id)?.ok_or_else(none)? })
}

async fn server(State(app): State<Arc<App>>) -> Json<Value> {
    let Shared { models, options, .. } = &**app.shared();
    let about = |model: &Arc<Model>| {
        json!({
            "name": model.name,
            "network": model.deployment.model().spec().name,
            "method": model.deployment.config.method.name,
            "guard": model.deployment.config.guard.is_some(),
        })
    };
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "models": models.iter().map(about).collect::<Vec<_>>(),
        "mode": options.mode,
        "batch": options.batch,
        "checkpoint_every": options.checkpoint_every,
        "stream_memory": options.stream_memory,
        "thumbnails": options.thumbnails,
    }))
}

/// What a list says of a stream in memory.
fn glance(live: &Live) -> Value {
    let inside = live.lock();
    json!({
        "id": live.key.id,
        "model": live.key.model.name,
        "in_memory": true,
        "facts": inside.facts,
        "frozen": inside.is_frozen,
        "images": inside.images,
        "pending": inside.pending.len(),
        "bytes": inside.bytes,
    })
}

/// What a list says of a stream on the disk.
fn asleep(key: &Key) -> Value {
    json!({ "id": key.id, "model": key.model.name, "in_memory": false })
}

#[expect(clippy::mutable_key_type, reason = "keys are ordered by names, which never change")]
async fn streams(State(app): State<Arc<App>>) -> Answered {
    let shared = Arc::clone(app.shared());
    let saved = tokio::task::spawn_blocking(move || shared.saved()).await;
    let failed = |error: String| Fault::Failed(format!("cannot list the streams: {error}"));
    let saved = saved.map_err(|error| failed(error.to_string()))?;
    let saved = saved.map_err(|error| failed(error.to_string()))?;
    let mut all: BTreeMap<Key, Value> =
        saved.into_iter().map(|key| (key.clone(), asleep(&key))).collect();
    for live in app.shared().table.all() {
        all.insert(live.key.clone(), glance(&live));
    }
    Ok(Json(json!({ "streams": all.into_values().collect::<Vec<_>>() })).into_response())
}

async fn stream(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(of): Query<Of>,
) -> Answered {
    let key = key(&app, &name, &of)?;
    let shared = app.shared();
    let audit = shared.journal.recent(&key.model.name, key.id.as_str());
    let Some(live) = shared.table.get(&key) else {
        if !key.is_known() {
            return Err(Fault::NotFound(format!(
                "stream: expected one that has been used, found {name:?}"
            )));
        }
        let mut told = asleep(&key);
        told["audit"] = json!(audit);
        return Ok(Json(told).into_response());
    };
    let mut told = glance(&live);
    let inside = live.lock();
    told["points"] = json!(inside.points);
    told["conditions"] = json!(inside.conditions);
    told["audit"] = json!(audit);
    Ok(Json(told).into_response())
}

async fn snapshots(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(of): Query<Of>,
) -> Answered {
    let key = key(&app, &name, &of)?;
    let told = tokio::task::spawn_blocking(move || {
        key.find().map_or_else(|| Ok(Vec::new()), |path| kept(&path))
    })
    .await;
    let told = told.map_err(|error| Fault::Failed(error.to_string()))??;
    Ok(Json(json!({ "snapshots": told })).into_response())
}

/// The snapshots of a state, the newest first.
fn kept(state: &std::path::Path) -> Result<Vec<Value>, Fault> {
    let tell = |(step, path): &(u64, PathBuf)| {
        let about = std::fs::metadata(path).ok();
        let time = about.as_ref().and_then(|about| about.modified().ok());
        let time = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        json!({
            "step": step,
            "bytes": about.as_ref().map(std::fs::Metadata::len),
            "time": time.map(|time| time.as_secs_f64()),
            "pinned": history::is_pinned(state, *step),
        })
    };
    Ok(history::kept(state)?.iter().rev().map(tell).collect())
}

async fn thumbnail(
    State(app): State<Arc<App>>,
    Path((name, condition, n)): Path<(String, u64, usize)>,
    Query(of): Query<Of>,
) -> Answered {
    let live = app.shared().table.get(&key(&app, &name, &of)?);
    let png =
        live.and_then(|live| live.lock().conditions.get(&condition)?.thumbnails.get(n).cloned());
    let none = || {
        Fault::NotFound(format!("thumbnail: expected one of the stream's, found {condition}/{n}"))
    };
    Ok(([(CONTENT_TYPE, "image/png")], png.ok_or_else(none)?).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// The steps of the snapshot that the action is about.
    #[serde(default)]
    step: Option<u64>,
}

async fn act(
    State(app): State<Arc<App>>,
    Path((name, action)): Path<(String, String)>,
    Query(of): Query<Of>,
    body: Bytes,
) -> Answered {
    app.ready()?;
    let asked: Asked = if body.is_empty() {
        Asked::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| {
            Fault::expected("body", "{\"step\": N} or nothing", error.to_string())
        })?
    };
    let all = Command::all(asked.step);
    let command = all.into_iter().find(|command| command.name() == action).ok_or_else(|| {
        let known = all.map(Command::name).join(", ");
        Fault::NotFound(format!("action: expected one of {known}; found {action:?}"))
    })?;
    Ok(Json(app.engine.command(key(&app, &name, &of)?, command).await?).into_response())
}

/// Server-sent events until the server ends. A reader that lags is told to read everything again.
async fn events(State(app): State<Arc<App>>) -> Response {
    let (receiver, drain) = (app.shared().journal.listen(), app.drain.clone());
    let stream =
        unfold((receiver, drain, true), |(mut receiver, mut drain, is_first)| async move {
            if is_first {
                return Some((": hello\n\n".into(), (receiver, drain, false)));
            }
            let event = tokio::select! {
                _ = drain.wait_for(|drain| *drain) => return None,
                event = receiver.recv() => event,
            };
            let text: String = match event {
                Ok(text) => (*text).to_owned(),
                Err(RecvError::Lagged(_)) => "event: lagged\ndata: {}\n\n".to_owned(),
                Err(RecvError::Closed) => return None,
            };
            Some((text, (receiver, drain, false)))
        });
    let stream = futures_util::StreamExt::map(stream, Ok::<String, std::convert::Infallible>);
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(stream)).into_response()
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], app.shared().metrics()).into_response()
}
