//! A server in this process, and a client that speaks HTTP by hand, so that it can also speak it badly.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use paint_run::config::{Method, Model};
use paint_run::deployment::Config;
use paint_serve::{Options, Server};
use serde_json::{Value, json};

use crate::tiny::{self, SIDE};

/// A server until it is dropped.
pub(crate) struct Running {
    pub(crate) inference: SocketAddr,
    pub(crate) admin: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<paint_serve::Result<()>>>,
}

/// Serves the tiny network with states in a folder, under a method without a wrapper.
pub(crate) fn start(method: &str, state: &Path, edit: impl FnOnce(&mut Options)) -> Running {
    let folder = tempfile::tempdir().unwrap();
    start_with(config(method, folder.path()), state, edit)
}

/// The tiny network in a folder, and a method without a wrapper.
pub(crate) fn config(method: &str, folder: &Path) -> Config {
    Config::new(Model::new(tiny::weights(folder)), Method::named(method))
}

/// Serves with states in a folder.
pub(crate) fn start_with(config: Config, state: &Path, edit: impl FnOnce(&mut Options)) -> Running {
    start_all(vec![("paint".to_owned(), config)], state, edit)
}

/// Serves several models.
pub(crate) fn start_all(
    models: Vec<(String, Config)>,
    state: &Path,
    edit: impl FnOnce(&mut Options),
) -> Running {
    let mut options = Options::new(state);
    options.listen.set_port(0);
    options.admin.set_port(0);
    edit(&mut options);
    let server = Server::open(models, options).unwrap();
    let addresses = server.addresses();
    let (inference, admin) = (addresses[0], addresses[1]);
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&told));
    Running { inference, admin, stop, thread: Some(thread) }
}

impl Running {
    /// Stops it, and waits until every state is saved.
    pub(crate) fn stop(self) {
        self.ended().unwrap();
    }

    /// Stops it, and says how it ended.
    pub(crate) fn ended(mut self) -> paint_serve::Result<()> {
        self.end()
    }

    fn end(&mut self) -> paint_serve::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end().unwrap();
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        let len = self.headers.get("inference-header-content-length");
        let len = len.map_or(self.body.len(), |len| len.parse().unwrap());
        serde_json::from_slice(&self.body[..len])
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The raw tensors behind the JSON.
    pub(crate) fn raw(&self) -> &[u8] {
        let len: usize = self.headers["inference-header-content-length"].parse().unwrap();
        &self.body[len..]
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

/// Sends bytes as they are and reads until the server closes.
pub(crate) fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    // A server that refuses early closes while we write.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// One request.
pub(crate) fn call(
    address: SocketAddr,
    line: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let mut head = format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    if !headers.iter().any(|(name, _)| *name == "Content-Length") {
        write!(head, "Content-Length: {}\r\n", body.len()).unwrap();
    }
    let answer = exchange(address, &[head.as_bytes(), b"\r\n", body].concat());
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(&answer)));
    let text = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = text.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let pairs = lines.filter_map(|line| line.split_once(": "));
    let headers = pairs.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Response { status, headers, body: answer[end + 4..].to_vec() }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    call(address, &format!("GET {path}"), &[], b"")
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Response {
    call(address, &format!("POST {path}"), &[], body.to_string().as_bytes())
}

/// A request for raw logits of raw UINT8 images, with parameters.
pub(crate) fn infer(server: &Running, pixels: &[u8], parameters: &Value) -> Response {
    infer_with(server, pixels, parameters, &[])
}

pub(crate) fn infer_with(
    server: &Running,
    pixels: &[u8],
    parameters: &Value,
    headers: &[(&str, &str)],
) -> Response {
    infer_of(server, "paint", pixels, parameters, headers)
}

pub(crate) fn infer_of(
    server: &Running,
    model: &str,
    pixels: &[u8],
    parameters: &Value,
    headers: &[(&str, &str)],
) -> Response {
    let count = pixels.len() / (3 * SIDE * SIDE);
    let request = json!({
        "parameters": parameters,
        "inputs": [{
            "name": "images",
            "datatype": "UINT8",
            "shape": [count, SIDE, SIDE, 3],
            "parameters": { "binary_data_size": pixels.len() },
        }],
        "outputs": [{ "name": "logits", "parameters": { "binary_data": true } }],
    })
    .to_string();
    let len = request.len().to_string();
    let mut all = vec![("Inference-Header-Content-Length", len.as_str())];
    all.extend(headers);
    let body = [request.as_bytes(), pixels].concat();
    call(server.inference, &format!("POST /v2/models/{model}/infer"), &all, &body)
}

/// The raw logits of a good answer.
pub(crate) fn logits(response: &Response) -> Vec<f32> {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    response.raw().as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

/// A parameter of a good answer.
pub(crate) fn parameter(response: &Response, name: &str) -> Value {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    response.json()["parameters"][name].clone()
}

/// Waits until something holds, or fails after some seconds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..400 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{what}: not within ten seconds");
}
