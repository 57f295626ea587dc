//! An open-loop client: requests leave at random moments of a given rate, whether or not the server keeps up, and a
//! time counts from the moment at which its request was due.
//!
//! ```sh
//! cargo run --release -p paint-serve --example open_loop -- 127.0.0.1:8000 --rate 20 --batch 1 --streams 8 \
//!     --seconds 20
//! ```

#![expect(clippy::print_stdout, reason = "the report is the product")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use paint_rng::Seed;
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Connections; more requests than this at a time wait in the client, and their time counts.
const CONNECTIONS: usize = 64;

#[derive(Debug, Clone)]
struct Load {
    address: String,
    /// Requests per second.
    rate: f64,
    /// Images of a request.
    batch: usize,
    streams: usize,
    seconds: f64,
    side: usize,
    mode: String,
}

/// A request: when it is due, and whose it is.
type Due = (Instant, usize);
/// Its status (0 if the connection failed) and its time.
type Done = (u16, Duration);

fn load() -> Outcome<Load> {
    let mut words = std::env::args().skip(1);
    let address = words.next().ok_or("expected an address, found nothing")?;
    let mode = "predict-first".to_owned();
    let mut load =
        Load { address, rate: 10.0, batch: 1, streams: 1, seconds: 10.0, side: 32, mode };
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("expected a value after {flag}"))?;
        match flag.as_str() {
            "--rate" => load.rate = value.parse()?,
            "--batch" => load.batch = value.parse()?,
            "--streams" => load.streams = value.parse()?,
            "--seconds" => load.seconds = value.parse()?,
            "--side" => load.side = value.parse()?,
            "--mode" => load.mode = value,
            _ => {
                return Err(format!(
                    "expected --rate, --batch, --streams, --seconds, --side or --mode, found {flag}"
                )
                .into());
            }
        }
    }
    Ok(load)
}

fn main() -> Outcome<()> {
    let load = load()?;
    let (due, requests) = channel();
    let (done, results) = channel();
    let requests = Arc::new(Mutex::new(requests));
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (load, requests, done) = (load.clone(), Arc::clone(&requests), done.clone());
            std::thread::spawn(move || work(&load, &requests, &done))
        })
        .collect();
    drop(done);
    schedule(&load, &due);
    drop(due);
    report(&load, &results);
    workers.into_iter().for_each(|worker| drop(worker.join()));
    Ok(())
}

/// Poisson arrivals.
fn schedule(load: &Load, due: &Sender<Due>) {
    let mut rng = Seed(0).derive("serve/load", &[]);
    let begun = Instant::now();
    let (mut at, mut number) = (0.0, 0);
    while at < load.seconds {
        at -= (1.0 - rng.uniform()).ln() / load.rate;
        let moment = begun + Duration::from_secs_f64(at);
        std::thread::sleep(moment.saturating_duration_since(Instant::now()));
        if due.send((moment, number % load.streams)).is_err() {
            return;
        }
        number += 1;
    }
}

fn work(load: &Load, requests: &Mutex<Receiver<Due>>, done: &Sender<Done>) {
    let mut rng = Seed(1).derive("serve/pixels", &[]);
    let pixels: Vec<u8> = (0..load.batch * load.side * load.side * 3)
        .map(|at| ((rng.uniform() * 64.0) as usize + at / 7 % 192) as u8)
        .collect();
    let mut connection = None;
    loop {
        let next = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((due, stream)) = next else { return };
        let status = ask(load, &mut connection, stream, &pixels).unwrap_or_else(|_| {
            connection = None;
            0
        });
        if done.send((status, due.elapsed())).is_err() {
            return;
        }
    }
}

fn ask(
    load: &Load,
    connection: &mut Option<BufReader<TcpStream>>,
    stream: usize,
    pixels: &[u8],
) -> std::io::Result<u16> {
    let reader = if let Some(reader) = connection {
        reader
    } else {
        let socket = TcpStream::connect(&load.address)?;
        socket.set_nodelay(true)?;
        connection.insert(BufReader::new(socket))
    };
    let shape = [load.batch, load.side, load.side, 3];
    let input = json!({
        "name": "images", "datatype": "UINT8", "shape": shape, "parameters": { "binary_data_size": pixels.len() },
    });
    let request = json!({ "inputs": [input], "parameters": { "binary_data_output": true, "mode": load.mode } }).to_string();
    let head = format!(
        "POST /v2/models/paint/infer HTTP/1.1\r\nHost: {}\r\nX-Paint-Stream: load-{stream}\r\n\
         Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
        load.address,
        request.len(),
        request.len() + pixels.len()
    );
    reader.get_mut().write_all(&[head.as_bytes(), request.as_bytes(), pixels].concat())?;
    let (mut status, mut len) = (0, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
        }
        if let Some(rest) = line.strip_prefix("content-length: ") {
            len = rest.parse().unwrap_or(0);
        }
    }
    std::io::copy(&mut reader.take(len), &mut std::io::sink())?;
    Ok(status)
}

fn report(load: &Load, results: &Receiver<Done>) {
    let begun = Instant::now();
    let mut times: BTreeMap<u16, Vec<Duration>> = BTreeMap::new();
    for (status, time) in results {
        times.entry(status).or_default().push(time);
    }
    let counts: BTreeMap<u16, usize> =
        times.iter().map(|(status, all)| (*status, all.len())).collect();
    let mut good = times.remove(&200).unwrap_or_default();
    good.sort_unstable();
    let at = |share: f64| {
        good.get((share * good.len() as f64) as usize)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    };
    println!(
        "rate {} x {} images, {} streams: {counts:?}; p50 {:.1} p95 {:.1} p99 {:.1} ms; drained {:.1} s after the last",
        load.rate,
        load.batch,
        load.streams,
        at(0.5),
        at(0.95),
        at(0.99),
        begun.elapsed().as_secs_f64()
    );
}
