//! From options to a server that runs until it is told to stop.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paint_run::deployment::Config;
use serde_json::json;
use tokio::sync::watch;

use crate::engine::{Engine, Shared, Threads};
use crate::error::{Error, Result};
use crate::http::{Access, App, Secure, Service, Surface, secure, serve};
use crate::journal::{Journal, log};
use crate::model::Model;
use crate::options::Options;
use crate::storage::Storage;

/// Threads of input and output.
const IO_THREADS: usize = 2;
/// Threads that read requests: JSON and images.
const READERS: usize = 4;
/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A lease is renewed three times in its length, over a network maybe.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// A server that listens and is about to answer.
pub struct Server {
    shared: Arc<Shared>,
    doors: Vec<Door>,
}

/// An address, and who is let in.
struct Door {
    surface: Surface,
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
    secure: Option<Secure>,
}

impl Door {
    fn open(address: SocketAddr, surface: Surface, options: &Options) -> Result<Self> {
        let access = Access::new(address, surface, options)?;
        let secure = options.tls.as_ref().map(|tls| secure(tls, surface.wire())).transpose()?;
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = listener.map_err(|source| Error::Listen { address, source })?;
        Ok(Self { surface, listener, address, access, secure })
    }
}

impl Server {
    /// Opens the models by the names that clients call them, and the folder of states, and listens. Nothing is answered
    /// before [`Server::run`].
    pub fn open(models: Vec<(String, Config)>, options: Options) -> Result<Self> {
        check(&options)?;
        check_names(&models)?;
        let wanted = [
            (Some(options.listen), Surface::Inference),
            (Some(options.admin), Surface::Administration),
            (options.grpc, Surface::Grpc),
        ];
        let doors = wanted.into_iter().filter_map(|(address, surface)| Some((address?, surface)));
        let doors = doors.map(|(address, surface)| Door::open(address, surface, &options));
        let doors = doors.collect::<Result<Vec<_>>>()?;
        create_folder(&options.state)?;
        let journal = Journal::open(&options.state)?;
        let mut opened = Vec::new();
        for (name, config) in models {
            let storage = Storage::new(options.state.join(&name), options.lease);
            create_folder(storage.folder())?;
            check_storage(&storage)?;
            opened.push(Arc::new(Model::open(name, config, storage)?));
        }
        Ok(Self { shared: Arc::new(Shared::new(opened, options, journal)), doors })
    }

    /// Where inference and administration are served, and inference over gRPC if it is.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.doors.iter().map(|door| door.address).collect()
    }

    /// Serves until `stop` is true; then answers what was accepted, and saves every state.
    pub fn run(self, stop: &Arc<AtomicBool>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let (engine, threads) = Engine::start(Arc::clone(&shared))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .max_blocking_threads(READERS)
            .enable_all()
            .build()
            .map_err(Error::Thread)?;
        log("info", "start", &json!({ "addresses": self.addresses() }));
        let served = runtime.block_on(self.serve(engine, stop));
        // Requests that took too long end here, and with them the last way to the engine.
        runtime.shutdown_timeout(Duration::from_secs(1));
        Threads::join(threads);
        let has_lost = shared.has_lost.load(Ordering::Relaxed);
        log(if has_lost { "error" } else { "info" }, "stop", &json!({ "saved": !has_lost }));
        if has_lost { served.and(Err(Error::Lost)) } else { served }
    }

    async fn serve(self, engine: Engine, stop: &AtomicBool) -> Result<()> {
        let (drain, draining) = watch::channel(false);
        let most = self.shared.options.limits.connections.max(1);
        let app = Arc::new(App::new(engine, draining.clone()));
        let mut tasks = Vec::new();
        for Door { surface, listener, address, access, secure } in self.doors {
            let listener = tokio::net::TcpListener::from_std(listener)
                .map_err(|source| Error::Listen { address, source })?;
            let router = surface.routes(&app, access);
            let service = Service { router, wire: surface.wire(), secure };
            tasks.push(tokio::spawn(serve(listener, service, most, draining.clone())));
        }
        drop(app);
        while !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
        log("info", "drain", &json!({}));
        // Nobody may be left to tell.
        let _ = drain.send(true);
        for task in tasks {
            let _ = task.await;
        }
        Ok(())
    }
}

fn check(options: &Options) -> Result<()> {
    let limits = &options.limits;
    let rules = [
        (options.batch > 0, "batch size: expected 1 or more, found 0"),
        (options.checkpoint_every > 0, "checkpoint interval: expected 1 step or more, found 0"),
        (
            options.lease.is_none_or(|lease| lease >= SHORTEST_LEASE),
            "lease: expected 0.1 s or more, found less",
        ),
        (
            options.grpc.is_none() || cfg!(feature = "grpc"),
            "gRPC: expected a program built with it (cargo build -p paint-cli --features grpc), found one without",
        ),
        (limits.images > 0, "images per request: expected 1 or more, found 0"),
        (
            limits.queued >= limits.images,
            "queue: expected room for the images of one request, found less",
        ),
        (
            options.token.as_ref().is_none_or(|token| !token.is_empty()),
            "token: expected one, found an empty file",
        ),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, why)) => Err(Error::Usage(why.to_owned())),
        None => Ok(()),
    }
}

/// A name is part of addresses, of folders and of labels.
fn check_names(models: &[(String, Config)]) -> Result<()> {
    if models.is_empty() {
        return Err(Error::Usage("models: expected one or more, found none".to_owned()));
    }
    for (at, (name, _)) in models.iter().enumerate() {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            let expected = "letters, digits, -, _ and ., not a . first";
            return Err(Error::Usage(format!("model name: expected {expected}; found {name:?}")));
        }
        if models[..at].iter().any(|(other, _)| other == name) {
            let found = format!("model name: expected each once, found {name:?} twice");
            return Err(Error::Usage(found));
        }
    }
    Ok(())
}

/// Streams that servers share are not for one that takes no lease.
fn check_storage(storage: &Storage) -> Result<()> {
    let path = storage.folder();
    let io = |source| Error::Io { action: "read", path: path.to_owned(), source };
    if storage.needs_a_lease().map_err(io)? {
        let found = format!(
            "states: expected --lease for streams that servers share, found none: {}",
            path.display()
        );
        return Err(Error::Usage(found));
    }
    Ok(())
}

fn create_folder(path: &std::path::Path) -> Result<()> {
    let io = |source| Error::Io { action: "create", path: path.to_owned(), source };
    paint_files::create_folder(path).map_err(io)
}
