//! A model server that adapts while it serves.
//!
//! Clients speak the Open Inference Protocol, version 2. A sequence id is a stream: it has a state of its own, which
//! learns from the images that the stream sends, is guarded, saved and restored. Beside it lies a page for the people
//! who run it.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicBool;
//!
//! use paint_run::config::{Method, Model};
//! use paint_run::deployment::Config;
//! use paint_serve::{Options, Server};
//!
//! # fn main() -> paint_serve::Result<()> {
//! let config = Config::new(Model::new("vit.safetensors"), Method::named("paint"));
//! let models = vec![("camera".to_owned(), config)];
//! let server = Server::open(models, Options::new("states"))?;
//! println!("{:?}", server.addresses());
//! server.run(&Arc::new(AtomicBool::new(false)))?;
//! # Ok(())
//! # }
//! ```

mod clock;
mod engine;
mod error;
mod fault;
mod http;
mod journal;
mod looks;
mod metrics;
mod model;
mod options;
mod protocol;
mod replay;
mod server;
mod storage;
mod stream;
mod thumbnail;

pub use error::{Error, Result};
pub use options::{Limits, Mode, Options, Tls};
pub use replay::Replay;
pub use server::Server;
