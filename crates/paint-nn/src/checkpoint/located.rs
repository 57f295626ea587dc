//! Weights that are given as a folder, or as an index of the files they are spread over.
//!
//! A folder of Hugging Face is taken as it is. An index (`model.safetensors.index.json`) says which file beside it
//! holds which array; it may name no file elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use paint_files::{Fault, abridged};
use serde::Deserialize;

use super::error::{Error, Result};
use super::{Checkpoint, Format, check_regular, format_of, onnx, open, read_file, unreadable};

/// The weights that publishers put into a folder, the first that is there.
const FILES: [&str; 9] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "open_clip_model.safetensors",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "open_clip_pytorch_model.bin",
    "model.pth",
    "model.pt",
    "model.onnx",
];

/// The largest index, and the most files it may name: the largest published networks have about 200.
const LARGEST: u64 = 64 << 20;
const MOST_FILES: usize = 1000;

/// The file that a path stands for: itself or, in a folder, the weights.
pub fn locate(path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let inside = FILES.map(|name| path.join(name));
    inside.into_iter().find(|file| file.exists()).ok_or_else(|| Error::UnknownFormat {
        found: format!("a folder without weights (looked for {})", FILES.join(", ")),
        path: path.to_owned(),
    })
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Whether a file is an index, by its name.
pub(super) fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

/// The arrays of every file that an index names.
pub(super) fn read_index(path: &Path) -> Result<Checkpoint> {
    let index = Index::read(path)?;
    let mut arrays: Option<Checkpoint> = None;
    for file in index.files(path)? {
        let shard = read_file(&file)?;
        let all = arrays.get_or_insert_with(|| Checkpoint::new(shard.format));
        all.metadata.extend(shard.metadata.clone());
        all.skipped.extend(shard.skipped.clone());
        for (name, array) in shard {
            all.insert(name, array).map_err(|fault| malformed(fault, &file))?;
        }
    }
    let arrays = arrays.unwrap_or_else(|| Checkpoint::new(Format::SafeTensors));
    match index.weight_map.iter().find(|(name, _)| arrays.get(name).is_none()) {
        None => Ok(arrays),
        Some((name, file)) => {
            let name = format!("{}, which the index places in {file}", abridged(name));
            Err(malformed(Fault::Missing { name }, path))
        }
    }
}

/// A file and those that it names: the files of an index, or those with the arrays of a graph.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![path.to_owned()];
    if is_index(path) {
        files.extend(Index::read(path)?.files(path)?);
    } else if is_graph(path) {
        let named = onnx::files_of(&open(path)?, path);
        let format = Format::Onnx;
        files.extend(named.map_err(|fault| Error::Malformed {
            format,
            fault,
            path: path.to_owned(),
        })?);
    }
    Ok(files)
}

/// Whether a file is a graph, by its first bytes; anything else is none.
fn is_graph(path: &Path) -> bool {
    let format = check_regular(path).and_then(|()| format_of(&open(path)?, path));
    matches!(format, Ok(Format::Onnx))
}

impl Index {
    fn read(path: &Path) -> Result<Self> {
        check_regular(path)?;
        let file = File::open(path).map_err(|source| unreadable(source, path))?;
        let mut text = Vec::new();
        file.take(LARGEST).read_to_end(&mut text).map_err(|source| unreadable(source, path))?;
        serde_json::from_slice(&text).map_err(|error| Error::UnknownFormat {
            found: format!("a JSON file that is no index of weights ({error})"),
            path: path.to_owned(),
        })
    }

    /// The files beside the index, each once.
    fn files(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let names: BTreeSet<&String> = self.weight_map.values().collect();
        if names.len() > MOST_FILES {
            let expected = format!("at most {MOST_FILES} files");
            return Err(malformed(Fault::invalid("index", expected, names.len()), path));
        }
        let beside = |name: &&String| {
            let place = Path::new(name.as_str());
            let is_plain =
                matches!(place.components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
            if is_plain && !is_index(place) {
                return Ok(path.with_file_name(place));
            }
            let found = abridged(name);
            Err(malformed(
                Fault::invalid("index", "names of files of weights beside it", found),
                path,
            ))
        };
        names.iter().map(beside).collect()
    }
}

fn malformed(fault: Fault, path: &Path) -> Error {
    Error::Malformed { format: Format::SafeTensors, fault, path: path.to_owned() }
}
