//! What happens to an [`Adapter`](crate::Adapter), and what it says about a batch.

use std::path::Path;

use paint_methods::PromptUse;
use paint_run::event::Intervention;
use paint_run::session::{Adapted, Prediction};

use crate::Result;

/// One thing that happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A batch was adapted to and predicted.
    Stepped(&'a Batch),
    /// The source model is back.
    Reset,
    /// The state was written to this file.
    Saved(&'a Path),
    /// The state was read from this file.
    Loaded(&'a Path),
}

/// What the model says about a batch that it adapted to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Batch {
    /// One for each image, in their order. Adaptation raises confidence even where it does harm: do not read it as
    /// accuracy.
    pub predictions: Vec<Prediction>,
    /// `[B, C]`, row by row.
    pub logits: Vec<f32>,
    /// The method's own figures by name: losses, confident samples, and so on.
    pub scalars: Vec<(&'static str, f64)>,
    /// The prompt that was used, for methods with a prompt memory.
    pub prompt: Option<PromptUse>,
    /// What the guard did about the batch, if there is one and it did anything.
    pub guard: Option<Intervention>,
    /// Time in the method, in milliseconds.
    pub ms: f64,
}

impl Batch {
    pub(crate) fn new(adapted: Adapted) -> Result<Self> {
        let Adapted { predictions, logits, scalars, prompt, guard, ms } = adapted;
        Ok(Self { predictions, logits: logits.to_vec()?, scalars, prompt, guard, ms })
    }
}
