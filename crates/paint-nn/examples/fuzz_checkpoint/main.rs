//! A seeded mutation fuzzer for every checkpoint format.
//!
//!     cargo run --release -p paint-nn --example fuzz_checkpoint -- --seconds 600 [--seed N] [--corpus FOLDER]
//!
//! Takes the small files of `fixtures/checkpoints` and `fixtures/onnx`, damages them and reads the result: bytes
//! are flipped, cut, doubled, replaced by telling numbers and mixed with other files. Half of the inputs are
//! archives that are repacked with right checksums, so that the damage reaches the pickles and arrays inside. A
//! panic or an allocation beyond the limit stops the run and leaves the input in a file; otherwise the last line
//! counts what was run. One input in sixteen is the index of a folder with weights in two files.

#[path = "../../tests/checkpoint_hostile/archive.rs"]
mod archive;
mod mutate;
#[path = "../../tests/checkpoint_hostile/peak.rs"]
mod peak;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use paint_nn::checkpoint::{self, Error};
use paint_rng::Seed;

/// Every file may unpack a megabyte, however small it is, and that is held twice while it is converted.
const SPARE: usize = 2 << 20;

#[global_allocator]
static ALLOCATOR: peak::Counting = peak::Counting;

struct Options {
    seconds: u64,
    seed: u64,
    corpus: Vec<PathBuf>,
}

fn options() -> Result<Options, String> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let corpus = vec![fixtures.join("checkpoints"), fixtures.join("onnx")];
    let mut options = Options { seconds: 60, seed: 1, corpus };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or(format!("{flag} needs a value"))?;
        let number = || {
            value.parse::<u64>().map_err(|_| format!("{flag}: expected a number, got {value:?}"))
        };
        match flag.as_str() {
            "--seconds" => options.seconds = number()?,
            "--seed" => options.seed = number()?,
            "--corpus" => options.corpus = vec![PathBuf::from(&value)],
            _ => {
                return Err(format!(
                    "unknown flag {flag:?}; known are --seconds, --seed, --corpus"
                ));
            }
        }
    }
    Ok(options)
}

fn corpus(folder: &Path, files: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            corpus(&path, files)?;
        } else {
            let bytes = std::fs::read(&path)?;
            if checkpoint::decode(&bytes, &path).is_ok() {
                files.push(bytes);
            }
        }
    }
    Ok(())
}

const INDEX: &str = r#"{"metadata": {"total_size": 24}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}"#;

/// A folder with weights in two files, which is gone at the end.
fn folder() -> Result<tempfile::TempDir, Error> {
    let folder = tempfile::tempdir().map_err(|source| Error::Io {
        action: "create",
        source,
        path: std::env::temp_dir(),
    })?;
    for (file, name) in [("one.safetensors", "a"), ("two.safetensors", "b")] {
        let arrays = [(name, &[3_usize][..], &[1.0_f32, 2.0, 3.0][..])];
        let path = folder.path().join(file);
        checkpoint::write_safetensors(&path, arrays, checkpoint::Dtype::F32, &BTreeMap::new())?;
    }
    Ok(folder)
}

/// Reads a folder with this index.
fn exercise_index(folder: &Path, index: &[u8]) -> &'static str {
    let file = folder.join("model.safetensors.index.json");
    if std::fs::write(file, index).is_err() {
        return "index not written";
    }
    match checkpoint::read(folder) {
        Ok(_) => "index read",
        Err(_) => "index refused",
    }
}

/// Everything that is done with a file before its arrays reach a model.
fn exercise(bytes: &[u8]) -> &'static str {
    let found = match checkpoint::decode(bytes, Path::new("fuzzed")) {
        Ok(found) => found,
        Err(Error::UnknownFormat { .. }) => return "unknown format",
        Err(_) => return "refused",
    };
    let Ok((_, weights)) = checkpoint::to_timm(found) else { return "names refused" };
    match checkpoint::Architecture::detect(&weights, &checkpoint::ModelConfig::default()) {
        Ok(_) => "read",
        Err(_) => "architecture refused",
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]
fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let mut files = Vec::new();
    for folder in &options.corpus {
        if let Err(error) = corpus(folder, &mut files) {
            eprintln!("{error}: {}", folder.display());
            return ExitCode::FAILURE;
        }
    }
    let folder = match folder() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut indexes = mutate::Mutator::new(
        vec![INDEX.into()],
        Seed(options.seed).derive("fuzz_checkpoint/index", &[]),
    );
    let mut mutator =
        mutate::Mutator::new(files, Seed(options.seed).derive("fuzz_checkpoint", &[]));
    println!(
        "{} files, {} of them archives to repack, seed {}, {} s",
        mutator.len(),
        mutator.archives(),
        options.seed,
        options.seconds
    );

    let start = Instant::now();
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut executions, mut worst_ratio, mut slowest) = (0_u64, 0.0_f64, Duration::ZERO);
    while start.elapsed().as_secs() < options.seconds {
        let is_index = executions % 16 == 15;
        let input = if is_index { indexes.next_input() } else { mutator.next_input() };
        let begin = Instant::now();
        let run = std::panic::catch_unwind(|| {
            peak::peak_of(|| {
                if is_index { exercise_index(folder.path(), &input) } else { exercise(&input) }
            })
        });
        slowest = slowest.max(begin.elapsed());
        executions += 1;
        let finding = match run {
            Err(_) => Some("panic".to_owned()),
            Ok((_, held)) if held > peak::allowed(input.len(), SPARE) => {
                Some(format!("{held} bytes held"))
            }
            Ok((outcome, held)) => {
                *outcomes.entry(outcome).or_default() += 1;
                worst_ratio =
                    worst_ratio.max(held as f64 / peak::allowed(input.len(), SPARE) as f64);
                None
            }
        };
        if let Some(finding) = finding {
            let path = std::env::temp_dir()
                .join(format!("fuzz_checkpoint-{}-{executions}.bin", options.seed));
            let kept = std::fs::write(&path, &input);
            eprintln!(
                "execution {executions}: {finding}; input of {} bytes: {} ({kept:?})",
                input.len(),
                path.display()
            );
            return ExitCode::FAILURE;
        }
    }
    println!(
        "{executions} executions in {:.0} s, no findings; {outcomes:?}; at most {:.0} % of the allowed memory, slowest {:.1} ms",
        start.elapsed().as_secs_f64(),
        100.0 * worst_ratio,
        1e3 * slowest.as_secs_f64(),
    );
    ExitCode::SUCCESS
}
