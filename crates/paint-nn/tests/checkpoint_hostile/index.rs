//! Indexes of several files, damaged; and the beginning of a graph, which is refused however it continues.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use paint_nn::checkpoint::{self, Checkpoint, Dtype, Error};
use paint_rng::Seed;

use super::{assert_refused, memory};

const INDEX: &str = r#"{"metadata": {"total_size": 24}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}"#;

/// A folder with two files of one array each.
struct Folder {
    folder: tempfile::TempDir,
    bytes: usize,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bytes = 0;
        for (file, name) in [("one.safetensors", "a"), ("two.safetensors", "b")] {
            let path = folder.path().join(file);
            let arrays = [(name, &[3_usize][..], &[1.0_f32, 2.0, 3.0][..])];
            checkpoint::write_safetensors(&path, arrays, Dtype::F32, &BTreeMap::new()).expect(file);
            bytes += fs::read(&path).expect(file).len();
        }
        Self { folder, bytes }
    }

    fn index(&self) -> PathBuf {
        self.folder.path().join("model.safetensors.index.json")
    }

    /// Reads the folder with this index, within the memory that its files may take.
    fn read(&self, index: &[u8]) -> Result<Checkpoint, Error> {
        fs::write(self.index(), index).expect("an index");
        let path = self.folder.path().to_owned();
        memory::within(self.bytes + index.len(), || checkpoint::read(path))
    }
}

#[test]
fn an_index_cut_at_any_length_is_refused_by_name() {
    let folder = Folder::new();
    assert_eq!(folder.read(INDEX.as_bytes()).unwrap().len(), 2);
    for length in 0..INDEX.len() {
        let error = folder.read(&INDEX.as_bytes()[..length]).unwrap_err().to_string();
        assert!(error.ends_with("model.safetensors.index.json"), "cut to {length}: {error}");
    }
}

#[test]
fn a_damaged_index_does_no_harm_and_gives_no_array_that_it_does_not_name() {
    let folder = Folder::new();
    let mut rng = Seed(13).derive("index", &[]);
    for _ in 0..1000 {
        let mut bytes = INDEX.as_bytes().to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes[at] ^= 1 << rng.below(8),
                1 => bytes[at] = b"{}[]\":,./\\0\xff"[rng.below(12)],
                2 => _ = bytes.splice(at..at, *b"../"),
                _ => _ = bytes.drain(at..(at + rng.below(9)).min(bytes.len())),
            }
        }
        match folder.read(&bytes) {
            Ok(arrays) => assert!(arrays.len() <= 2),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    error.len() < 1000 && error.contains(folder.folder.path().to_str().unwrap()),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn nested_brackets_and_endless_files_are_refused() {
    let folder = Folder::new();
    for text in ["[".repeat(100_000), format!(r#"{{"metadata": {}"#, "{\"a\": ".repeat(100_000))] {
        let error = folder.read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("no index of weights") && error.len() < 1000, "{error}");
    }
    #[cfg(unix)]
    {
        fs::remove_file(folder.index()).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.index()).unwrap();
        let error = checkpoint::read(folder.folder.path()).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn the_beginning_of_a_graph_is_refused_however_it_continues() {
    let mut rng = Seed(14).derive("graph", &[]);
    for length in 0..600 {
        let mut bytes = b"\x08\x08\x12\x07pytorch\x1a\x052.1.0".to_vec();
        bytes.extend((0..length).map(|_| rng.next_u64() as u8));
        // A brace at the place where safetensors have one would be read as such.
        bytes[8] = b'c';
        assert_refused(&bytes, "ONNX");
    }
}
