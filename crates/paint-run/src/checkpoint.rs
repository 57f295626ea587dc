//! A run on disk: stop after any batch, continue with the same bits.
//!
//! One safetensors file holds the method's arrays, and in its metadata the counters, the metrics so far, the position in
//! the stream and the resolved configuration. It is written beside its place, flushed and renamed, so that a crash or a
//! full disk leaves the one before it whole. Random draws need no state of their own: each derives from the seed and the
//! place of the draw.

use std::collections::BTreeMap;
use std::path::Path;

use paint_methods::State;
use paint_nn::checkpoint::{self, Dtype};
use paint_tensor::{Device, Tensor};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::metric::Meter;
use crate::runner::Runner;
use crate::{Error, Result};

const FORMAT: &str = "paint_state";
const VERSION: &str = "1";
const COUNTERS: &str = "counters";
const CONFIG: &str = "config";
const PROGRESS: &str = "progress";
const IMAGES: &str = "images";

/// Where a run stands.
#[derive(Serialize, Deserialize)]
struct Progress {
    position: usize,
    meter: Meter,
}

/// Writes a method's state, with what the caller adds to say what it belongs to.
pub fn write_state(path: &Path, state: &State, about: &BTreeMap<String, String>) -> Result<()> {
    let mut metadata = about.clone();
    metadata.insert(FORMAT.into(), VERSION.into());
    metadata.insert(COUNTERS.into(), serde_json::json!(state.counters).to_string());
    let data: Vec<Vec<f32>> =
        state.tensors.values().map(Tensor::to_vec).collect::<paint_tensor::Result<_>>()?;
    let arrays = state.tensors.iter().zip(&data);
    let arrays = arrays.map(|((name, tensor), data)| (name.as_str(), tensor.shape(), &data[..]));
    Ok(checkpoint::write_safetensors(path, arrays, Dtype::F32, &metadata)?)
}

/// Reads what [`write_state`] wrote.
pub fn read_state(path: &Path, device: &Device) -> Result<(State, BTreeMap<String, String>)> {
    let file = checkpoint::read(path)?;
    let metadata = file.metadata.clone();
    let version = metadata.get(FORMAT).map(String::as_str);
    if version != Some(VERSION) {
        return Err(Error::Checkpoint {
            expected: format!("an adaptation state, version {VERSION}"),
            found: version.map_or_else(|| "other arrays".into(), |v| format!("version {v}")),
            path: path.to_owned(),
        });
    }
    let mut state = State { counters: entry(&metadata, COUNTERS, path)?, ..State::default() };
    for (name, array) in file {
        state.tensors.insert(name, Tensor::from_vec(array.data, array.shape, device)?);
    }
    Ok((state, metadata))
}

fn entry<T: DeserializeOwned>(
    metadata: &BTreeMap<String, String>,
    key: &'static str,
    path: &Path,
) -> Result<T> {
    let text = metadata.get(key).map_or("", String::as_str);
    serde_json::from_str(text).map_err(|error| Error::Checkpoint {
        expected: format!("{key:?} in the metadata"),
        found: error.to_string(),
        path: path.to_owned(),
    })
}

/// What a run is of.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its configuration, resolved.
    pub config: &'a Config,
    /// Digits that other images would not give.
    pub images: &'a str,
}

/// Writes where `runner` stands.
pub fn save(path: &Path, runner: &Runner<'_>, subject: Subject<'_>) -> Result<()> {
    let progress = Progress { position: runner.position(), meter: runner.meter().clone() };
    let progress = serde_json::json!(progress).to_string();
    let config = (CONFIG.into(), subject.config.to_toml()?);
    let about = [(PROGRESS.into(), progress), config, (IMAGES.into(), subject.images.into())];
    write_state(path, &runner.method().save()?, &about.into())
}

/// A run that stopped, read and found to be of the same subject.
pub struct Stopped {
    state: State,
    progress: Progress,
}

/// Reads the run that stopped at `path`. One of another configuration is refused with the first key that differs, and one of
/// other images too.
pub fn read(path: &Path, subject: Subject<'_>, device: &Device) -> Result<Stopped> {
    let (state, metadata) = read_state(path, device)?;
    let other = metadata.get(CONFIG).map_or("", String::as_str);
    if let Some((key, ours, theirs)) = subject.config.difference(other)? {
        return Err(Error::Checkpoint {
            expected: format!("{key} = {ours}"),
            found: format!("{key} = {theirs}"),
            path: path.to_owned(),
        });
    }
    let images = metadata.get(IMAGES).map_or("", String::as_str);
    if images != subject.images {
        let place = &subject.config.data.path;
        return Err(Error::Checkpoint {
            expected: format!("a run of the images of {}", place.display()),
            found: "a run of other images, or of these before they were changed".into(),
            path: path.to_owned(),
        });
    }
    let progress = entry(&metadata, PROGRESS, path)?;
    Ok(Stopped { state, progress })
}

impl Stopped {
    /// Puts `runner` where this run stood.
    pub fn restore(self, runner: &mut Runner<'_>) -> Result<()> {
        let Progress { position, meter } = self.progress;
        runner.restore(&self.state, meter, position)
    }
}
