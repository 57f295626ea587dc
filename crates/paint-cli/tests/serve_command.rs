//! `paint serve` as a process: what SIGKILL and SIGTERM leave behind.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a server that cannot be started fails its test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

#[path = "../../paint-serve/tests/serve/measured.rs"]
mod measured;
#[path = "../../paint-serve/tests/serve/tiny.rs"]
mod tiny;

use measured::{Measured, hash, measured};
use tiny::SIDE;

const BATCH: usize = 50;
const BATCHES: usize = 60;
const CLASSES: usize = 10;

struct Served {
    child: Child,
    address: String,
    /// Everything that it says, once it has ended.
    log: JoinHandle<Vec<String>>,
}

impl Served {
    /// Serves without wrappers, saves each step, and has memory for one stream.
    fn start(weights: &Path, method: &str, state: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_paint"))
            .args(["serve", "--mode", "adapt-first", "--no-guard", "--no-stream"])
            .args(["--checkpoint-every", "1", "--stream-memory", "0", "--method", method])
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--weights"])
            .arg(weights)
            .arg("--state")
            .arg(state)
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.find(|line| line.starts_with("inference at ")).unwrap();
        // The log must not fill the pipe.
        let log = std::thread::spawn(move || lines.collect());
        let address = said.split(['/', ',']).nth(2).unwrap().to_owned();
        Self { child, address, log }
    }

    /// The whole answer to a batch of a stream.
    fn ask(&self, stream: &str, pixels: &[u8]) -> Vec<u8> {
        let count = pixels.len() / (SIDE * SIDE * 3);
        let request = format!(
            r#"{{"inputs": [{{"name": "images", "datatype": "UINT8", "shape": [{count}, {SIDE}, {SIDE}, 3],
            "parameters": {{"binary_data_size": {}}}}}],
            "outputs": [{{"name": "logits", "parameters": {{"binary_data": true}}}}]}}"#,
            pixels.len()
        );
        let head = format!(
            "POST /v2/models/paint/infer HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Paint-Stream: {stream}\r\n\
             Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            request.len(),
            request.len() + pixels.len()
        );
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.write_all(&[head.as_bytes(), request.as_bytes(), pixels].concat()).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        answer
    }

    /// The raw logits of a batch of a stream.
    fn step(&self, stream: &str, pixels: &[u8]) -> Vec<u8> {
        let answer = self.ask(stream, pixels);
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        answer[answer.len() - pixels.len() / (SIDE * SIDE * 3) * CLASSES * 4..].to_vec()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn terminate(self) {
        let (status, log) = self.ended();
        assert_eq!(status, Some(0), "{log:?}");
    }

    /// SIGTERM; its exit status, and its log.
    fn ended(mut self) -> (Option<i32>, Vec<String>) {
        self.signal("-TERM");
        (self.child.wait().unwrap().code(), self.log.join().unwrap())
    }
}

fn equals_a_run(method: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Measured { hash: expected, batches, config } =
        measured(method, BATCH, BATCHES, folder.path());
    let state = folder.path().join("state");
    let start = || Served::start(&config.model.weights, method, &state, &[]);
    let mut found = Vec::new();
    for part in [0..17, 17..18, 18..BATCHES] {
        let server = start();
        for (at, batch) in batches[part.clone()].iter().enumerate() {
            found.extend(server.step("cam", batch));
            if at == 20 {
                // Sends the stream to the disk.
                server.step("other", &batches[0]);
            }
        }
        if part.end == BATCHES { server.terminate() } else { server.kill() }
    }
    assert_eq!(hash(&found), expected);
    let names: Vec<String> = std::fs::read_dir(state.join("paint"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.') && !name.starts_with("cam.safetensors.0"))
        .collect();
    let known = ["cam.safetensors", "other.safetensors"];
    assert!(names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
}

#[test]
fn paint_killed_and_evicted_equals_a_run() {
    equals_a_run("paint");
}

#[test]
fn keel_killed_and_evicted_equals_a_run() {
    equals_a_run("keel");
}

#[test]
fn tent_killed_and_evicted_equals_a_run() {
    equals_a_run("tent");
}

#[test]
fn a_server_that_slept_past_its_lease_has_no_say_in_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let weights = tiny::weights(folder.path());
    let batches: Vec<Vec<u8>> = (0..4).map(|at| tiny::pixels(8 * at, 8)).collect();
    let alone = Served::start(&weights, "tent", &folder.path().join("alone"), &[]);
    let expected: Vec<Vec<u8>> = batches.iter().map(|batch| alone.step("cam", batch)).collect();
    alone.terminate();

    let state = folder.path().join("state");
    let leased = |seconds| Served::start(&weights, "tent", &state, &["--lease", seconds]);
    let (slow, fast) = (leased("3"), leased("300"));
    let mut found = vec![slow.step("cam", &batches[0])];
    slow.signal("-STOP");
    assert!(fast.ask("cam", &batches[1]).starts_with(b"HTTP/1.1 409"));
    let begun = std::time::Instant::now();
    loop {
        let answer = fast.ask("cam", &batches[1]);
        if answer.starts_with(b"HTTP/1.1 200") {
            found.push(answer[answer.len() - 8 * CLASSES * 4..].to_vec());
            break;
        }
        assert!(answer.starts_with(b"HTTP/1.1 409") && begun.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    slow.signal("-CONT");
    for _ in 0..3 {
        assert!(slow.ask("cam", &batches[0]).starts_with(b"HTTP/1.1 409"));
    }
    found.push(fast.step("cam", &batches[2]));
    // The lease of a process that is gone is not waited for on its own machine.
    fast.kill();
    found.push(slow.step("cam", &batches[3]));
    assert_eq!(found, expected);
    slow.terminate();
}

#[test]
fn a_server_that_could_not_save_logs_it_and_ends_with_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let weights = tiny::weights(folder.path());
    let state = folder.path().join("state");
    let server = Served::start(&weights, "tent", &state, &[]);
    server.step("cam", &tiny::pixels(0, 8));
    // Another file can take the place of a file, not that of a folder.
    let place = state.join("paint/cam.safetensors");
    std::fs::remove_file(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    let refused = server.ask("cam", &tiny::pixels(8, 8));
    assert!(refused.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&refused));
    let (status, log) = server.ended();
    assert_eq!(status, Some(1), "{log:?}");
    assert!(log.iter().any(|line| line.contains(r#""saved":false"#)), "{log:?}");
    assert!(log.iter().any(|line| line.contains("not every state was saved")), "{log:?}");
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_is_opened() {
    for (flags, status, why) in [
        (&["--demo", "--listen", "0.0.0.0:0"][..], 2, "--token-file"),
        (&["--replay", "--weights", "x"], 2, "--weights"),
        (&["--demo", "--max-queue", "10"], 2, "queue"),
        (&["--demo", "--method", "none"], 2, "none"),
        (&["--demo", "--lease", "0.01"], 2, "lease"),
        #[cfg(not(feature = "grpc"))]
        (&["--demo", "--grpc", "127.0.0.1:0"], 2, "--features grpc"),
        #[cfg(not(feature = "tls"))]
        (&["--demo", "--tls-cert", "a", "--tls-key", "b"], 2, "--features tls"),
        #[cfg(feature = "tls")]
        (&["--demo", "--tls-cert", "absent", "--tls-key", "b"], 2, "certificate"),
        (&["--demo", "--model", "paint=embedded"], 2, "twice"),
        (&["--model", "../x=embedded"], 2, "letters"),
        (&["--model", "embedded"], 2, "NAME=WEIGHTS"),
        (&["--demo", "--admin", "192.0.2.1:1", "--insecure"], 1, "192.0.2.1:1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let out = Command::new(env!("CARGO_BIN_EXE_paint"))
            .args(["serve", "--state"])
            .arg(&state)
            .args(["--listen", "127.0.0.1:0"].iter().filter(|_| !flags.contains(&"--listen")))
            .args(["--admin", "127.0.0.1:0"].iter().filter(|_| !flags.contains(&"--admin")))
            .args(flags)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{flags:?}: {said}");
        assert!(said.contains(why), "{flags:?}: {said}");
    }
}
