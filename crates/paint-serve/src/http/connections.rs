//! The accept loop of a listener.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::journal::log;

/// How long a client may take for the head of a request.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long open requests may take once the server is about to end.
const DRAIN_TIME: Duration = Duration::from_secs(30);
/// How long to wait where the system gives no connection, as without file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves a listener until `drain` is true and open requests are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
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
        let service = TowerToHyperService::new(router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A client that goes away, or speaks something else, is no event.
            let _ = connection.await;
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

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
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
