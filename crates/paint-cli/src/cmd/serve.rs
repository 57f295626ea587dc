//! `paint serve`: a model server whose streams adapt while it serves.

mod limits;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use paint_run::deployment;
use paint_serve::{Mode, Options, Replay, Server, Tls};

use crate::Usage;
use crate::deployment_flags::DeploymentFlags;
use crate::signals::Signals;
use limits::LimitArgs;

/// Serve a model that adapts to its streams
///
/// Clients speak the Open Inference Protocol, version 2, over HTTP (Triton's and KServe's clients do). A sequence id,
/// or the header X-Paint-Stream, names a stream: each has a state of its own, in memory and in a file of --state.
/// Requests are answered at once and learnt from in the background (--mode predict-first), or learnt from and then
/// answered, as the papers do (adapt-first). The page on the second address shows each stream; Prometheus reads
/// /metrics there.
///
/// SIGTERM, SIGINT and SIGHUP end the server after the requests that it has accepted; every state is saved. After a
/// crash or SIGKILL a stream continues from its last save: at most --checkpoint-every steps are lost.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// Weights file
    #[arg(long, required_unless_present_any = ["demo", "model"])]
    weights: Option<PathBuf>,
    /// Serve the embedded CIFAR-10 model; states are removed at the end unless --state is given
    #[arg(long, conflicts_with = "weights")]
    demo: bool,
    /// Play a drifting stream of embedded images at the server, so that the page has something to show
    #[arg(long, requires = "demo", conflicts_with_all = ["weights", "tls_cert"])]
    replay: bool,
    /// Images per second of --replay
    #[arg(long, value_name = "N", default_value_t = 100.0, requires = "replay")]
    replay_rate: f64,
    /// Name of the model of --weights or --demo in addresses
    #[arg(long, default_value = "paint")]
    name: String,
    /// Serve these weights under a name of their own too; may be repeated
    #[arg(long, value_name = "NAME=WEIGHTS", value_parser = named_weights)]
    model: Vec<(String, PathBuf)>,
    /// Method; see `paint list methods` [default: that of --preset, or the best for the network]
    #[arg(long)]
    method: Option<String>,
    /// Address of inference
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Address of inference over gRPC, in a program built with `--features grpc`
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<SocketAddr>,
    /// Certificate chain, as PEM, in a program built with `--features tls`: every address speaks TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Address of the page, its administration and metrics
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8002")]
    admin: SocketAddr,
    /// File with the token that clients must send; demanded beyond this machine
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve other machines without a token
    #[arg(long, conflicts_with = "token_file")]
    insecure: bool,
    /// Folder of audit.jsonl and, under the name of each model, of its streams' states [default: paint-state]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// When images are learnt from, if a request does not say
    #[arg(long, value_name = "MODE", default_value = Mode::PredictFirst.name())]
    #[arg(value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::name)))]
    mode: String,
    /// Learn from fewer images than a batch once the oldest has waited this long; without it a whole batch is waited
    /// for
    #[arg(long, value_name = "SECONDS")]
    max_delay: Option<f64>,
    /// Save a stream every N steps; a crash loses at most N
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// Keep a snapshot of a stream every N steps; 0 keeps them on request only
    #[arg(long, value_name = "N", default_value_t = 50)]
    snapshot_every: u64,
    /// Snapshots kept for each stream
    #[arg(long, value_name = "N", default_value_t = 5)]
    snapshots: usize,
    /// Memory for the states of streams; the least recently used move to the disk above it
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    stream_memory: usize,
    /// Share --state with other servers: streams are taken by leases of this length, which others wait for when this
    /// one dies
    #[arg(long, value_name = "SECONDS")]
    lease: Option<f64>,
    /// Keep no small copies of images for the page
    #[arg(long)]
    no_thumbnails: bool,
    /// Log each request
    #[arg(long)]
    log_requests: bool,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    deployment: DeploymentFlags,
}

const EXAMPLES: &str = "\
Examples:
  paint serve --demo --replay
  paint serve --weights model.safetensors --state states/
  paint serve --weights model.safetensors --method keel --mode adapt-first --no-stream
  paint serve --model day=day.safetensors --model night=night.safetensors
  paint serve --weights model.safetensors --listen 0.0.0.0:8000 --token-file token";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.deployment.network.compute.threads.start()?;
    let own = args.demo && args.state.is_none();
    let options = options(args)?;
    let (state, token) = (options.state.clone(), options.token.clone());
    let server = Server::open(models(args)?, options)?;
    let addresses = server.addresses();
    let (inference, admin) = (addresses[0], addresses[1]);
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    note!("inference at {scheme}://{inference}, page and metrics at {scheme}://{admin}");
    if let Some(grpc) = addresses.get(2) {
        note!("inference over gRPC at {grpc}");
    }
    let signals = Signals::watch().context("cannot watch for signals")?;
    let replay = args.replay.then(|| Replay {
        address: inference,
        model: args.name.clone(),
        stream: "camera".to_owned(),
        rate: args.replay_rate,
        token,
    });
    let player = replay.map(|replay| {
        let stop = std::sync::Arc::clone(signals.stop());
        std::thread::spawn(move || replay.run(&stop))
    });
    server.run(signals.stop())?;
    if let Some(Ok(played)) = player.map(std::thread::JoinHandle::join) {
        played?;
    }
    if own {
        std::fs::remove_dir_all(&state)
            .with_context(|| format!("cannot remove {}", state.display()))?;
    }
    Ok(())
}

fn named_weights(text: &str) -> Result<(String, PathBuf), String> {
    let split = text.split_once('=').filter(|(_, weights)| !weights.is_empty());
    let (name, weights) = split.ok_or("expected NAME=WEIGHTS")?;
    Ok((name.to_owned(), weights.into()))
}

fn models(args: &Args) -> anyhow::Result<Vec<(String, deployment::Config)>> {
    let first = args.weights.clone().or_else(|| args.demo.then(|| "embedded".into()));
    let first = first.map(|weights| (args.name.clone(), weights));
    let open = |(name, weights): (String, PathBuf)| {
        Ok((name, args.deployment.draft(&weights, args.method.as_deref())?.resolve_as()?))
    };
    first.into_iter().chain(args.model.clone()).map(open).collect()
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let state = match &args.state {
        Some(state) => state.clone(),
        None if args.demo => {
            std::env::temp_dir().join(format!("paint-serve-{}", std::process::id()))
        }
        None => "paint-state".into(),
    };
    let read = |path: &PathBuf| {
        let text = paint_files::read_text(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::Ok(text.trim().to_owned())
    };
    let seconds = |flag: &str, seconds: Option<f64>| {
        let found = || Usage(format!("{flag}: expected seconds above 0, found {seconds:?}"));
        let time = |it| Duration::try_from_secs_f64(it).ok().filter(|time| !time.is_zero());
        seconds.map(|it| time(it).ok_or_else(found)).transpose()
    };
    Ok(Options {
        listen: args.listen,
        grpc: args.grpc,
        tls: args
            .tls_cert
            .clone()
            .zip(args.tls_key.clone())
            .map(|(certificate, key)| Tls { certificate, key }),
        admin: args.admin,
        mode: Mode::from_name(&args.mode).unwrap_or_default(),
        batch: args.deployment.batch_size(),
        max_delay: seconds("--max-delay", args.max_delay)?,
        lease: seconds("--lease", args.lease)?,
        checkpoint_every: args.checkpoint_every,
        snapshot_every: args.snapshot_every,
        snapshots: args.snapshots,
        stream_memory: args.stream_memory.saturating_mul(1 << 20),
        limits: args.limits.limits(),
        token: args.token_file.as_ref().map(read).transpose()?,
        insecure: args.insecure,
        thumbnails: !args.no_thumbnails,
        log_requests: args.log_requests,
        ..Options::new(state)
    })
}
