//! The file in which a session keeps what it learns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paint_files::{FileClaim, claim_file, remove_leftovers};
use paint_methods::{Method, State};
use paint_nn::state::file::{self, Kind, Saved};
use paint_tensor::Device;
use serde::{Deserialize, Serialize};

use super::{Session, history};
use crate::config::difference;
use crate::{Error, Result, deployment};

pub(super) const PROGRESS: &str = "progress";

/// How much a state has seen, and how far it has come in a list of images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    pub(super) images: u64,
    pub(super) batches: u64,
    /// The last list that was read, if it can be told from others.
    pub(super) list: Option<Place>,
}

/// A place in a list of images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// Digits that another list would not have.
    pub(super) list: String,
    /// The first image that was not adapted to.
    pub(super) position: usize,
}

/// A state file that no other process uses.
pub(super) struct Store {
    path: PathBuf,
    /// What a state belongs to: it means nothing to other weights, other preprocessing or another method.
    subject: BTreeMap<String, String>,
    /// None where the file is only read.
    _claim: Option<FileClaim>,
}

impl Store {
    pub(super) fn claim(path: &Path, config: &deployment::Config) -> Result<Self> {
        let claim = claim_file(path)?;
        let clean = |source| Error::Io { action: "clean", source, path: path.to_owned() };
        remove_leftovers(path).map_err(clean)?;
        Ok(Self { _claim: Some(claim), ..Self::reading(path, config)? })
    }

    /// A file that others may write meanwhile, or nobody can.
    pub(super) fn reading(path: &Path, config: &deployment::Config) -> Result<Self> {
        let mut subject = config.leaves()?;
        subject.retain(|key, _| is_of_subject(key));
        Ok(Self { path: path.to_owned(), subject, _claim: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The state in the file; none if there is no file.
    pub(super) fn read(&self, device: &Device) -> Result<Option<(State, Progress)>> {
        self.path.exists().then(|| self.read_from(&self.path, device)).transpose()
    }

    fn read_from(&self, path: &Path, device: &Device) -> Result<(State, Progress)> {
        let Saved { state, about } = file::read(path, Kind::Adaptation, device)?;
        let progress = file::entry(&about, PROGRESS, path)?;
        let theirs = about.into_iter().filter(|(key, _)| is_of_subject(key)).collect();
        if let Some((key, expected, found)) = difference(&self.subject, &theirs) {
            return Err(Error::OtherState { key, expected, found, path: path.to_owned() });
        }
        Ok((state, progress))
    }

    /// Writes the state, and keeps it and those before it, `keep` in all, beside the file.
    pub(super) fn save(&self, method: &dyn Method, progress: &Progress, keep: usize) -> Result<()> {
        let mut about = self.subject.clone();
        about.insert(PROGRESS.into(), serde_json::json!(progress).to_string());
        file::write(&self.path, Kind::Adaptation, &method.save()?, &about)?;
        if keep > 0 { history::keep(&self.path, progress.batches, keep) } else { Ok(()) }
    }
}

impl Session {
    /// Writes the state to a file of the caller's choice, as a whole or not at all. A session that keeps its state in
    /// a file has [`Session::save`].
    pub fn save_to(&self, path: &Path) -> Result<()> {
        if self.is_broken {
            return Err(Error::NoPrediction { image: "an earlier batch".to_owned() });
        }
        Store::claim(path, &self.deployment.config)?.save(&*self.method, &self.progress, 0)
    }

    /// Continues from a file of [`Session::save_to`]. Damage, and a state of other weights or another method, are
    /// errors that leave the session as it was.
    pub fn load_from(&mut self, path: &Path) -> Result<()> {
        let store = Store::claim(path, &self.deployment.config)?;
        let Some((state, progress)) = store.read(self.deployment.device())? else {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(Error::Io { action: "read", source, path: path.to_owned() });
        };
        self.resume(state, progress)
    }

    fn resume(&mut self, state: State, progress: Progress) -> Result<()> {
        self.method.load(&self.deployment.fitted(state))?;
        self.progress = progress;
        self.is_broken = false;
        self.unsaved += 1;
        Ok(())
    }

    /// Saves the state, and keeps a copy of it beside its file, the newest `count` in all. Says after how many
    /// batches; none for a session without a file, and for a method that broke down.
    pub fn snapshot(&mut self, count: usize) -> Result<Option<u64>> {
        let Some(store) = self.store.as_ref().filter(|_| !self.is_broken) else { return Ok(None) };
        store.save(&*self.method, &self.progress, count)?;
        self.unsaved = 0;
        Ok(Some(self.progress.batches))
    }

    /// Goes back to a copy that was kept: the one after `batches` batches, or the newest that is older than the
    /// present state. The file has it then. Says after how many batches it was kept; after an error the session is as
    /// it was.
    pub fn roll_back(&mut self, batches: Option<u64>) -> Result<u64> {
        let Some(store) = &self.store else {
            let found = "a session that keeps none".to_owned();
            let expected = "a session with a file of its state".to_owned();
            return Err(Error::Checkpoint { expected, found, path: "--state".into() });
        };
        let earlier = history::earlier(&store.path, Some(self.progress.batches), batches)?;
        let (state, progress) = store.read_from(&earlier, self.deployment.device())?;
        self.resume(state, progress)?;
        self.save()?;
        Ok(self.progress.batches)
    }
}

pub(super) fn is_of_subject(key: &str) -> bool {
    // Where files are decides nothing: their hashes are compared. Statistics that were measured later change nothing in a
    // state of a method that does not read them.
    let is_free =
        ["model.weights", "model.text_features", "model.statistics_sha256"].contains(&key);
    key.starts_with("method.") || key.starts_with("model.") && !is_free
}
