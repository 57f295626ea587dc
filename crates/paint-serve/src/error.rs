//! Why a server does not start, or ends.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model or its method cannot be opened, or a state cannot be saved.
    #[error(transparent)]
    Run(#[from] paint_run::Error),
    /// Another process uses the folder of states, or it cannot be written.
    #[error(transparent)]
    Claim(#[from] paint_files::ClaimError),
    /// An address cannot be served.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// A listener that others can reach, without a token.
    #[error(
        "{address} can be reached from other machines: expected a token (--token-file) or --insecure, found neither"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// A file cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// A state could not be saved when the server ended.
    #[error("not every state was saved; the log names the streams")]
    Lost,
    /// A setting without a meaning.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Whether the request is wrong, rather than the work.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Open { .. } | Self::Usage(_) => true,
            Self::Run(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// The result of everything that can fail before requests come.
pub type Result<T> = std::result::Result<T, Error>;
