//! A grid small enough for a test.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[path = "../tiny_network/mod.rs"]
mod tiny_network;

pub(crate) use tiny_network::weights;

/// `paint` with some arguments and `--out`.
pub(crate) fn paint(args: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paint"));
    command.args(args).args(["--out", out.to_str().unwrap()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What was said.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Three rows over two domains of a few images, in batches that make several checkpoints.
pub(crate) fn grid() -> Vec<&'static str> {
    let rows = ["bench", "--protocol", "cifar10-c", "--methods", "source,tent,paint"];
    let domains = ["--set", "scenario.domains=[\"fog\",\"contrast\"]"];
    let batches = ["--limit", "12", "--set", "scenario.batch_size=4", "--checkpoint-every", "1"];
    let data = ["--dataset", "embedded", "--corrupt", "--weights", weights()];
    [&rows[..], &domains, &batches, &data, &["--no-timing", "--threads", "2"]].concat()
}

/// The files that must not depend on how often a grid was interrupted.
pub(crate) const SAME: [&str; 7] = [
    "results.jsonl",
    "summary.json",
    "results.csv",
    "results.md",
    "results.tex",
    "protocol.toml",
    "report.html",
];

/// The batches that the runs of a grid have done so far.
pub(crate) fn batches(out: &Path) -> usize {
    let Ok(cells) = fs::read_dir(out.join("cells")) else { return 0 };
    let log = |cell: fs::DirEntry| fs::read_to_string(cell.path().join("events.jsonl"));
    let logs = cells.filter_map(|cell| log(cell.ok()?).ok());
    logs.map(|log| log.matches("\"event\":\"batch_done\"").count()).sum()
}

/// A JSON file of a grid.
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}
