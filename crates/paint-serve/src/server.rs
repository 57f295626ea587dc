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
use crate::http::{Access, App, Surface, administration, inference, serve};
use crate::journal::{Journal, log};
use crate::model::Model;
use crate::options::Options;

/// Threads of input and output.
const IO_THREADS: usize = 2;
/// Threads that read requests: JSON and images.
const READERS: usize = 4;
/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A server that listens and is about to answer.
pub struct Server {
    shared: Arc<Shared>,
    listeners: [TcpListener; 2],
    access: [Access; 2],
    addresses: [SocketAddr; 2],
}

impl Server {
    /// Opens the model and the folder of states, and listens. Nothing is answered before [`Server::run`].
    pub fn open(config: Config, options: Options) -> Result<Self> {
        check(&options)?;
        let surfaces =
            [(options.listen, Surface::Inference), (options.admin, Surface::Administration)];
        let access = |(address, surface)| Access::new(address, surface, &options);
        let [first, second] = surfaces.map(access);
        let access = [first?, second?];
        let [first, second] = [listen(options.listen), listen(options.admin)];
        let listeners = [first?, second?];
        let [first, second] = [local(&listeners[0], &options), local(&listeners[1], &options)];
        let addresses = [first?, second?];
        let io = |source| Error::Io { action: "create", path: options.state.clone(), source };
        paint_files::create_folder(&options.state).map_err(io)?;
        let journal = Journal::open(&options.state)?;
        let model = Model::open(options.name.clone(), config)?;
        let shared = Arc::new(Shared::new(model, options, journal));
        Ok(Self { shared, listeners, access, addresses })
    }

    /// Where inference and administration are served.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        self.addresses
    }

    /// Serves until `stop` is true; then answers what was accepted, and saves every state.
    pub fn run(self, stop: &Arc<AtomicBool>) -> Result<()> {
        let (engine, threads) = Engine::start(Arc::clone(&self.shared))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .max_blocking_threads(READERS)
            .enable_all()
            .build()
            .map_err(Error::Thread)?;
        log(
            "info",
            "start",
            &json!({ "inference": self.addresses[0], "administration": self.addresses[1] }),
        );
        let served = runtime.block_on(self.serve(engine, stop));
        // Requests that took too long end here, and with them the last way to the engine.
        runtime.shutdown_timeout(Duration::from_secs(1));
        Threads::join(threads);
        log("info", "stop", &json!({ "saved": true }));
        served
    }

    async fn serve(self, engine: Engine, stop: &AtomicBool) -> Result<()> {
        let (drain, draining) = watch::channel(false);
        let most = self.shared.options.limits.connections.max(1);
        let app = Arc::new(App::new(engine, draining.clone()));
        let [inference_access, admin_access] = self.access;
        let routers = [inference(&app, inference_access), administration(&app, admin_access)];
        drop(app);
        let mut tasks = Vec::new();
        for ((listener, router), address) in
            self.listeners.into_iter().zip(routers).zip(self.addresses)
        {
            let listener = tokio::net::TcpListener::from_std(listener)
                .map_err(|source| Error::Listen { address, source })?;
            tasks.push(tokio::spawn(serve(listener, router, most, draining.clone())));
        }
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
        (limits.images > 0, "images per request: expected 1 or more, found 0"),
        (
            limits.queued >= limits.images,
            "queue: expected room for the images of one request, found less",
        ),
        (
            !options.name.is_empty() && !options.name.contains('/'),
            "model name: expected one without /",
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

fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address);
    let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|source| Error::Listen { address, source })
}

fn local(listener: &TcpListener, options: &Options) -> Result<SocketAddr> {
    listener.local_addr().map_err(|source| Error::Listen { address: options.listen, source })
}
