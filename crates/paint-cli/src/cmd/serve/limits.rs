//! What a request may ask of `paint serve`.

use std::time::Duration;

use paint_serve::Limits;

/// What a request may ask for, and how much may wait.
#[derive(Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// Largest body of a request; above it 413
    #[arg(long, value_name = "MIB", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=2048))]
    max_body: u32,
    /// Most images of a request; above it 400
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    max_images: u32,
    /// Most images that wait; above it 429
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_queue: u32,
    /// How long a request waits that names no timeout; after it 503
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Most streams, in memory and on the disk; above it 429
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_streams: u32,
    /// Most open connections of each address
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
}

impl LimitArgs {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            body: (self.max_body as usize) << 20,
            images: self.max_images as usize,
            queued: self.max_queue as usize,
            timeout: Duration::from_secs(self.timeout.into()),
            streams: self.max_streams as usize,
            connections: self.max_connections as usize,
        }
    }
}
