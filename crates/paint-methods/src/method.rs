//! The trait that every method implements, and the result of one batch.

use std::sync::Arc;

pub use paint_nn::state::State;

use paint_nn::backbone::{Backbone, Features};
use paint_tensor::Tensor;

use crate::report::Report;
use crate::{Error, Result};

/// The result of one batch.
#[derive(Debug, Clone)]
pub struct Step {
    /// `[B, C]`, the prediction that counts.
    pub logits: Tensor,
    /// Numbers of the step by name (losses, confident samples, ...), for logs and reports.
    pub scalars: Vec<(&'static str, f64)>,
    /// The prompt that was used, for methods with a prompt memory.
    pub prompt: Option<PromptUse>,
}

/// Which prompt a batch used.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptUse {
    /// The number of the one that made the prediction; a number is never given twice.
    pub index: usize,
    /// True if it was allocated for this batch.
    pub allocated: bool,
    /// The numbers of all prompts that the batch allocated, in order: at most one, unless the memory is asked at every
    /// forward pass.
    pub made: Vec<usize>,
    /// `r_s`, Eq. 4: the mean similarity of the batch to the key that won its vote; `None` where nothing was voted on.
    pub reliability: Option<f32>,
}

/// Predicts with the state that a method had when it was asked for this, while the method takes its next steps.
pub trait Predictor: Send + Sync {
    /// `[B, C]` logits, as [`Method::predict`] gave them then.
    fn logits(&self, images: &Tensor) -> Result<Tensor>;
    /// The same, as [`Method::predict_beside`] does it.
    fn logits_beside(&self, images: &Tensor, _frozen: &Features) -> Result<Tensor> {
        self.logits(images)
    }
}

/// A method of test-time adaptation. Images are `[B, 3, H, W]` with values in [0, 1]; the model normalises them itself.
pub trait Method: Send {
    /// Adapts to a batch and predicts it. After an error the state is what it was before.
    fn step(&mut self, images: &Tensor) -> Result<Step>;
    /// The same where the caller has what a forward pass of the frozen model gives for these images, so that a method
    /// which reads it needs no such pass of its own. The logits are those of the classes that compete.
    fn step_beside(&mut self, images: &Tensor, _frozen: &Features) -> Result<Step> {
        self.step(images)
    }
    /// The same with images from a memory, which say nothing of those that the stream has now.
    fn lesson(&mut self, images: &Tensor) -> Result<Step> {
        self.step(images)
    }
    /// `[B, C]` logits with the current state, which does not change.
    fn predict(&self, images: &Tensor) -> Result<Tensor>;
    /// The same where the caller has the features of the frozen model, as in [`Self::step_beside`].
    fn predict_beside(&self, images: &Tensor, _frozen: &Features) -> Result<Tensor> {
        self.predict(images)
    }
    /// The same, to measure forgetting: the images may come from a domain that the method has not met. What it would
    /// allocate for such a domain is allocated for this call only.
    fn probe(&self, images: &Tensor) -> Result<Tensor> {
        self.predict(images)
    }
    /// A copy whose steps tune the prompt of their images' domain and nothing else, to probe with a prompt that was
    /// learnt; none for methods that have no such prompts.
    fn prompt_learner(&self) -> Option<Box<dyn Method>> {
        None
    }
    /// What predicts with the present state while the next steps run; none if a prediction has to wait for them.
    fn predictor(&self) -> Option<Arc<dyn Predictor>> {
        None
    }
    /// Back to the source model, bit for bit.
    fn reset(&mut self) -> Result<()>;
    /// Everything that adaptation changed. A method that is built in the same way continues from it bit for bit.
    fn save(&self) -> Result<State>;
    /// Continues from a saved state.
    fn load(&mut self, state: &State) -> Result<()>;
    /// The names of the parameters that adaptation may change.
    fn trainable(&self) -> Vec<String>;
    /// The adapted model, for methods that have a single one.
    fn model(&self) -> Option<&dyn Backbone> {
        None
    }
    /// Whether the logits of an image depend on the rest of its batch.
    fn mixes_images(&self) -> bool {
        self.model().is_some_and(Backbone::mixes_images)
    }
    /// Sets the true domain of the next batches, for oracle experiments; most methods ignore it.
    fn set_domain(&mut self, _domain: Option<usize>) {}
    /// Whether single images and runs of one class are dealt with by the method itself, so that a
    /// [`Stream`](crate::stream::Stream) leaves it alone.
    fn takes_any_stream(&self) -> bool {
        false
    }
    /// Whether predictions are corrected for the classes that come, so that a [`Guard`](crate::guard::Guard) lets runs
    /// of one class pass.
    fn corrects_for_classes(&self) -> bool {
        false
    }
    /// Whether the classifier is the method's own, whose confidence a [`Guard`](crate::guard::Guard) cannot compare
    /// with the frozen model's.
    fn has_own_classifier(&self) -> bool {
        false
    }
    /// What a guard did about the last step, for methods under one.
    fn guard(&self) -> Option<&Report> {
        None
    }
}

/// The numbers of a saved tensor, if there are as many as expected.
pub(crate) fn vector(state: &State, name: &str, len: usize) -> Result<Vec<f32>> {
    let tensor = state.tensor(name)?;
    if tensor.elem_count() != len {
        return Err(Error::State {
            expected: format!("{len} numbers of {name:?}"),
            found: tensor.elem_count().to_string(),
        });
    }
    Ok(tensor.to_vec()?)
}

/// A state without the part that was nested under `part/`.
pub(crate) fn without(state: &State, part: &str) -> State {
    let is_other =
        |name: &String| !name.strip_prefix(part).is_some_and(|rest| rest.starts_with('/'));
    let mut rest = state.clone();
    rest.tensors.retain(|name, _| is_other(name));
    rest.counters.retain(|name, _| is_other(name));
    rest
}
