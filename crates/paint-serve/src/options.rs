//! What a server is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

/// When a stream learns from images that a client sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Answer at once with the last published version, and learn in the background when a batch has come.
    #[default]
    PredictFirst,
    /// Learn from the images of the request, then answer: the protocol of the papers.
    AdaptFirst,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::PredictFirst, Self::AdaptFirst];

    /// The name in requests and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::PredictFirst => "predict-first",
            Self::AdaptFirst => "adapt-first",
        }
    }

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Everything that can be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where inference is served.
    pub listen: SocketAddr,
    /// Where inference is served over gRPC, in a program built with the feature `grpc`.
    pub grpc: Option<SocketAddr>,
    /// With what connections are encrypted, in a program built with the feature `tls`.
    pub tls: Option<Tls>,
    /// Where the page, its administration and the metrics are served.
    pub admin: SocketAddr,
    /// The folder of `audit.jsonl` and, for each model, of a folder of states, one file per stream.
    pub state: PathBuf,
    /// The mode of requests that name none.
    pub mode: Mode,
    /// `B`: as many images make a step in the background.
    pub batch: usize,
    /// Images that wait longer than this for others are learnt from without them; none waits for a whole batch.
    pub max_delay: Option<Duration>,
    /// Steps between two saves of a stream; a crash loses at most so many.
    pub checkpoint_every: u64,
    /// Steps between two snapshots of a stream; 0 takes them on request only.
    pub snapshot_every: u64,
    /// Snapshots kept for each stream.
    pub snapshots: usize,
    /// Bytes of all states in memory; the least recently used go to the disk above it.
    pub stream_memory: usize,
    /// Where several servers use the folder of states: how long one that dies keeps a stream from the others.
    pub lease: Option<Duration>,
    /// What a request may ask for.
    pub limits: Limits,
    /// The token that requests must carry, if any.
    pub token: Option<String>,
    /// Whether a listener beyond loopback may go without a token.
    pub insecure: bool,
    /// Whether the page shows small copies of images.
    pub thumbnails: bool,
    /// Whether each request is a line of the log.
    pub log_requests: bool,
}

/// PEM files.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The server's certificate, and those that lead to one that clients know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What a request may ask for, and how much work may wait.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a body.
    pub body: usize,
    /// Images of a request.
    pub images: usize,
    /// Images that wait or are being worked on.
    pub queued: usize,
    /// How long a request without a `timeout` waits.
    pub timeout: Duration,
    /// Streams, in memory and on the disk.
    pub streams: usize,
    /// Open connections of each listener.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 32 << 20,
            images: 256,
            queued: 1024,
            timeout: Duration::from_secs(30),
            streams: 10_000,
            connections: 1024,
        }
    }
}

impl Options {
    /// The defaults, with states in a folder.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8000)),
            grpc: None,
            tls: None,
            admin: SocketAddr::from(([127, 0, 0, 1], 8002)),
            state: state.into(),
            mode: Mode::default(),
            batch: 50,
            max_delay: None,
            checkpoint_every: 10,
            snapshot_every: 50,
            snapshots: 5,
            stream_memory: 1 << 30,
            lease: None,
            limits: Limits::default(),
            token: None,
            insecure: false,
            thumbnails: true,
            log_requests: false,
        }
    }
}
