//! `paint serve` as a process: what SIGKILL and SIGTERM leave behind.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a server that cannot be started fails its test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use paint_data::{Dataset as _, dataset};

const BATCH: usize = 8;

struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(state: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_paint"))
            .args([
                "serve",
                "--demo",
                "--method",
                "tent",
                "--mode",
                "adapt-first",
                "--no-guard",
                "--no-stream",
            ])
            .args(["--checkpoint-every", "1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .arg("--state")
            .arg(state)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.find(|line| line.starts_with("inference at ")).unwrap();
        // The log must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let address = said.split(['/', ',']).nth(2).unwrap().to_owned();
        Self { child, address }
    }

    /// The raw logits of one batch.
    fn step(&self, batch: usize) -> Vec<u8> {
        let images = dataset::embedded().unwrap();
        let pixels: Vec<u8> = (batch * BATCH..(batch + 1) * BATCH)
            .flat_map(|index| images.sample(0, index).unwrap().image.into_pixels())
            .collect();
        let request = format!(
            r#"{{"inputs": [{{"name": "images", "datatype": "UINT8", "shape": [{BATCH}, 32, 32, 3],
            "parameters": {{"binary_data_size": {}}}}}],
            "outputs": [{{"name": "logits", "parameters": {{"binary_data": true}}}}]}}"#,
            pixels.len()
        );
        let head = format!(
            "POST /v2/models/paint/infer HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Paint-Stream: cam\r\n\
             Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            request.len(),
            request.len() + pixels.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(&[head.as_bytes(), request.as_bytes(), &pixels].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        answer[answer.len() - BATCH * 10 * 4..].to_vec()
    }

    fn terminate(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_killed_server_continues_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Served::start(&folder.path().join("whole"));
    let expected: Vec<Vec<u8>> = (0..5).map(|batch| whole.step(batch)).collect();
    whole.terminate();
    assert_ne!(expected[0], expected[1]);

    let state = folder.path().join("killed");
    let mut found = Vec::new();
    for part in [0..2, 2..3, 3..5] {
        let mut server = Served::start(&state);
        found.extend(part.map(|batch| server.step(batch)));
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }
    assert_eq!(found, expected);
    let names: Vec<String> = std::fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    assert!(
        names.iter().all(|name| ["audit.jsonl", "cam.safetensors"].contains(&name.as_str())),
        "{names:?}"
    );
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_is_opened() {
    for (flags, status, why) in [
        (&["--demo", "--listen", "0.0.0.0:0"][..], 2, "--token-file"),
        (&["--replay", "--weights", "x"], 2, "--weights"),
        (&["--demo", "--max-queue", "10"], 2, "queue"),
        (&["--demo", "--method", "none"], 2, "none"),
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
