//! A client that plays a drifting stream at the server: the embedded images, under one corruption after the other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paint_data::corruption::{Table, by_name};
use paint_data::{Dataset as _, Image, dataset};
use paint_rng::Seed;
use serde_json::json;

use crate::journal::log;

/// What the world looks like, one after the other; none is the clean world.
const WORLD: [Option<&str>; 6] = [
    None,
    Some("fog"),
    Some("gaussian_noise"),
    Some("defocus_blur"),
    Some("brightness"),
    Some("contrast"),
];
/// Images of one condition.
const VISIT: usize = 200;
const SEVERITY: u8 = 4;
/// Images of a request.
const BATCH: usize = 10;
const CALM: Duration = Duration::from_millis(500);

/// Where to play, and how fast.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Where inference is served.
    pub address: SocketAddr,
    /// What clients call the model.
    pub model: String,
    /// The stream.
    pub stream: String,
    /// Images per second.
    pub rate: f64,
    /// The server's token, if it has one.
    pub token: Option<String>,
}

impl Replay {
    /// Plays until `stop` is true. A server that refuses is asked again.
    pub fn run(&self, stop: &Arc<AtomicBool>) -> paint_data::Result<()> {
        let images = dataset::embedded()?;
        let pause = Duration::from_secs_f64(BATCH as f64 / self.rate.max(0.1));
        let mut connection = None;
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let mut pixels = Vec::new();
            for at in sent..sent + BATCH {
                let image = images.sample(0, at % images.len(0))?.image;
                pixels.extend(seen(&image, at)?.into_pixels());
            }
            match self.send(&mut connection, &pixels) {
                Ok(200) => sent += BATCH,
                Ok(code) => log("warning", "replay", &json!({ "code": code })),
                Err(error) => {
                    connection = None;
                    log("warning", "replay", &json!({ "error": error.to_string() }));
                    std::thread::sleep(CALM);
                }
            }
            std::thread::sleep(pause.saturating_sub(begun.elapsed()));
        }
        Ok(())
    }

    fn send(
        &self,
        connection: &mut Option<BufReader<TcpStream>>,
        pixels: &[u8],
    ) -> std::io::Result<u16> {
        let stream = match connection {
            Some(stream) => stream,
            None => connection.insert(BufReader::new(TcpStream::connect(self.address)?)),
        };
        let side = (pixels.len() / BATCH / 3).isqrt();
        let request = json!({
            "parameters": { "sequence_id": self.stream },
            "inputs": [{
                "name": "images",
                "datatype": "UINT8",
                "shape": [BATCH, side, side, 3],
                "parameters": { "binary_data_size": pixels.len() },
            }],
        })
        .to_string();
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "POST /v2/models/{}/infer HTTP/1.1\r\nHost: {}\r\n{}Inference-Header-Content-Length: {}\r\n\
             Content-Length: {}\r\n\r\n",
            self.model,
            self.address,
            token.unwrap_or_default(),
            request.len(),
            request.len() + pixels.len(),
        );
        stream.get_mut().write_all(&[head.as_bytes(), request.as_bytes(), pixels].concat())?;
        answer(stream)
    }
}

/// The status of an answer, which is read to its end.
fn answer(stream: &mut BufReader<TcpStream>) -> std::io::Result<u16> {
    let broken = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let (mut status, mut len) = (None, 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        status = status.or(line.split(' ').nth(1).and_then(|code| code.parse().ok()));
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            len = value.trim().parse().map_err(|_| broken())?;
        }
    }
    std::io::copy(&mut stream.take(len), &mut std::io::sink())?;
    status.ok_or_else(broken)
}

/// An image as the world shows it.
fn seen(image: &Image, at: usize) -> paint_data::Result<Image> {
    let Some(name) = WORLD[at / VISIT % WORLD.len()] else { return Ok(image.clone()) };
    let corruption = by_name(name)?;
    let table = Table::for_size(image.width(), image.height());
    let mut rng = corruption.stream(Seed(0), SEVERITY, at as u64);
    corruption.apply(image, SEVERITY, table, &mut rng)
}
