//! States as files: of an adaptation, a run or a training. One writer, one reader, one format.
//!
//! A sealed safetensors file holds the tensors, and in its metadata the version of the format, the kind of state, the
//! counters and what the owner adds. Every bit is checked when it is read.

use std::collections::BTreeMap;
use std::path::Path;

use paint_tensor::{Device, Tensor};
use serde::de::DeserializeOwned;

use super::State;
use crate::checkpoint::{self, Error, read_sealed, write_sealed};

const FORMAT: &str = "paint_state";
const VERSION: &str = "2";
const KIND: &str = "kind";
const COUNTERS: &str = "counters";

/// What a state is of; another kind is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What `paint adapt` learnt.
    Adaptation,
    /// Where a measured run stands.
    Run,
    /// Where a training stands.
    Training,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Adaptation, Self::Run, Self::Training];

    fn name(self) -> &'static str {
        match self {
            Self::Adaptation => "adaptation",
            Self::Run => "run",
            Self::Training => "training",
        }
    }

    /// In a sentence.
    fn words(self) -> &'static str {
        match self {
            Self::Adaptation => "the state of an adaptation",
            Self::Run => "the state of a run",
            Self::Training => "the state of a training",
        }
    }
}

/// What a file holds.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The state.
    pub state: State,
    /// What its owner added.
    pub about: BTreeMap<String, String>,
}

/// Writes a state with what the owner adds to it. The file is complete, on the disk, or as it was.
pub fn write(
    path: &Path,
    kind: Kind,
    state: &State,
    about: &BTreeMap<String, String>,
) -> crate::Result<()> {
    let mut metadata = about.clone();
    metadata.insert(FORMAT.into(), VERSION.into());
    metadata.insert(KIND.into(), kind.name().into());
    metadata.insert(COUNTERS.into(), serde_json::json!(state.counters).to_string());
    let data: Vec<Vec<f32>> =
        state.tensors.values().map(Tensor::to_vec).collect::<paint_tensor::Result<_>>()?;
    let arrays = state.tensors.iter().zip(&data);
    let arrays = arrays.map(|((name, tensor), data)| (name.as_str(), tensor.shape(), &data[..]));
    Ok(write_sealed(path, arrays, &metadata)?)
}

/// Reads what [`write()`] wrote; damage, another kind and another version are refused.
pub fn read(path: &Path, kind: Kind, device: &Device) -> crate::Result<Saved> {
    let mut file = read_sealed(path, |metadata| check(metadata, kind, path))?;
    let mut about = std::mem::take(&mut file.metadata);
    let counters = entry(&about, COUNTERS, path)?;
    for key in [FORMAT, KIND, COUNTERS] {
        about.remove(key);
    }
    let mut state = State { counters, ..State::default() };
    for (name, array) in file {
        state.tensors.insert(name, Tensor::from_vec(array.data, array.shape, device)?);
    }
    Ok(Saved { state, about })
}

fn check(metadata: &BTreeMap<String, String>, kind: Kind, path: &Path) -> checkpoint::Result<()> {
    let get = |key: &str| metadata.get(key).map(String::as_str);
    let found = match (get(FORMAT), get(KIND)) {
        (Some(VERSION), Some(name)) if name == kind.name() => return Ok(()),
        (Some(VERSION), name) => {
            let known = Kind::ALL.into_iter().find(|kind| Some(kind.name()) == name);
            known.map_or("a state of an unknown kind", Kind::words).to_owned()
        }
        (Some("1"), _) => {
            "one of version 1, which had no checksum; delete it and begin anew".to_owned()
        }
        (Some(version), _) => format!("one of version {version:?}"),
        (None, _) => "other arrays".to_owned(),
    };
    let expected = format!("{}, version {VERSION}", kind.words());
    Err(Error::Kind { expected, found, path: path.to_owned() })
}

/// Reads an entry of `about`, which its owner wrote as JSON.
pub fn entry<T: DeserializeOwned>(
    about: &BTreeMap<String, String>,
    key: &str,
    path: &Path,
) -> checkpoint::Result<T> {
    let text = about.get(key).map_or("", String::as_str);
    serde_json::from_str(text).map_err(|error| Error::Kind {
        expected: format!("{key:?} in the metadata"),
        found: error.to_string(),
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let tensor = Tensor::from_vec(vec![1.0, -2.5, 3.0], [3], &Device::cpu()).unwrap();
        State {
            tensors: [("memory/0/key".into(), tensor)].into(),
            counters: [("steps".into(), u64::MAX)].into(),
        }
    }

    fn refused(path: &Path, kind: Kind) -> String {
        read(path, kind, &Device::cpu()).unwrap_err().to_string()
    }

    #[test]
    fn a_state_comes_back_with_its_counters_and_what_was_said_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let about = BTreeMap::from([("position".to_owned(), "7".to_owned())]);
        write(&path, Kind::Run, &state(), &about).unwrap();
        let saved = read(&path, Kind::Run, &Device::cpu()).unwrap();
        assert_eq!((saved.about, saved.state.counters), (about, state().counters));
        let values = saved.state.tensors["memory/0/key"].to_vec().unwrap();
        assert_eq!(values, [1.0, -2.5, 3.0]);
    }

    #[test]
    fn another_kind_another_version_and_other_arrays_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my state");
        write(&path, Kind::Training, &state(), &BTreeMap::new()).unwrap();
        let message = refused(&path, Kind::Adaptation);
        assert!(message.contains("found the state of a training"), "{message}");
        for (version, told) in [("1", "had no checksum"), ("3", "version \"3\"")] {
            let metadata = BTreeMap::from([(FORMAT.to_owned(), version.to_owned())]);
            write_sealed(&path, [], &metadata).unwrap();
            let message = refused(&path, Kind::Run);
            assert!(message.contains(told) && message.contains("my state"), "{message}");
        }
        write_sealed(&path, [], &BTreeMap::new()).unwrap();
        assert!(refused(&path, Kind::Run).contains("other arrays"));
    }
}
