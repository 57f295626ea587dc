//! The accept loop of a listener.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::Secure;
use crate::journal::log;

/// How long a client may take for the head of a request.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long open requests may take once the server is about to end.
const DRAIN_TIME: Duration = Duration::from_secs(30);
/// How long to wait where the system gives no connection, as without file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Http1,
    #[cfg(feature = "grpc")]
    Http2,
}

impl Wire {
    /// Its name in TLS.
    #[cfg(feature = "tls")]
    pub(super) fn name(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            #[cfg(feature = "grpc")]
            Self::Http2 => b"h2",
        }
    }
}

/// How the connections of a listener are served.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) router: Router,
    pub(crate) wire: Wire,
    pub(crate) secure: Option<Secure>,
}

/// Serves a listener until `drain` is true and open requests are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    service: Service,
    most: usize,
    mut drain: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(most));
    loop {
        let accepted = tokio::select! {
            _ = drain.wait_for(|drain| *drain) => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((stream, permit)) = accepted else { continue };
        // Small answers must not wait for the client's acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let (service, watcher) = (service.clone(), graceful.watcher());
        tokio::spawn(async move {
            greet(stream, service, watcher).await;
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIME, graceful.shutdown()).await.is_err() {
        log(
            "warning",
            "drain",
            &json!({ "seconds": DRAIN_TIME.as_secs(), "found": "open requests" }),
        );
    }
}

/// Agrees on keys first, if that is asked for.
async fn greet(stream: TcpStream, service: Service, watcher: Watcher) {
    let Some(secure) = service.secure else {
        return talk(stream, service.router, service.wire, watcher).await;
    };
    // Who speaks something else, or takes too long, is no event.
    if let Ok(Ok(stream)) = tokio::time::timeout(HEADER_TIME, secure.accept(stream)).await {
        talk(stream, service.router, service.wire, watcher).await;
    }
}

/// Answers until the client goes away or the server is about to end.
async fn talk<S>(stream: S, router: Router, wire: Wire, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that goes away, or speaks something else, is no event.
    match wire {
        Wire::Http1 => {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
            let _ = watcher.watch(builder.serve_connection(stream, service)).await;
        }
        #[cfg(feature = "grpc")]
        Wire::Http2 => {
            let executor = hyper_util::rt::TokioExecutor::new();
            let mut builder = hyper::server::conn::http2::Builder::new(executor);
            // A client that is gone without a word is noticed; one that is idle stays.
            let alive = Some(Duration::from_mins(1));
            builder.timer(TokioTimer::new()).keep_alive_interval(alive);
            let _ = watcher.watch(builder.serve_connection(stream, service)).await;
        }
    }
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            log("warning", "accept", &json!({ "error": error.to_string() }));
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}
