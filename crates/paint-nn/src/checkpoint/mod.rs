//! Weights from files, and back.
//!
//! A checkpoint is a list of named arrays in host memory; nothing here knows tensors or devices. [`read`] looks at
//! the content, not at the extension: safetensors, PyTorch's zip and legacy files, NumPy's `.npz` and `.npy`, the
//! initialisers of ONNX graphs. Files come from strangers, so no reader executes anything, allocates on a header's
//! word, or panics; each fault names the file and the cause. [`to_timm`] then brings the names and layouts of Hugging
//! Face, torchvision and Google to timm's, which the models of this crate use, and [`Architecture::detect`] reads the
//! sizes off the shapes. How images are prepared belongs to the weights too: [`read_preprocess`]. What this program
//! writes for itself goes through [`write_sealed`] and [`read_sealed`], which notice every changed bit.
//!
//! ```no_run
//! use paint_nn::checkpoint;
//! let (convention, weights) = checkpoint::to_timm(checkpoint::read("vit.safetensors")?)?;
//! println!("{convention}: {} arrays", weights.len());
//! # Ok::<(), checkpoint::Error>(())
//! ```

mod architecture;
mod array;
mod digest;
mod error;
pub(crate) mod foreign;
mod located;
mod model_config;
mod names;
mod narrow;
mod npy;
mod onnx;
mod pickle;
mod preprocess;
mod safetensors;
mod sealed;
mod torch;
mod traits;
mod zero_shot;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use paint_files::npy::MAGIC;
use paint_files::zip::Archive;
use paint_files::{Budget, Source, abridged};

pub use architecture::{Architecture, ConvnextSizes, HeadsFrom, ResnetSizes, SwinSizes, VitSizes};
pub use array::Array;
pub use digest::sha256;
pub use error::{Error, Result};
pub use located::locate;
pub use model_config::{ModelConfig, read_model_config};
pub use names::{Convention, Publisher, to_timm};
pub use paint_files::{Dtype, Fault};
pub use preprocess::{CropMode, Interpolation, Preprocess, PreprocessFlags, read_preprocess};
pub use safetensors::write_safetensors;
pub use sealed::{decode_sealed, read_sealed, write_sealed};
pub use traits::{Activation, GlobalPool, Traits};
pub(crate) use zero_shot::COSINE_HEAD;
pub use zero_shot::with_text_features;

/// How many leading bytes it takes to tell the formats apart; the signature of a tar archive comes last.
const SNIFFED: u64 = 512;

/// The file formats that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Hugging Face's safetensors.
    SafeTensors,
    /// PyTorch 1.6 and later: a zip archive of a pickle and raw storages.
    TorchZip,
    /// PyTorch before 1.6: pickles followed by raw storages.
    TorchLegacy,
    /// NumPy: a zip archive of `.npy` arrays.
    Npz,
    /// NumPy: one array.
    Npy,
    /// The weights of an ONNX graph.
    Onnx,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SafeTensors => "safetensors",
            Self::TorchZip => "PyTorch zip",
            Self::TorchLegacy => "PyTorch legacy",
            Self::Npz => "NumPy npz",
            Self::Npy => "NumPy npy",
            Self::Onnx => "ONNX",
        })
    }
}

impl Format {
    /// What to do if the arrays of such a file are those of no known network.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Onnx => Some(WAY_OUT),
            _ => None,
        }
    }
}

/// Named arrays in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Where the arrays come from.
    pub format: Format,
    /// What the file says about itself: safetensors metadata, or the plain values beside a PyTorch state dictionary.
    pub metadata: BTreeMap<String, String>,
    /// Entries that are not arrays, as (name, what it is). None of them was executed.
    pub skipped: Vec<(String, String)>,
    entries: Vec<(String, Array)>,
    index: BTreeMap<String, usize>,
}

impl Checkpoint {
    /// A checkpoint without arrays.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            metadata: BTreeMap::new(),
            skipped: Vec::new(),
            entries: Vec::new(),
            index: BTreeMap::new(),
        }
    }

    /// Adds an array at the end; a name that is taken is refused.
    pub fn insert(&mut self, name: String, array: Array) -> std::result::Result<(), Fault> {
        if self.index.contains_key(&name) {
            return Err(Fault::Duplicate { name: abridged(&name) });
        }
        self.index.insert(name.clone(), self.entries.len());
        self.entries.push((name, array));
        Ok(())
    }

    /// The array of that name.
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.index.get(name).map(|&at| &self.entries[at].1)
    }

    /// Takes the array of that name out.
    pub fn remove(&mut self, name: &str) -> Option<Array> {
        let at = self.index.remove(name)?;
        for later in self.index.values_mut().filter(|later| **later > at) {
            *later -= 1;
        }
        Some(self.entries.remove(at).1)
    }

    /// Names and arrays in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Array)> {
        self.entries.iter().map(|(name, array)| (name.as_str(), array))
    }

    /// The number of arrays.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no arrays.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of elements of all arrays.
    pub fn element_count(&self) -> usize {
        self.entries.iter().map(|(_, array)| array.data.len()).sum()
    }
}

impl IntoIterator for Checkpoint {
    type Item = (String, Array);
    type IntoIter = std::vec::IntoIter<(String, Array)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// Reads every array of a file, whatever its extension.
///
/// Arrays are read one at a time, so a large file takes little more memory than its arrays do as f32. A file that
/// another program changes meanwhile gives an error or wrong numbers, and never ends the process.
///
/// A path may be a folder with weights in it, or an index of files of weights.
pub fn read(path: impl AsRef<Path>) -> Result<Checkpoint> {
    let path = locate(path)?;
    if located::is_index(&path) { located::read_index(&path) } else { read_file(&path) }
}

fn read_file(path: &Path) -> Result<Checkpoint> {
    check_regular(path)?;
    decode_source(&open(path)?, path, path.parent())
}

fn open(path: &Path) -> Result<Source> {
    Source::open(path).map_err(|source| unreadable(source, path))
}

/// Asked before opening: a named pipe would wait for a writer.
fn check_regular(path: &Path) -> Result<()> {
    if std::fs::metadata(path).map_err(|source| unreadable(source, path))?.is_file() {
        return Ok(());
    }
    Err(Error::UnknownFormat { found: "not a regular file".to_owned(), path: path.to_owned() })
}

fn unreadable(source: std::io::Error, path: &Path) -> Error {
    Error::Io { action: "read", source, path: path.to_owned() }
}

/// Reads every array of a file's content; `path` only serves the messages.
pub fn decode(bytes: &[u8], path: &Path) -> Result<Checkpoint> {
    decode_source(&Source::from(bytes.to_vec()), path, None)
}

fn format_of(source: &Source, path: &Path) -> Result<Format> {
    let mut start = vec![0; SNIFFED.min(source.len()) as usize];
    source.fill(0, &mut start).map_err(|source| unreadable(source, path))?;
    sniff(&start, source.len())
        .map_err(|found| Error::UnknownFormat { found, path: path.to_owned() })
}

/// `folder` is where files that the content names are looked for.
fn decode_source(source: &Source, path: &Path, folder: Option<&Path>) -> Result<Checkpoint> {
    let mut format = format_of(source, path)?;
    match format {
        Format::SafeTensors => safetensors::decode(source),
        Format::TorchLegacy => torch::decode_legacy(source),
        Format::Npy => npy::decode_npy(source),
        Format::Onnx => onnx::decode(source, folder),
        Format::TorchZip | Format::Npz => Archive::open(source.clone()).and_then(|archive| {
            let mut budget = Budget::for_file(source.len());
            if npy::is_npz(&archive) {
                format = Format::Npz;
                npy::decode_npz(&archive, &mut budget)
            } else {
                torch::decode_zip(&archive, &mut budget)
            }
        }),
    }
    .map_err(|fault| Error::Malformed { format, fault, path: path.to_owned() })
}

/// What turns any PyTorch model into a file that is read.
const WAY_OUT: &str =
    "save the model it was made from with safetensors.torch.save_file(model.state_dict(), FILE)";

/// The format that the first bytes announce, or what they look like instead.
fn sniff(bytes: &[u8], length: u64) -> std::result::Result<Format, String> {
    if bytes.starts_with(b"PK\x03\x04") {
        return Ok(Format::TorchZip);
    }
    if bytes.starts_with(MAGIC) {
        return Ok(Format::Npy);
    }
    if bytes.get(8) == Some(&b'{') {
        return Ok(Format::SafeTensors);
    }
    if let [0x80, 1..=5, ..] = bytes {
        return Ok(Format::TorchLegacy);
    }
    // A graph begins with its version, a small number, and a field of text or the graph itself.
    if let [0x08, 1..=0x1f, 0x12 | 0x1a | 0x22 | 0x2a | 0x32 | 0x3a | 0x42, ..] = bytes {
        return Ok(Format::Onnx);
    }
    Err(match bytes {
        [] => "an empty file".to_owned(),
        [0x1f, 0x8b, ..] => "gzip; unpack it first".to_owned(),
        [0x89, b'H', b'D', b'F', ..] => format!("HDF5, as TensorFlow writes it; {WAY_OUT}"),
        _ if bytes.get(257..262) == Some(b"ustar") => {
            "a tar archive (PyTorch before 0.1.10, or packed files)".to_owned()
        }
        _ if bytes.starts_with(b"version https://git-lfs") => {
            "a Git LFS pointer; fetch the real file with `git lfs pull`".to_owned()
        }
        _ if bytes.starts_with(b"<") => "a web page, perhaps of a failed download".to_owned(),
        _ => format!("{length} bytes that begin with {:02x?}", &bytes[..bytes.len().min(8)]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_shortened_while_it_is_read_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.safetensors");
        let data = vec![1.0; 100_000];
        let arrays = [("a", &[100_000_usize][..], &data[..])];
        write_safetensors(&path, arrays, Dtype::F32, &BTreeMap::new()).unwrap();
        let source = Source::open(&path).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        let error = decode_source(&source, &path, None).unwrap_err().to_string();
        assert!(error.contains("became shorter"), "{error}");
        assert!(error.contains("weights.safetensors"), "{error}");
    }
}
