//! A training from its first epoch (or the one it was stopped after) to its files.
//!
//! Test images are looked at, never chosen by: the model that is written is that of the last epoch.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use paint_rng::Seed;
use serde::Serialize;

use crate::batch::EpochPlan;
use crate::checkpoint::{self, Position};
use crate::error::{Error, Result};
use crate::evaluate::accuracy;
use crate::event::{Epoch, Event, Observer, Progress};
use crate::export::{About, CONFIG, Numbers, STATISTICS, WEIGHTS, export};
use crate::identity::Identity;
use crate::images::LabelledImages;
use crate::meter::Meter;
use crate::trainer::Trainer;

/// Steps between two looks at loss and accuracy.
const LOOK: usize = 50;
const CHECKPOINT: &str = "checkpoint.safetensors";
const LOG: &str = "log.jsonl";
/// Every file of a training.
const OUTPUTS: [&str; 5] = [CHECKPOINT, LOG, WEIGHTS, CONFIG, STATISTICS];

/// What to do with an earlier training in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// Refuse to touch it.
    Keep,
    /// Continue it; without one, begin.
    Resume,
    /// Begin anew.
    Overwrite,
}

/// Where files go and how often.
#[derive(Debug, Clone)]
pub struct Files {
    /// The folder.
    pub out: PathBuf,
    /// Epochs between two checkpoints.
    pub checkpoint_every: usize,
    /// How numbers of the final model are stored.
    pub numbers: Numbers,
    /// The name of each class, if known.
    pub label_names: Vec<String>,
}

/// Images and habits of a training.
#[derive(Debug)]
pub struct Session<'a> {
    /// What is trained on.
    pub data: &'a LabelledImages,
    /// What is looked at.
    pub test: Option<&'a LabelledImages>,
    /// Epochs between two looks at the test images; the last epoch always ends with one.
    pub evaluate_every: usize,
    /// What makes this training this training.
    pub identity: Identity,
    /// Once true, the training ends after the present step with [`Error::Stopped`]; everything so far is saved.
    pub stop: Option<&'a AtomicBool>,
}

/// How a training ended.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The last epoch.
    pub last: Epoch,
    /// Epochs done.
    pub epochs: usize,
    /// Seconds since it was begun or continued, all included.
    pub duration_s: f64,
    /// Images a second, evaluations not counted.
    pub images_per_second: f64,
}

/// The rate of training alone.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Throughput {
    /// Timed steps.
    pub steps: usize,
    /// Images of a step.
    pub batch_size: usize,
    /// Images a second.
    pub images_per_second: f64,
    /// Milliseconds a step.
    pub ms_per_step: f64,
    /// Seconds of the steps before, which compile kernels and fill pools.
    pub warmup_s: f64,
}

/// Time spent on steps since the training was begun or continued.
#[derive(Debug, Default)]
struct Pace {
    seconds: f64,
    images: usize,
}

impl Pace {
    fn rate(&self) -> f64 {
        self.images as f64 / self.seconds.max(1e-9)
    }
}

impl Session<'_> {
    /// Steps of an epoch.
    fn steps(&self, trainer: &Trainer) -> usize {
        (self.data.labels.len() / trainer.recipe.batch_size).max(1)
    }

    /// Trains to the end; leaves `checkpoint.safetensors`, `log.jsonl`, `model.safetensors` and `config.json`.
    pub fn run(
        &self,
        trainer: &mut Trainer,
        files: &Files,
        earlier: Earlier,
        mut observer: impl Observer,
    ) -> Result<Summary> {
        let begun = Instant::now();
        let path = files.out.join(CHECKPOINT);
        let io = |source| Error::Io { action: "create", source, path: files.out.clone() };
        paint_files::create_folder(&files.out).map_err(io)?;
        let _claim = paint_files::claim(&files.out)?;
        let (epochs, steps) = (trainer.recipe.epochs, self.steps(trainer));
        let taken = OUTPUTS.iter().any(|name| files.out.join(name).exists());
        let mut position = match earlier {
            Earlier::Resume if path.exists() => {
                checkpoint::resume(&path, trainer, &self.identity, steps)?
            }
            Earlier::Keep | Earlier::Resume if taken => {
                return Err(Error::Earlier { path: files.out.clone() });
            }
            _ => Position::default(),
        };
        clean(&files.out, earlier == Earlier::Overwrite)?;
        let done = position.history.len();
        observer.observe(&Event::Started { done, epochs, steps });
        let save = |trainer: &Trainer, position: &Position| {
            checkpoint::save(&path, trainer, &self.identity, position)
        };
        let mut pace = Pace::default();
        for epoch in done..epochs {
            let mut meter = Meter::begun(std::mem::take(&mut position.begun));
            let Some(mut row) = self.epoch(trainer, epoch, &mut meter, &mut pace, &mut observer)?
            else {
                position.begun = meter.sums();
                save(trainer, &position)?;
                return Err(position.stopped(&files.out));
            };
            let due =
                |every: usize| epoch + 1 == epochs || (epoch + 1).is_multiple_of(every.max(1));
            let (saves, looks) = (due(files.checkpoint_every), due(self.evaluate_every));
            position.history.push(row);
            if saves && looks {
                // What comes next needs memory of its own: the epoch must not be lost with it.
                save(trainer, &position)?;
            }
            if looks {
                self.evaluate(trainer, &mut row)?;
                position.history[epoch] = row;
            }
            observer.observe(&Event::EpochDone(row));
            let stops = self.is_stopped() && epoch + 1 < epochs;
            if saves || stops {
                save(trainer, &position)?;
                write_log(&files.out.join(LOG), &position.history)?;
                observer.observe(&Event::Saved { epochs: position.history.len() });
            }
            if stops {
                return Err(position.stopped(&files.out));
            }
        }
        let history = position.history;
        let model = match trainer.averaged()? {
            Some(model) => model,
            None => trainer.raw()?,
        };
        let label_names = &files.label_names;
        let about = About { identity: &self.identity, last: history.last(), label_names };
        export(&files.out, &*model, files.numbers, &about)?;
        let last = *history.last().ok_or_else(|| Error::recipe("epochs: expected at least one"))?;
        Ok(Summary {
            last,
            epochs: history.len(),
            duration_s: begun.elapsed().as_secs_f64(),
            images_per_second: if pace.images > 0 { pace.rate() } else { last.images_per_second },
        })
    }

    /// Times `steps` steps after some that are not counted; nothing is written.
    pub fn time(&self, trainer: &mut Trainer, steps: usize) -> Result<Throughput> {
        let plan = self.plan(trainer, 0);
        let order = plan.order();
        let per_epoch = self.steps(trainer);
        let device = trainer.device.clone();
        let mut meter = Meter::default();
        let mut go = |trainer: &mut Trainer, count: usize| -> Result<f64> {
            let begun = Instant::now();
            for i in 0..count {
                let batch = plan.batch(&order, i % per_epoch);
                let lr = trainer.recipe.schedule.rate(trainer.recipe.lr, i, count, per_epoch);
                meter.push(trainer.step(&self.data.images, &batch, lr)?, batch.labels);
                if meter.waiting() >= LOOK {
                    meter.read(i)?;
                }
            }
            meter.read(count)?;
            device.synchronize()?;
            Ok(begun.elapsed().as_secs_f64())
        };
        let warmup_s = go(trainer, (steps / 4).max(3))?;
        let seconds = go(trainer, steps)?;
        let batch_size = trainer.recipe.batch_size.min(self.data.labels.len());
        Ok(Throughput {
            steps,
            batch_size,
            images_per_second: (steps * batch_size) as f64 / seconds,
            ms_per_step: 1e3 * seconds / steps.max(1) as f64,
            warmup_s,
        })
    }

    fn plan(&self, trainer: &Trainer, epoch: usize) -> EpochPlan<'_> {
        let spec = trainer.model.spec();
        EpochPlan {
            recipe: &self.identity.recipe,
            data: self.data,
            size: spec.image_size,
            depth: spec.depth,
            seed: Seed(self.identity.seed),
            epoch,
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// The rest of an epoch, of which `meter` has counted a part; none if it was stopped before its end.
    fn epoch(
        &self,
        trainer: &mut Trainer,
        epoch: usize,
        meter: &mut Meter,
        pace: &mut Pace,
        observer: &mut impl Observer,
    ) -> Result<Option<Epoch>> {
        let plan = self.plan(trainer, epoch);
        let (order, steps) = (plan.order(), self.steps(trainer));
        let total = trainer.recipe.epochs * steps;
        let (mut lr, begun) = (0.0, Instant::now());
        let (before, mut seen) = (pace.seconds, 0);
        for step in meter.sums().steps..steps {
            let batch = plan.batch(&order, step);
            lr = trainer.recipe.schedule.rate(trainer.recipe.lr, trainer.step, total, steps);
            seen += batch.labels.len();
            pace.images += batch.labels.len();
            meter.push(trainer.step(&self.data.images, &batch, lr)?, batch.labels);
            let stops = self.is_stopped();
            if meter.waiting() >= LOOK || step + 1 == steps || stops {
                meter.read(trainer.step)?;
                pace.seconds = before + begun.elapsed().as_secs_f64();
                let left = ((total - trainer.step) * trainer.recipe.batch_size) as f64;
                observer.observe(&Event::Progress(Progress {
                    epoch: epoch + 1,
                    step: step + 1,
                    loss: meter.loss(),
                    train_accuracy: meter.accuracy(),
                    images_per_second: pace.rate(),
                    remaining_s: left / pace.rate(),
                }));
            }
            if stops && step + 1 < steps {
                return Ok(None);
            }
        }
        Ok(Some(Epoch {
            epoch: epoch + 1,
            loss: meter.loss(),
            train_accuracy: meter.accuracy(),
            lr,
            images_per_second: seen as f64 / (pace.seconds - before).max(1e-9),
            test_accuracy: None,
            averaged_test_accuracy: None,
        }))
    }

    fn evaluate(&self, trainer: &Trainer, row: &mut Epoch) -> Result<()> {
        let Some(test) = self.test else { return Ok(()) };
        let batch = trainer.recipe.batch_size;
        row.test_accuracy = Some(accuracy(&*trainer.raw()?, test, batch)?);
        row.averaged_test_accuracy =
            trainer.averaged()?.map(|model| accuracy(&*model, test, batch)).transpose()?;
        Ok(())
    }
}

/// Removes what a training that was killed while writing left half done, and, to begin anew, all that an earlier one
/// left.
fn clean(out: &Path, anew: bool) -> Result<()> {
    let fail = |action| move |source| Error::Io { action, source, path: out.to_owned() };
    for output in OUTPUTS {
        let path = out.join(output);
        paint_files::remove_leftovers(&path).map_err(fail("remove a file of"))?;
        if anew && path.exists() {
            fs::remove_file(&path).map_err(fail("remove a file of"))?;
        }
    }
    Ok(())
}

/// One line an epoch.
fn write_log(path: &Path, history: &[Epoch]) -> Result<()> {
    Ok(paint_data::write_atomically(path, |out| {
        for row in history {
            serde_json::to_writer(&mut *out, row)?;
            writeln!(out)?;
        }
        Ok(())
    })?)
}
