//! What can be wrong with a request, as the protocol says it: a status and `{"error": ...}`.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use paint_files::ClaimError;
use serde_json::json;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 400: the request makes no sense.
    Request(String),
    /// 401: the token is missing or another.
    Token,
    /// 403: another site's page asks.
    Foreign(String),
    /// 404: nothing has this name.
    NotFound(String),
    /// 409: the stream is not in a state for that.
    Conflict(String),
    /// 409: another server has the stream, for now.
    Held(String),
    /// 413: the body is above the limit.
    TooLarge(String),
    /// 415: the body is encoded in a way that is not read.
    Encoding(String),
    /// 429: the queue is full.
    Busy(String),
    /// 503: the deadline has passed, or the server is about to end.
    Late(String),
    /// 500: a file of the stream cannot be read as it is.
    Damaged(String),
    /// 500: the server failed.
    Failed(String),
}

impl Fault {
    /// What was expected of the request, and what was found.
    pub(crate) fn expected(what: &str, expected: impl AsRef<str>, found: impl AsRef<str>) -> Self {
        Self::Request(format!("{what}: expected {}, found {}", expected.as_ref(), found.as_ref()))
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Request(_) => StatusCode::BAD_REQUEST,
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::Foreign(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Conflict(_) | Self::Held(_) => StatusCode::CONFLICT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Encoding(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Late(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Damaged(_) | Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Token => "expected the header Authorization: Bearer with the server's token",
            Self::Request(text)
            | Self::Foreign(text)
            | Self::NotFound(text)
            | Self::Conflict(text)
            | Self::Held(text)
            | Self::TooLarge(text)
            | Self::Encoding(text)
            | Self::Busy(text)
            | Self::Late(text)
            | Self::Damaged(text)
            | Self::Failed(text) => text,
        }
    }
}

impl From<paint_run::Error> for Fault {
    fn from(error: paint_run::Error) -> Self {
        use paint_run::Error as Run;
        let text = error.to_string();
        match error {
            Run::Data(paint_data::Error::Io { .. }) => Self::Failed(text),
            Run::Data(_)
            | Run::ImageSize { .. }
            | Run::NotFinite { .. }
            | Run::Method(paint_methods::Error::Images { .. }) => Self::Request(text),
            Run::BatchTooLarge { .. } => Self::TooLarge(text),
            // Another process has the stream.
            Run::Claim(ClaimError::Busy { .. } | ClaimError::InUse { .. }) => Self::Held(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<paint_data::Error> for Fault {
    fn from(error: paint_data::Error) -> Self {
        paint_run::Error::from(error).into()
    }
}

impl From<paint_methods::Error> for Fault {
    fn from(error: paint_methods::Error) -> Self {
        paint_run::Error::from(error).into()
    }
}

impl From<paint_tensor::Error> for Fault {
    fn from(error: paint_tensor::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.message() }).to_string();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self {
            Self::Busy(_) | Self::Held(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"))
            }
            Self::Token => headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            _ => None,
        };
        response
    }
}
