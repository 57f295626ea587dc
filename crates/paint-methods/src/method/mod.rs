//! The trait every method implements, and the table of all of them.

use std::collections::BTreeMap;

use paint_tensor::Tensor;

use crate::Result;

/// What one batch gave.
#[derive(Debug, Clone)]
pub struct Step {
    /// `[B, C]`, the prediction that counts.
    pub logits: Tensor,
    /// Figures of the step by name (losses, confident samples, ...), for logs and reports.
    pub scalars: Vec<(&'static str, f64)>,
    /// The prompt that was used, for methods with a prompt memory.
    pub prompt: Option<PromptUse>,
}

/// Which prompt a batch used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PromptUse {
    /// Its index in the memory.
    pub index: usize,
    /// True if it was allocated for this batch.
    pub allocated: bool,
    /// `r_s`, Eq. 4: the mean similarity of the batch to the key; `None` for the very first prompt.
    pub reliability: Option<f32>,
}

/// The whole adaptation state by name: tensors that changed, counters, moments. Enough to continue with the same bits.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Arrays by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
}

/// A method of test-time adaptation. Images are `[B, 3, H, W]` with values in [0, 1]; the model normalises them itself.
pub trait Method: Send {
    /// Adapts to a batch and predicts it.
    fn step(&mut self, images: &Tensor) -> Result<Step>;
    /// `[B, C]` logits with the present state, which does not change.
    fn predict(&self, images: &Tensor) -> Result<Tensor>;
    /// Back to the source model, bit for bit.
    fn reset(&mut self) -> Result<()>;
    /// Everything that adaptation changed.
    fn save(&self) -> Result<State>;
    /// Continues from a saved state.
    fn load(&mut self, state: &State) -> Result<()>;
    /// The names of the parameters that adaptation may change.
    fn trainable(&self) -> Vec<String>;
    /// Tells the true domain, for oracle experiments; methods that take no oracle ignore it.
    fn set_domain(&mut self, _domain: Option<usize>) {}
}

/// A row of [`METHODS`].
pub struct MethodEntry {
    /// The name in TOML, on the command line and in results.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// One line on what it does.
    pub what: &'static str,
}

/// Every method.
pub const METHODS: &[MethodEntry] = &[];
