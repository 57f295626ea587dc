//! A run on disk: stop after any batch, continue with the same bits.
//!
//! The state of the method goes through [`paint_nn::state::file`], with the metrics so far, the position in the
//! stream and the resolved configuration beside it. The file is written beside its place, flushed and renamed, so
//! that a crash or a full disk leaves the one before it whole. Random draws need no state of their own: each derives
//! from the seed and the place of the draw.

use std::path::Path;

use paint_methods::State;
use paint_nn::state::file::{self, Kind, Saved};
use paint_tensor::Device;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::metric::Meter;
use crate::runner::{Runner, Task};
use crate::{Error, Result};

const CONFIG: &str = "config";
const PROGRESS: &str = "progress";
const IMAGES: &str = "images";

/// Where a run stands.
#[derive(Serialize, Deserialize)]
struct Progress {
    position: usize,
    meter: Meter,
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
    Ok(file::write(path, Kind::Run, &runner.method().save()?, &about.into())?)
}

/// The state of the method of a run.
pub fn read_state(path: &Path, device: &Device) -> Result<State> {
    Ok(file::read(path, Kind::Run, device)?.state)
}

/// A run that stopped, read and found to be of the same subject.
pub struct Stopped {
    state: State,
    progress: Progress,
}

/// Reads the run of `task` that stopped at `path`. One of another configuration is refused with the first key that
/// differs, and one of other images too.
pub fn read(path: &Path, task: Task<'_>, subject: Subject<'_>, device: &Device) -> Result<Stopped> {
    let refuse =
        |expected: String, found: String| Error::Checkpoint { expected, found, path: path.into() };
    let Saved { state, about } = file::read(path, Kind::Run, device)?;
    let other = about.get(CONFIG).map_or("", String::as_str);
    if let Some((key, ours, theirs)) = subject.config.difference(other)? {
        return Err(refuse(format!("{key} = {ours}"), format!("{key} = {theirs}")));
    }
    let images = about.get(IMAGES).map_or("", String::as_str);
    if images != subject.images {
        return Err(refuse(
            format!("a run of the images of {}", subject.config.data.path.display()),
            "a run of other images, or of these before they were changed".into(),
        ));
    }
    let progress: Progress = file::entry(&about, PROGRESS, path)?;
    if let Err(found) = task.accepts(&progress.meter, progress.position) {
        return Err(refuse("a place in the stream and counts of its domains".into(), found));
    }
    Ok(Stopped { state, progress })
}

impl Stopped {
    /// Puts `runner` where this run stood.
    pub fn restore(self, runner: &mut Runner<'_>) -> Result<()> {
        let Progress { position, meter } = self.progress;
        runner.restore(&self.state, meter, position)
    }
}
