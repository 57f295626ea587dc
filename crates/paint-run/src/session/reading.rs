//! Images on their way through a session.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use paint_data::{Loader, ReadAhead, SampleRef, Stream};

use super::event::{BatchDone, Event, Predicted, Skipped};
use super::images::{Images, List, Source};
use super::store::Place;
use super::{Adapted, Session};
use crate::Result;
use crate::event::Prompt;
use crate::model::Fitted;
use crate::upload::{Uploaded, Uploads};

/// How long a wait for the next file goes on before a request to stop is noticed.
const PAUSE: Duration = Duration::from_millis(100);

/// How images are read.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// Images of a batch; the last may have fewer.
    pub batch_size: usize,
    /// What becomes of an image that cannot be read.
    pub on_damage: OnDamage,
    /// Where a list begins.
    pub start: Start,
    /// Once true, the reading ends after the present batch.
    pub stop: Option<&'a AtomicBool>,
}

impl Reading<'_> {
    /// In batches of this size, damaged images left out, from where a session before was stopped to the end.
    pub fn new(batch_size: usize) -> Self {
        let (on_damage, start) = (OnDamage::default(), Start::default());
        Self { batch_size, on_damage, start, stop: None }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// What becomes of an image that cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// It is left out of its batch and reported.
    #[default]
    Skip,
    /// The reading ends with an error.
    Stop,
}

/// Where the reading of a list begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// Where the session before stopped, if it read the same list and did not finish it.
    #[default]
    WhereStopped,
    /// With the first image.
    First,
}

/// How a reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With the last image.
    Finished,
    /// Before, because it was told to.
    Stopped,
}

type Observe<'a> = dyn FnMut(&Event) -> Result<()> + 'a;

impl Session {
    /// Adapts to images batch by batch; `observe` hears of everything, and ends the reading if it fails. Whatever
    /// ends it, what was learnt is saved first, unless the method broke down. A batch of a list that `observe` failed
    /// on counts as not read: the next session predicts it again.
    pub fn read(
        &mut self,
        images: &Images,
        reading: Reading<'_>,
        observe: &mut Observe<'_>,
    ) -> Result<End> {
        let end = match &images.0 {
            Source::List(list) => self.read_list(list, reading, observe),
            Source::Incoming { files, exif } => {
                let (is_repeated, seen) = (false, self.images_seen());
                observe(&Event::Started { images: None, position: 0, is_repeated, seen })?;
                let list = |files| List::files(files, *exif);
                self.read_incoming(files, list, reading, observe)
            }
        };
        let saved = self.save_and_tell(observe);
        end.and_then(|end| saved.map(|()| end))
    }

    fn save_and_tell(&mut self, observe: &mut Observe<'_>) -> Result<()> {
        if self.save()? { observe(&Event::Saved) } else { Ok(()) }
    }

    fn read_list(
        &mut self,
        list: &List,
        reading: Reading<'_>,
        observe: &mut Observe<'_>,
    ) -> Result<End> {
        let earlier = self.earlier_position(list).filter(|_| self.learns);
        let is_repeated = earlier == Some(list.len());
        let mut position =
            earlier.filter(|_| reading.start == Start::WhereStopped && !is_repeated).unwrap_or(0);
        let (images, seen) = (Some(list.len()), self.images_seen());
        observe(&Event::Started { images, position, is_repeated, seen })?;
        for batch in self.uploads(list, position, reading)? {
            let batch = batch?;
            position += batch.plan.samples.len() + batch.damaged.len();
            self.read_batch(batch, list, observe)?;
            self.progress.list = list.id.clone().map(|list| Place { list, position });
            if self.is_save_due() {
                self.save_and_tell(observe)?;
            }
            if reading.is_stopped() && position < list.len() {
                return Ok(End::Stopped);
            }
        }
        Ok(End::Finished)
    }

    fn read_incoming(
        &mut self,
        files: &Receiver<PathBuf>,
        list: impl Fn(Vec<PathBuf>) -> List,
        reading: Reading<'_>,
        observe: &mut Observe<'_>,
    ) -> Result<End> {
        self.progress.list = None;
        loop {
            let (named, is_last) = next_files(files, reading);
            if !named.is_empty() {
                let list = list(named);
                for batch in self.uploads(&list, 0, reading)? {
                    self.read_batch(batch?, &list, observe)?;
                }
                if self.is_save_due() {
                    self.save_and_tell(observe)?;
                }
            }
            if is_last {
                return Ok(if reading.is_stopped() { End::Stopped } else { End::Finished });
            }
        }
    }

    /// How far an earlier session has read the same list.
    fn earlier_position(&self, list: &List) -> Option<usize> {
        let place = self.progress.list.as_ref()?;
        (Some(&place.list) == list.id.as_ref()).then_some(place.position.min(list.len()))
    }

    /// The batches of a list from a position on, at the model's size and on its device.
    fn uploads(&self, list: &List, position: usize, reading: Reading<'_>) -> Result<Uploads> {
        let (spec, resize) = (self.deployment.model().spec(), self.deployment.config.model.resize);
        let dataset = Arc::new(Fitted::new(Arc::clone(&list.dataset), &spec.preprocess, resize)?);
        let samples: Vec<SampleRef> = (position..list.len())
            .map(|place| SampleRef { domain: 0, index: list.at(place) })
            .collect();
        let load = match reading.on_damage {
            OnDamage::Skip => Loader::skipping_damaged,
            OnDamage::Stop => Loader::new,
        };
        let loader = load(dataset, Stream::of(&samples, reading.batch_size), ReadAhead::default());
        Ok(Uploads::new(loader, self.deployment.device()))
    }

    fn read_batch(
        &mut self,
        batch: Uploaded,
        list: &List,
        observe: &mut Observe<'_>,
    ) -> Result<()> {
        let Uploaded { images, plan, damaged, .. } = batch;
        let name = |sample: &SampleRef| list.name(sample.index);
        self.summary.skipped += damaged.len() as u64;
        let mut done = BatchDone {
            index: self.summary.batches,
            skipped: damaged
                .into_iter()
                .map(|damaged| Skipped { file: name(&damaged.sample), why: damaged.why })
                .collect(),
            ..BatchDone::default()
        };
        if plan.samples.is_empty() {
            // Nothing was learnt, but the place in the list is new.
            self.unsaved += usize::from(self.learns);
            return observe(&Event::BatchDone(done));
        }
        let step = self.step_named(&images, |index| name(&plan.samples[index]))?;
        let Adapted { predictions, scalars, prompt, guard, ms, .. } = step;
        let named = plan.samples.iter().map(name).zip(predictions);
        done.predictions = named.map(|(file, prediction)| Predicted { file, prediction }).collect();
        done.scalars = scalars.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        done.prompt = prompt.as_ref().map(Prompt::from);
        done.guard = guard;
        done.ms = ms;
        observe(&Event::BatchDone(done))
    }
}

/// The files of the next batch, and whether there are no more: the sender is gone, or it is time to stop.
fn next_files(files: &Receiver<PathBuf>, reading: Reading<'_>) -> (Vec<PathBuf>, bool) {
    let mut named = Vec::new();
    while named.len() < reading.batch_size.max(1) {
        match files.recv_timeout(PAUSE) {
            Ok(file) => named.push(file),
            Err(RecvTimeoutError::Timeout) if !reading.is_stopped() => {}
            Err(_) => return (named, true),
        }
        if reading.is_stopped() {
            return (named, true);
        }
    }
    (named, reading.is_stopped())
}
