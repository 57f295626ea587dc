//! The Open Inference Protocol over gRPC: six unary calls, translated to and from the form that HTTP has.
//!
//! A call is one length-prefixed message in a body of HTTP/2, an answer one more and a status in the trailers; that
//! is all of gRPC that is needed here, so no framework is.

mod messages;
mod translate;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use axum::routing::post;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use prost::Message;

use super::App;
use crate::fault::Fault;
use messages::{
    ModelInferRequest, ModelName, ModelReadyResponse, ServerLiveResponse, ServerReadyResponse,
};

/// The prefix of a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/inference.GRPCInferenceService/{method}", post(call))
}

async fn call(
    State(app): State<Arc<App>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match answer(&app, &method, &headers, body).await {
        Ok(message) => good(message),
        Err(fault) => bad(&fault),
    }
}

/// The answer's message, encoded.
async fn answer(
    app: &App,
    method: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<u8>, Fault> {
    let begun = Instant::now();
    let (body, _room) = app.read(headers, body).await?;
    let message = unframed(&body)?;
    Ok(match method {
        "ServerLive" => ServerLiveResponse { live: true }.encode_to_vec(),
        "ServerReady" => ServerReadyResponse { ready: app.is_ready() }.encode_to_vec(),
        "ServerMetadata" => translate::server().encode_to_vec(),
        "ModelReady" => {
            app.shared().model(&decoded::<ModelName>(message)?.name)?;
            ModelReadyResponse { ready: app.is_ready() }.encode_to_vec()
        }
        "ModelMetadata" => {
            let model = app.shared().model(&decoded::<ModelName>(message)?.name)?;
            translate::metadata(model).encode_to_vec()
        }
        "ModelInfer" => {
            let request: ModelInferRequest = decoded(message)?;
            let model = Arc::clone(app.shared().model(&request.model_name)?);
            let (body, json_len) = translate::request(&request, timeout(headers))?;
            let reply = app.infer(&model, headers, body.into(), Some(json_len), begun).await?;
            translate::response(&reply)?.encode_to_vec()
        }
        _ => {
            let known =
                "ServerLive, ServerReady, ServerMetadata, ModelReady, ModelMetadata or ModelInfer";
            return Err(Fault::Encoding(format!("method: expected {known}, found {method:?}")));
        }
    })
}

/// The one message of a call.
fn unframed(body: &Bytes) -> Result<&[u8], Fault> {
    let what = "message";
    let Some((prefix, message)) = body.split_first_chunk::<PREFIX>() else {
        let found = format!("{} bytes", body.len());
        return Err(Fault::expected(what, "a prefix of five bytes", found));
    };
    let [is_compressed, len @ ..] = *prefix;
    if is_compressed != 0 {
        return Err(Fault::Encoding(
            "message: expected it as it is, found it compressed".to_owned(),
        ));
    }
    let len = u32::from_be_bytes(len) as usize;
    if len != message.len() {
        let found = format!("{} bytes", message.len());
        return Err(Fault::expected(what, format!("one of {len} bytes"), found));
    }
    Ok(message)
}

fn decoded<M: Message + Default>(message: &[u8]) -> Result<M, Fault> {
    let found = |error: prost::DecodeError| error.to_string();
    M::decode(message)
        .map_err(|error| Fault::expected("message", "protobuf of the call", found(error)))
}

/// `grpc-timeout` in microseconds: digits and a unit.
fn timeout(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let ns: u64 = match unit {
        "H" => 3_600_000_000_000,
        "M" => 60_000_000_000,
        "S" => 1_000_000_000,
        "m" => 1_000_000,
        "u" => 1_000,
        "n" => 1,
        _ => return None,
    };
    // None at all would be no limit.
    Some((digits.parse::<u64>().ok()?.saturating_mul(ns) / 1_000).max(1))
}

fn good(message: Vec<u8>) -> Response {
    let mut framed = Vec::with_capacity(PREFIX + message.len());
    framed.push(0);
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Frame::data(Bytes::from(framed)), Frame::trailers(trailers)];
    let frames = frames.map(Ok::<_, std::convert::Infallible>);
    response(Body::new(StreamBody::new(stream::iter(frames))))
}

/// A status without a message.
fn bad(fault: &Fault) -> Response {
    let mut response = response(Body::empty());
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(code(fault)));
    let text = escaped(fault.message());
    headers.insert(
        "grpc-message",
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")),
    );
    response
}

fn response(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The status that gRPC has for a fault.
fn code(fault: &Fault) -> u16 {
    match fault {
        Fault::Request(_) => 3,
        Fault::Late(_) => 4,
        Fault::NotFound(_) => 5,
        Fault::Foreign(_) => 7,
        Fault::TooLarge(_) | Fault::Busy(_) => 8,
        Fault::Conflict(_) => 9,
        Fault::Held(_) => 10,
        Fault::Encoding(_) => 12,
        Fault::Damaged(_) | Fault::Failed(_) => 13,
        Fault::Token => 16,
    }
}

/// Printable ASCII as it is, all else and `%` as `%XX`.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_out_of_its_frame_and_broken_frames_are_refused() {
        let frame = |bytes: &'static [u8]| unframed(&Bytes::from_static(bytes)).map(<[u8]>::to_vec);
        assert_eq!(frame(b"\0\0\0\0\x02ab"), Ok(b"ab".to_vec()));
        assert_eq!(frame(b"\0\0\0\0\0"), Ok(Vec::new()));
        for bad in
            [&b""[..], b"\0\0\0", b"\0\0\0\0\x03ab", b"\0\0\0\0\x01ab", b"\0\xff\xff\xff\xffab"]
        {
            assert!(matches!(frame(bad), Err(Fault::Request(_))), "{bad:?}");
        }
        assert!(matches!(frame(b"\x01\0\0\0\x02ab"), Err(Fault::Encoding(_))));
    }

    #[test]
    fn time_limits_are_read_in_every_unit() {
        let read = |text: &'static str| {
            timeout(&HeaderMap::from_iter([(
                "grpc-timeout".parse().unwrap(),
                HeaderValue::from_static(text),
            )]))
        };
        assert_eq!(read("2S"), Some(2_000_000));
        assert_eq!(read("30m"), Some(30_000));
        assert_eq!(read("5n"), Some(1));
        assert_eq!(read("99999999H"), Some(u64::MAX / 1_000));
        for bad in ["", "S", "1", "1x", "-1S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_message_of_any_text_fits_a_header() {
        assert_eq!(escaped("a 50% ä\n"), "a 50%25 %C3%A4%0A");
    }
}
