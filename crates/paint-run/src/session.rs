//! Adaptation as it is deployed: unlabelled images in, predictions out, and what is learnt in a file.
//!
//! A [`Session`] holds a method and, if asked for, the file its state is kept in: claimed, so that no second process
//! overwrites it; sealed, so that damage is noticed; saved every so many batches, and whole after a crash. It takes
//! images as they come ([`Session::adapt`]), or reads a whole list ([`Session::read`]), where it skips damaged files,
//! stops when told to, and goes on where an earlier process stopped.
//!
//! ```no_run
//! use paint_run::config::{Method, Model};
//! use paint_run::{Deployment, Session, deployment};
//! # fn camera() -> paint_data::Image { unimplemented!() }
//! # fn main() -> paint_run::Result<()> {
//! let config = deployment::Config::new(Model::new("vit.safetensors"), Method::named("paint"));
//! let mut session = Session::with_state(Deployment::open(config)?, "state.safetensors", 100)?;
//! for _ in 0..1000 {
//!     for prediction in session.adapt(&[camera()])? {
//!         println!("{:?} {:.3}", session.class_name(prediction.class), prediction.confidence);
//!     }
//! }
//! session.save()?;
//! # Ok(())
//! # }
//! ```

mod event;
mod export;
pub mod history;
mod images;
mod reading;
mod store;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use paint_data::Image;
use paint_methods::guard::Account;
use paint_methods::{Method, PromptUse, Step};
use paint_tensor::Tensor;

pub use event::{BatchDone, Event, Guarded, Predicted, Prediction, Prompts, Skipped, Summary};
pub use export::{Weight, export, write_weights};
pub use images::Images;
pub use reading::{End, OnDamage, Reading, Start};
use store::{Progress, Store};

use crate::deployment::Deployment;
use crate::event::Intervention;
use crate::metric::Score;
use crate::model::{ImageFit, class_names};
use crate::{Error, Result, fit};

/// A method at work.
pub struct Session {
    deployment: Arc<Deployment>,
    method: Box<dyn Method>,
    image_fit: ImageFit,
    class_names: Vec<String>,
    store: Option<Store>,
    progress: Progress,
    summary: Summary,
    /// After how many batches the state in the file was saved, until it is replaced.
    saved_at: Option<u64>,
    /// Batches since the last save.
    unsaved: usize,
    /// Batches between two saves; 0 if only the caller saves.
    save_every: usize,
    /// Saved states to keep beside the file.
    keep: usize,
    /// False if images are predicted with the state as it is.
    learns: bool,
    /// What the guard had seen before this session.
    earlier: Account,
    /// The method gave a prediction that is none: what it learnt is not worth keeping.
    is_broken: bool,
}

/// What the method made of a batch.
#[derive(Debug, Clone)]
pub struct Adapted {
    /// One for each image.
    pub predictions: Vec<Prediction>,
    /// `[B, C]`.
    pub logits: Tensor,
    /// The method's own figures by name.
    pub scalars: Vec<(&'static str, f64)>,
    /// The prompt that was used, for methods with a prompt memory.
    pub prompt: Option<PromptUse>,
    /// What the guard did about it, if there is one and it did anything.
    pub guard: Option<Intervention>,
    /// Time in the method, in milliseconds.
    pub ms: f64,
}

impl Session {
    /// A session with a fresh method, which may take its time: some train on source images first.
    /// Several sessions may share one deployment.
    pub fn new(deployment: impl Into<Arc<Deployment>>) -> Result<Self> {
        let deployment = deployment.into();
        let config = &deployment.config.model;
        Ok(Self {
            method: deployment.method()?,
            image_fit: ImageFit::new(&deployment.model().spec().preprocess, config.resize)?,
            class_names: class_names(&config.weights)?,
            deployment,
            store: None,
            saved_at: None,
            progress: Progress::default(),
            summary: Summary::default(),
            unsaved: 0,
            save_every: 0,
            keep: 0,
            learns: true,
            earlier: Account::default(),
            is_broken: false,
        })
    }

    /// A session that keeps what it learns in a file, and begins with what is in it. The file is written every
    /// `save_every` batches; 0 leaves that to [`Self::save`]. Before anything takes its time, the file is claimed and
    /// read: another process that uses it, a place that cannot be written, damage, and a state of other weights or
    /// another method are errors.
    pub fn with_state(
        deployment: impl Into<Arc<Deployment>>,
        path: impl AsRef<Path>,
        save_every: usize,
    ) -> Result<Self> {
        let deployment = deployment.into();
        let store = Store::claim(path.as_ref(), &deployment.config)?;
        let earlier = store.read(deployment.device())?;
        let mut session = Self::new(deployment)?;
        if let Some((state, progress)) = earlier {
            session.saved_at = Some(progress.batches);
            session.begin_with(state, progress)?;
        }
        session.summary.state = Some(store.path().to_owned());
        session.store = Some(store);
        session.save_every = save_every;
        Ok(session)
    }

    /// A session that predicts with the state in a file and learns nothing. The file is only read: it may be one that
    /// nobody can write, or that another process adapts. A file that is not there is an error.
    pub fn with_frozen_state(
        deployment: impl Into<Arc<Deployment>>,
        path: impl AsRef<Path>,
    ) -> Result<Self> {
        let (deployment, path) = (deployment.into(), path.as_ref());
        let store = Store::reading(path, &deployment.config)?;
        let Some((state, progress)) = store.read(deployment.device())? else {
            let expected = "a state to predict with".to_owned();
            let found = "no such file".to_owned();
            return Err(Error::Checkpoint { expected, found, path: path.to_owned() });
        };
        let mut session = Self::new(deployment)?.without_learning();
        session.begin_with(state, progress)?;
        session.summary.state = Some(path.to_owned());
        Ok(session)
    }

    fn begin_with(&mut self, state: paint_methods::State, progress: Progress) -> Result<()> {
        self.method.load(&self.deployment.fitted(state))?;
        self.progress = progress;
        self.earlier = self.method.guard().map(|report| report.account.clone()).unwrap_or_default();
        Ok(())
    }

    /// Keeps the last `count` saved states beside the file, so that [`history::roll_back`] can restore one.
    #[must_use]
    pub fn keeping(self, count: usize) -> Self {
        Self { keep: count, ..self }
    }

    /// Predicts with the state as it is: nothing is learnt, and nothing saved.
    #[must_use]
    pub fn without_learning(self) -> Self {
        Self { learns: false, ..self }
    }

    /// Adapts to images of any size and predicts them.
    pub fn adapt(&mut self, images: &[Image]) -> Result<Vec<Prediction>> {
        let predictions = self.step(&self.upload(images)?)?.predictions;
        if self.is_save_due() {
            self.save()?;
        }
        Ok(predictions)
    }

    /// Predicts images of any size and learns nothing.
    pub fn predict(&self, images: &[Image]) -> Result<Vec<Prediction>> {
        predictions(&self.method.predict(&self.upload(images)?)?, place_in_batch)
    }

    /// Adapts to a batch `[B, 3, H, W]` in [0, 1] at the model's size and predicts it. Nothing is saved.
    pub fn step(&mut self, images: &Tensor) -> Result<Adapted> {
        self.step_named(images, place_in_batch)
    }

    /// The same; `name` says in an error what an image is called.
    fn step_named(&mut self, images: &Tensor, name: impl Fn(usize) -> String) -> Result<Adapted> {
        let begun = Instant::now();
        let (method, learns) = (&mut *self.method, self.learns);
        let step = images.device().run(|| -> Result<_> {
            if learns {
                return fit::step(method, images);
            }
            Ok(Step { logits: method.predict(images)?, scalars: Vec::new(), prompt: None })
        })?;
        let predictions = predictions(&step.logits, name);
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        self.is_broken |= predictions.is_err();
        let predictions = predictions?;
        if self.learns {
            self.unsaved += 1;
            self.progress.batches += 1;
            self.progress.images += predictions.len() as u64;
            let report = self.method.guard();
            self.summary.guard =
                report.map(|report| Guarded::from(&report.account.since(&self.earlier)));
        }
        self.summary.count(predictions.len(), &step, ms);
        let guard = Intervention::of(self.method.guard()).filter(|_| self.learns);
        let (logits, scalars, prompt) = (step.logits, step.scalars, step.prompt);
        Ok(Adapted { predictions, logits, scalars, prompt, guard, ms })
    }

    /// Forgets everything that was learnt; the file keeps it until the next save.
    pub fn reset(&mut self) -> Result<()> {
        self.method.reset()?;
        self.earlier = Account::default();
        self.progress = Progress::default();
        self.is_broken = false;
        self.unsaved += 1;
        Ok(())
    }

    /// Writes the state to its file, if the session has one and something has changed, and says whether it did. The
    /// file is replaced as a whole.
    pub fn save(&mut self) -> Result<bool> {
        let Some(store) = self.store.as_ref().filter(|_| self.unsaved > 0 && !self.is_broken)
        else {
            return Ok(false);
        };
        // The state that the session began with is one to go back to.
        if let Some(batches) = self.saved_at.filter(|_| self.keep > 0) {
            history::keep(store.path(), batches, self.keep)?;
        }
        store.save(&*self.method, &self.progress, self.keep)?;
        (self.saved_at, self.unsaved) = (None, 0);
        Ok(true)
    }

    fn is_save_due(&self) -> bool {
        self.save_every > 0 && self.unsaved >= self.save_every
    }

    /// What the model calls its classes, in order; nothing if they have no names.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// What the model calls a class, if it has a name.
    pub fn class_name(&self, class: usize) -> Option<&str> {
        self.class_names.get(class).map(String::as_str)
    }

    /// Whether images are learnt from.
    pub fn learns(&self) -> bool {
        self.learns
    }

    /// What was done so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Images that the state has adapted to, those of earlier sessions included.
    pub fn images_seen(&self) -> u64 {
        self.progress.images
    }

    /// Batches that the state has adapted to, those of earlier sessions included.
    pub fn batches_seen(&self) -> u64 {
        self.progress.batches
    }

    /// What is deployed.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// The method in its present state.
    pub fn method(&self) -> &dyn Method {
        &*self.method
    }

    /// Images of any size as the batch `[B, 3, H, W]` that the model takes.
    pub fn upload(&self, images: &[Image]) -> Result<Tensor> {
        let [height, width] = self.deployment.model().spec().image_size;
        let mut pixels = vec![0.0; images.len() * 3 * height * width];
        for (image, out) in images.iter().zip(pixels.chunks_exact_mut(3 * height * width)) {
            self.image_fit.apply(image.clone())?.to_chw(out);
        }
        let shape = [images.len(), 3, height, width];
        Ok(Tensor::from_vec(pixels, shape, self.deployment.device())?)
    }
}

fn place_in_batch(index: usize) -> String {
    format!("image {index} of the batch")
}

/// What rows of logits say; NaN and infinity say nothing.
fn predictions(logits: &Tensor, name: impl Fn(usize) -> String) -> Result<Vec<Prediction>> {
    let [_, classes] = logits.dims2("logits")?;
    let logits = logits.to_vec()?;
    let rows = logits.chunks_exact(classes).enumerate();
    rows.map(|(index, row)| {
        if row.iter().any(|logit| !logit.is_finite()) {
            return Err(Error::NoPrediction { image: name(index) });
        }
        let Score { predicted, confidence, .. } = Score::of(row, None);
        Ok(Prediction { class: predicted, confidence })
    })
    .collect()
}
