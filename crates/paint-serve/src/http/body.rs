//! Bodies of requests, within the memory for them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use tokio::sync::OwnedSemaphorePermit;

use super::app::{App, UNIT};
use crate::fault::Fault;

/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(30);

impl App {
    /// The body, and its share of the memory for bodies.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Fault> {
        let most = self.shared().options.limits.body;
        if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|it| *it != "identity") {
            let found = format!("Content-Encoding: expected a body as it is, found {encoding:?}");
            return Err(Fault::Encoding(found));
        }
        let stated = number(headers, CONTENT_LENGTH.as_str())?;
        if let Some(stated) = stated.filter(|stated| *stated > most) {
            return Err(too_large(most, &stated.to_string()));
        }
        let units = stated.unwrap_or(most).div_ceil(UNIT) as u32;
        let mut room = Arc::clone(&self.bodies).try_acquire_many_owned(units).map_err(|_| {
            Fault::Busy(
                "bodies: expected memory for one more, found other requests in it".to_owned(),
            )
        })?;
        let read = tokio::time::timeout(BODY_TIME, to_bytes(body, most)).await;
        let read = read.map_err(|_| {
            Fault::Late(format!(
                "body: expected it within {} s, found it unfinished",
                BODY_TIME.as_secs()
            ))
        })?;
        let read = read
            .map_err(|error| too_large(most, &format!("more, or a broken connection: {error}")))?;
        // A body that did not say its length was taken for the largest.
        drop(room.split(units as usize - read.len().div_ceil(UNIT).min(units as usize)));
        Ok((read, room))
    }
}

fn too_large(most: usize, found: &str) -> Fault {
    Fault::TooLarge(format!("body: expected at most {most} bytes, found {found}"))
}

/// A header that is a number.
pub(super) fn number(headers: &HeaderMap, name: &str) -> Result<Option<usize>, Fault> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    let found = || Fault::expected(name, "a non-negative whole number", format!("{value:?}"));
    number.ok_or_else(found).map(Some)
}
