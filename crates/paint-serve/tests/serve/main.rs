//! The server over real sockets.

#![expect(clippy::unwrap_used, reason = "a request that cannot be made fails its test")]

mod adapt_first;
mod admin;
mod damage;
mod hostile;
mod measured;
mod models;
mod predict_first;
mod protocol;
mod replicas;
mod support;
mod tiny;
