//! A stream in the hands of the thread that learns: its session, and when it is saved.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use paint_methods::guard::Acted;
use paint_run::Session;
use paint_run::session::{Adapted, history};
use paint_tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::job::mean_entropy;
use crate::clock::now;
use crate::fault::Fault;
use crate::looks::Looks;
use crate::metrics::Metrics;
use crate::model::Model;
use crate::stream::{Key, Live, Point, kept};
use crate::thumbnail;

/// What is kept beside the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    /// Resets and rollbacks so far.
    pub(super) generation: u64,
    pub(super) is_frozen: bool,
}

/// A stream that learns.
pub(super) struct Held {
    pub(super) session: Session,
    pub(super) live: Arc<Live>,
    /// Its file.
    path: PathBuf,
    meta: Meta,
    meta_path: PathBuf,
    /// Images that wait, while the stream is on the disk.
    kept_path: PathBuf,
    unsaved: u64,
    since_snapshot: u64,
}

pub(super) fn io(action: &str, path: &Path, error: &std::io::Error) -> Fault {
    Fault::Failed(format!("cannot {action} {}: {error}", path.display()))
}

/// No snapshot is the one that was asked for.
pub(super) fn missing(error: paint_run::Error) -> Fault {
    match error {
        paint_run::Error::Checkpoint { .. } => Fault::NotFound(error.to_string()),
        other => other.into(),
    }
}

/// A fault of the content of a file says what heals it; one of the disk may pass.
pub(super) fn unreadable(error: paint_run::Error) -> Fault {
    if error.is_damaged_file() { damaged(&error, "") } else { error.into() }
}

pub(super) fn read_meta(path: &Path) -> Result<Meta, Fault> {
    let found = |error| {
        let why = format!("expected what paint serve writes, found {error}: {}", path.display());
        damaged(&why, "freeze or resume the stream, ")
    };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(found),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Meta::default()),
        Err(error) => Err(io("read", path, &error)),
    }
}

pub(super) fn write_meta(path: &Path, meta: Meta) -> Result<(), Fault> {
    let text = serde_json::json!(meta).to_string();
    paint_files::write_atomically(path, |file| std::io::Write::write_all(file, text.as_bytes()))
        .map_err(|error| io("write", path, &error))
}

/// `first` names what heals this file beside what heals all.
fn damaged(why: &impl fmt::Display, first: &str) -> Fault {
    let remedy = format!("{first}roll the stream back to a snapshot, or reset it");
    Fault::Damaged(format!("the stream cannot be read ({remedy}): {why}"))
}

impl Held {
    /// From the disk, or new from the source model.
    pub(super) fn open(key: &Key) -> Result<Self, Fault> {
        let model = &key.model;
        let (path, lease) = model.storage.open(&key.id)?;
        let meta_path = path.with_extension("json");
        let meta = read_meta(&meta_path)?;
        let deployment = Arc::clone(&model.deployment);
        let session = Session::with_state(deployment, &path, 0).map_err(unreadable)?;
        let live = Arc::new(Live::new(key.clone(), lease));
        {
            let mut inside = live.lock();
            inside.used = Some(Instant::now());
            inside.is_frozen = meta.is_frozen;
        }
        let kept_path = path.with_extension("pending");
        let kept = kept::take(&kept_path, model.image_len());
        if let Some(pixels) = kept.map_err(|error| io("read", &kept_path, &error))? {
            live.lock().pending.push(model.upload(pixels)?, usize::MAX);
        }
        let (unsaved, since_snapshot) = (0, 0);
        if !path.exists() {
            let fresh = session.method().save()?;
            live.lock().bytes = fresh.tensors.values().map(|tensor| 4 * tensor.elem_count()).sum();
        }
        let held =
            Self { session, live, path, meta, meta_path, kept_path, unsaved, since_snapshot };
        held.measure();
        held.publish();
        Ok(held)
    }

    /// What answers name the present state by: resets and rollbacks, then steps.
    pub(super) fn version(&self) -> String {
        format!("{}.{}", self.meta.generation, self.session.batches_seen())
    }

    fn metrics(&self) -> &Metrics {
        &self.live.key.model.metrics
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.meta.is_frozen
    }

    /// Lets the present state answer.
    fn publish(&self) {
        let predictor = self.session.method().predictor();
        let version = self.version();
        let mut inside = self.live.lock();
        inside.predictor = predictor;
        inside.facts.step = self.session.batches_seen();
        inside.facts.version = version;
    }

    /// A state in memory is as large as its file. Counting it otherwise would copy it.
    fn measure(&self) {
        if let Ok(about) = std::fs::metadata(&self.path) {
            self.live.lock().bytes = about.len() as usize;
        }
    }

    /// One step on a batch, recorded and published. It is saved if that is due.
    pub(super) fn step(&mut self, images: &Tensor, shared: &Shared) -> Result<Adapted, Fault> {
        let adapted = match self.session.step(images) {
            Ok(adapted) => adapted,
            Err(error) => {
                self.metrics().steps.count("outcome=\"failed\"".to_owned());
                return Err(error.into());
            }
        };
        self.metrics().step.add(std::time::Duration::from_secs_f64(adapted.ms / 1e3));
        self.record(images, &adapted, shared)?;
        self.publish();
        self.unsaved += 1;
        self.since_snapshot += 1;
        let options = &shared.options;
        if options.snapshot_every > 0 && self.since_snapshot >= options.snapshot_every {
            self.keep(options.snapshots)?;
        } else if self.unsaved >= options.checkpoint_every.max(1) {
            self.save()?;
        }
        Ok(adapted)
    }

    fn record(&mut self, images: &Tensor, adapted: &Adapted, shared: &Shared) -> Result<(), Fault> {
        let Adapted { logits, scalars, prompt, ms, .. } = adapted;
        let scalar = |name: &str| scalars.iter().find(|(key, _)| *key == name).map(|(_, it)| *it);
        let report = self.session.method().guard();
        let acted = report.and_then(|report| report.acted);
        let outcome = acted.map_or("learnt".to_owned(), |Acted { action, .. }| {
            format!("{action:?}").to_lowercase()
        });
        self.metrics().steps.count(format!("outcome=\"{outcome}\""));
        let step = self.session.batches_seen();
        if let Some(Acted { action, reason }) = acted {
            self.metrics()
                .guard
                .count(format!("action=\"{action:?}\",rule=\"{reason:?}\"").to_lowercase());
            shared.journal.audit(&self.live.key, &action.to_string(), &reason.to_string(), step);
        }
        let condition = prompt.as_ref().map(|prompt| prompt.index as u64);
        let condition = condition.or(scalar("domain").filter(|id| *id >= 0.0).map(|id| id as u64));
        let Model { classes, size, .. } = *self.live.key.model;
        let entropy = mean_entropy(&logits.to_vec()?, classes);
        let pixels = images.to_vec()?;
        let looks = Looks::of(&pixels, size);
        let small = shared.options.thumbnails.then(|| thumbnail::png(&pixels, size)).flatten();
        let estimate = report.and_then(|report| report.estimate);
        let is_known = |id: u64| self.live.lock().conditions.contains_key(&id);
        let is_new = prompt
            .as_ref()
            .map_or_else(|| condition.is_some_and(|id| !is_known(id)), |prompt| prompt.allocated);
        let point = Point {
            time: now(),
            step,
            images: logits.shape()[0],
            condition: condition.unwrap_or(0),
            is_new,
            reliability: prompt.as_ref().and_then(|prompt| prompt.reliability).map(f64::from),
            entropy: entropy / (classes.max(2) as f64).ln(),
            estimate_adapted: estimate.map(|[_, adapted]| adapted),
            estimate_frozen: estimate.map(|[frozen, _]| frozen),
            is_frozen: report.is_some_and(|report| report.frozen_answer),
            guard: acted.map(|acted| format!("{}: {}", acted.action, acted.reason)),
            ms: *ms,
        };
        let key = &self.live.key;
        let event =
            serde_json::json!({ "model": key.model.name, "stream": key.id, "point": point });
        let mut inside = self.live.lock();
        inside.facts.prompt = condition;
        inside.facts.prompt_new = point.is_new;
        inside.facts.reliability = point.reliability;
        inside.facts.estimated_accuracy = point.estimate_adapted;
        inside.facts.guard.clone_from(&point.guard);
        inside.record(point, looks, small);
        drop(inside);
        shared.journal.tell("step", &event);
        Ok(())
    }

    /// An error if another server has the stream. One whose lease has run out is written first, so that whoever takes
    /// it over goes on from what is answered now.
    pub(super) fn confirm(&mut self) -> Result<(), Fault> {
        if !self.live.is_ours() {
            self.save().map_err(|fault| self.explain(fault))?;
        }
        self.live.confirm()
    }

    /// The cause of `fault`: a server that took the stream over removes its folder here.
    pub(super) fn explain(&self, fault: Fault) -> Fault {
        self.live.confirm().err().unwrap_or(fault)
    }

    /// Writes the state, if something has changed.
    pub(super) fn save(&mut self) -> Result<(), Fault> {
        if self.session.save()? {
            self.measure();
        }
        self.unsaved = 0;
        Ok(())
    }

    /// Writes the images that wait; the stream must be out of the table, so that no more come.
    pub(super) fn keep_pending(&mut self) -> Result<(), Fault> {
        let pending = self.live.lock().pending.take(usize::MAX)?;
        let Some(pending) = pending else { return Ok(()) };
        kept::write(&self.kept_path, &pending.to_vec()?)
            .map_err(|error| io("write", &self.kept_path, &error))
    }

    /// Keeps the state as it is now, unless a pinned snapshot has its place; that is refused.
    pub(super) fn snapshot(&mut self, count: usize) -> Result<(), Fault> {
        let step = self.session.batches_seen();
        if history::is_pinned(&self.path, step) {
            return Err(Fault::Conflict(format!(
                "snapshot: expected a step without a pinned one, found one of step {step}"
            )));
        }
        self.keep(count)
    }

    /// Keeps the state as it is now; a pinned snapshot of as many steps stays, and the state is saved only.
    pub(super) fn keep(&mut self, count: usize) -> Result<(), Fault> {
        self.session.snapshot(count.max(1))?;
        self.measure();
        (self.unsaved, self.since_snapshot) = (0, 0);
        Ok(())
    }

    /// Goes back to a snapshot.
    pub(super) fn roll_back(&mut self, step: Option<u64>) -> Result<(), Fault> {
        self.session.roll_back(step).map_err(missing)?;
        self.begin_generation()
    }

    /// Pins a snapshot, or the newest.
    pub(super) fn pin(&self, step: Option<u64>) -> Result<(), Fault> {
        history::pin(&self.path, self.snapshot_step(step)?).map_err(missing)
    }

    /// Lets newer snapshots take the place of one, or of the newest.
    pub(super) fn unpin(&self, step: Option<u64>) -> Result<(), Fault> {
        history::unpin(&self.path, self.snapshot_step(step)?).map_err(missing)
    }

    fn snapshot_step(&self, step: Option<u64>) -> Result<u64, Fault> {
        let newest = || Ok(history::kept(&self.path)?.last().map(|(step, _)| *step));
        let none = || Fault::NotFound("snapshots: expected one, found none".to_owned());
        step.map_or_else(newest, |step| Ok(Some(step))).and_then(|step| step.ok_or_else(none))
    }

    /// Goes back to the source model.
    pub(super) fn reset(&mut self) -> Result<(), Fault> {
        self.session.reset()?;
        self.session.save()?;
        self.live.lock().forget();
        self.begin_generation()
    }

    fn begin_generation(&mut self) -> Result<(), Fault> {
        (self.unsaved, self.since_snapshot) = (0, 0);
        self.write_meta(Meta { generation: self.meta.generation + 1, ..self.meta })?;
        self.measure();
        self.publish();
        Ok(())
    }

    /// Stops or starts learning.
    pub(super) fn set_frozen(&mut self, is_frozen: bool) -> Result<(), Fault> {
        self.write_meta(Meta { is_frozen, ..self.meta })?;
        self.live.lock().is_frozen = is_frozen;
        Ok(())
    }

    fn write_meta(&mut self, meta: Meta) -> Result<(), Fault> {
        write_meta(&self.meta_path, meta)?;
        self.meta = meta;
        Ok(())
    }
}
