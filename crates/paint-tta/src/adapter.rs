//! A model that adapts to the images it is shown.

use std::fmt;
use std::path::Path;

use paint_data::Image;
use paint_run::Session;
use paint_run::config::Model;
use paint_run::session::{Guarded, Prediction, Weight};
use paint_tensor::{Device, Tensor};

use crate::error::Error;
use crate::{Batch, Builder, Event, Result};

type Observer = Box<dyn FnMut(Event<'_>) + Send>;

/// A pre-trained classifier and the method that adapts it.
///
/// [`Adapter::step`] adapts to a batch and predicts it; [`Adapter::predict`] predicts and changes nothing. A step
/// that fails leaves everything as it was.
///
/// ```
/// use paint_tta::{Adapter, embedded_images};
///
/// # fn main() -> paint_tta::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let state = folder.path().join("state.safetensors");
/// let images = embedded_images(8)?;
/// let mut adapter = Adapter::builder("embedded").method("tent").set("lr", 0.01).open()?;
/// let source = adapter.predict(&images)?;
/// adapter.step(&images)?;
/// adapter.save(&state)?;
///
/// // Another process, another day.
/// let mut later = Adapter::builder("embedded").method("tent").set("lr", 0.01).open()?;
/// later.load(&state)?;
/// assert_eq!(later.predict(&images)?, adapter.predict(&images)?);
///
/// later.reset()?;
/// assert_eq!(later.predict(&images)?, source);
/// # Ok(())
/// # }
/// ```
pub struct Adapter {
    session: Session,
    observers: Vec<Observer>,
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.session.deployment().config;
        f.debug_struct("Adapter").field("config", config).finish_non_exhaustive()
    }
}

impl Adapter {
    /// A file of weights, or a [`Model`] for more control. The name `embedded` stands for the small CIFAR-10 model in
    /// this library.
    pub fn builder(model: impl Into<Model>) -> Builder {
        Builder::new(model.into())
    }

    pub(crate) fn new(session: Session) -> Self {
        Self { session, observers: Vec::new() }
    }

    /// Adapts to a batch of images of any size and predicts it.
    pub fn step(&mut self, images: &[Image]) -> Result<Batch> {
        let images = self.fitted(images)?;
        self.step_on(&images)
    }

    /// Adapts to a batch `[B, 3, H, W]` in [0, 1] at the model's size, on the adapter's [device](Self::device), and
    /// predicts it.
    pub fn step_on(&mut self, images: &Tensor) -> Result<Batch> {
        let batch = Batch::new(self.session.step(images)?)?;
        self.tell(Event::Stepped(&batch));
        Ok(batch)
    }

    /// Predicts images of any size with the present state, which does not change.
    pub fn predict(&self, images: &[Image]) -> Result<Vec<Prediction>> {
        Ok(self.session.predict(images)?)
    }

    /// The logits `[B, C]`, row by row, of a batch as [`Self::step_on`] takes it. The state does not change.
    pub fn logits(&self, images: &Tensor) -> Result<Vec<f32>> {
        Ok(self.session.method().predict(images)?.to_vec()?)
    }

    /// Images of any size as the batch `[B, 3, H, W]` that the model takes.
    pub fn fitted(&self, images: &[Image]) -> Result<Tensor> {
        Ok(self.session.upload(images)?)
    }

    /// Where the model lives.
    pub fn device(&self) -> &Device {
        self.session.deployment().device()
    }

    /// The weights as adaptation left them, with timm's names. Prompts and statistics lie beside the network and are
    /// no part of them; a method that changes no parameter is an error.
    pub fn weights(&self) -> Result<Vec<Weight>> {
        Ok(self.session.weights()?)
    }

    /// What the guard saw and did so far, if there is one.
    pub fn guarded(&self) -> Option<&Guarded> {
        self.session.summary().guard.as_ref()
    }

    /// Goes back to the source model.
    pub fn reset(&mut self) -> Result<()> {
        self.session.reset()?;
        self.tell(Event::Reset);
        Ok(())
    }

    /// Writes everything that adaptation changed, with a checksum. The file is replaced as a whole or stays as it was.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.session.save_to(path.as_ref())?;
        self.tell(Event::Saved(path.as_ref()));
        Ok(())
    }

    /// Continues from a saved state. One that is damaged, or belongs to other weights or settings, is refused.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.session.load_from(path.as_ref()).map_err(Error::of_state)?;
        self.tell(Event::Loaded(path.as_ref()));
        Ok(())
    }

    /// Calls `observer` with everything that happens from now on.
    pub fn observe(&mut self, observer: impl FnMut(Event<'_>) + Send + 'static) {
        self.observers.push(Box::new(observer));
    }

    fn tell(&mut self, event: Event<'_>) {
        self.observers.iter_mut().for_each(|observe| observe(event));
    }

    /// The name of a class, if the files beside the weights have one.
    pub fn class_name(&self, class: usize) -> Option<&str> {
        self.session.class_name(class)
    }

    /// What the model calls its classes, in order; nothing if they have no names.
    pub fn class_names(&self) -> &[String] {
        self.session.class_names()
    }

    /// How many classes the model tells apart.
    pub fn num_classes(&self) -> usize {
        self.session.deployment().model().spec().num_classes
    }

    /// The network and its preprocessing, with everything filled in that the files beside the weights say.
    pub fn model(&self) -> &Model {
        &self.session.deployment().config.model
    }

    /// The name of the method, also where it was chosen for the network.
    pub fn method(&self) -> &str {
        &self.session.deployment().config.method.name
    }

    /// The settings of the method with every default written out.
    pub fn settings(&self) -> &toml::Table {
        &self.session.deployment().config.method.settings
    }
}
